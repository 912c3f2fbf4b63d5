"use strict"

function showHeading(requests) {
  const { count, owners, origin, beganAt, length, forgotten } = requests
  const about = document.getElementById("about")
  if (count === 0) {
    about.textContent = forgotten === 0
      ? "The recording has no requests."
      : `The recording has no requests. ${counted(forgotten, "request")} ended before it.`
    document.querySelector("main").hidden = true
    return
  }
  const from = beganAt + origin / 1e6
  const parts = [
    `${calendar(from)} to ${calendar(from + length / 1e6)} (${duration(length)})`,
    `${counted(count, "request")} of ${counted(owners.length, "owner")}`,
    forgotten === 0 ? "no request is forgotten"
      : `${counted(forgotten, "earlier request")} forgotten`,
  ]
  about.textContent = parts.join(" · ")
}

function badge({ name, letter, color }) {
  const shown = element("span", { class: "badge", "aria-hidden": "true" }, letter || "\u00a0")
  shown.classList.toggle("wait", name === "waiting")
  shown.style.setProperty("--outcome", `var(${color})`)
  return shown
}

/// The legend: each outcome that occurs, with its letter, its colour and its count.
function showOutcomes({ count, outcome }) {
  const counts = new Array(OUTCOMES.length).fill(0)
  for (let row = 0; row < count; row++) counts[outcome[row]]++
  const items = OUTCOMES.map((outcome, number) => {
    return element("li", {}, badge(outcome), `${outcome.name} ${grouped(counts[number])}`)
  })
  const list = document.getElementById("outcomes")
  list.append(...items.filter((_, number) => counts[number] > 0))
}

function table(caption, headings, rows) {
  const cell = ([content, ...classes], tag) => {
    const scope = tag === "th" ? { scope: "col" } : {}
    const name = classes.length > 0 ? { class: classes.join(" ") } : {}
    return element(tag, { ...scope, ...name }, content)
  }
  return element("table", {},
    element("caption", { class: "hidden" }, caption),
    element("thead", {}, element("tr", {}, ...headings.map(heading => cell(heading, "th")))),
    element("tbody", {}, ...rows.map(row => {
      return element("tr", {}, ...row.map(content => cell(content, "td")))
    })))
}

/// A histogram with bins of 1, 2 and 5, and its percentiles.
function showDurations(id, title, note, { count, p50, p95, p99, max, bins }) {
  const figure = document.getElementById(id)
  figure.append(element("figcaption", {}, element("h2", {}, title),
    element("small", {}, `${grouped(count)} ${note}`)))
  if (count === 0) return
  const percentiles = Object.entries({ p50, p95, p99, max })
  figure.append(element("dl", { class: "percentiles" }, ...percentiles.map(([name, value]) => {
    return element("div", {}, element("dt", {}, name), element("dd", {}, duration(value)))
  })))
  const most = Math.max(...bins.map(bin => bin.count))
  const range = ({ from, to }) => from === 0 ? "at once" : `${duration(from)} to ${duration(to)}`
  const bars = bins.map(bin => {
    const bar = element("div", { title: `${range(bin)}: ${grouped(bin.count)}` })
    bar.style.height = bin.count === 0 ? "0" : `max(2px, ${100 * bin.count / most}%)`
    return bar
  })
  const words = percentiles.map(([name, value]) => `${name} ${duration(value)}`).join(", ")
  figure.append(
    element("div", { class: "bars", role: "img", "aria-label": `Histogram of ${id}: ${words}` },
      ...bars),
    element("div", { class: "edges", "aria-hidden": "true" }, ...edges(bins)),
    element("details", {}, element("summary", {}, "As a table"),
      table(title, [["duration"], ["requests", "number"]],
        bins.map(bin => [[range(bin)], [grouped(bin.count), "number"]]))))
}

/// Labels below the left edges of bars, as many as have room.
function edges(bins) {
  const step = Math.ceil(bins.length / 9)
  const label = from => from === 0 ? "at once" : duration(from)
  return bins.map(({ from }, index) => element("span", {}, index % step ? "" : label(from)))
}

/// A path can be broken behind its slashes.
function callSite(requests, row) {
  const parts = requests.callSite(row).split(/(?<=[/\\])/)
  return element("code", {}, ...parts.flatMap(part => [part, element("wbr")]))
}

/// The longest requests, each with a button that zooms to it.
function showLongest(id, title, kind, requests, timeline) {
  const { longest } = requests[`${kind}s`]
  const section = document.getElementById(id)
  section.append(element("h2", {}, title))
  if (longest.length === 0) {
    section.append(element("p", { class: "hint" }, `No ${kind} has a length.`))
    return
  }
  const headings = [[kind, "number"], ["owner"], ["call site"], ["outcome"]]
  section.append(table(title, headings, longest.map(row => {
    const length = duration(requests[kind][row])
    const zoom = element("button", {
      class: "link", click: () => timeline.show(row),
      "aria-label": `${length}, zoom to ${kind} of ${requests.title(row)}`,
    }, length)
    const { name } = requests.outcomeOf(row)
    return [[zoom, "number"], [element("bdi", {}, requests.title(row))],
      [callSite(requests, row), "site"], [name]]
  })))
}

/// Which owner waited for which.
function showPairs({ pairs, pairCount, owners, outcome, nodes }) {
  const section = document.getElementById("pairs")
  section.append(element("h2", {}, "Who waited for whom"))
  if (pairs.length === 0) {
    section.append(element("p", { class: "hint" }, "No request waited while another one held."))
    return
  }
  const shown = pairCount > pairs.length
    ? ` These are the ${pairs.length} of ${grouped(pairCount)} pairs with the most time.` : ""
  const ofNodes = nodes.includes(1) ? " A wait for nodes counts all holders of its time." : ""
  section.append(element("p", { class: "hint" },
    `The time in which a request of one owner waited and another owner held.${shown}${ofNodes}`))
  const name = owner => {
    return element("bdi", {}, owner === null ? "(other owners)" : visible(owners[owner]))
  }
  const headings = [["waited"], ["for"], ["time", "number"], ["times", "number"], ["", "meter"]]
  section.append(table("Who waited for whom", headings, pairs.map(pair => {
    const meter = element("div")
    meter.style.width = `${100 * pair.waited / pairs[0].waited}%`
    return [[name(pair.waiter)], [name(pair.holder)], [duration(pair.waited), "number"],
      [grouped(pair.times), "number"], [meter, "meter"]]
  })))
}
