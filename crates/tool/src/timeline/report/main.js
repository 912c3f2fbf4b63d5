"use strict"

async function main() {
  const requests = await Requests.read()
  showHeading(requests)
  if (requests.count > 0) {
    document.getElementById("range").textContent = `reading ${counted(requests.count, "request")}`
    await requests.readColumns()
    const timeline = new TimelineView(requests)
    timeline.draw()
    await pause()
    showOutcomes(requests)
    showDurations("waits", "Waits", "requests, with those granted at once", requests.waits)
    showDurations("holds", "Holds", "holds", requests.holds)
    showLongest("longest-waits", "The longest waits", "wait", requests, timeline)
    showLongest("longest-holds", "The longest holds", "hold", requests, timeline)
    showPairs(requests)
  }
  performance.mark("ready")
}
main()
