// The panel: the lock, its holder and its queue.

import { hue, nameOf } from "./marks.js"

const element = id => document.getElementById(id)
const millis = value => {
  return `${value === 0 || value >= 10 ? Math.round(value) : value.toPrecision(2)}\u00a0ms`
}

function owner(id, own) {
  const name = document.createElement("span")
  const isTab = /^[0-9a-f]{12}$/.test(id)
  name.textContent = (isTab ? nameOf(id) : id) + (id === own ? " (this tab)" : "")
  if (isTab) {
    name.className = "tab"
    name.style.setProperty("--hue", hue(id))
  }
  return name
}

export function showPanel(panel, own) {
  const { machine } = panel
  const has = element("owner")
  has.hidden = has.previousElementSibling.hidden = machine === null
  if (machine) has.textContent = `${machine.address}, epoch ${machine.epoch}`
  element("tabs").textContent = panel.tabs
  element("version").textContent = panel.version
  element("acquisitions").textContent = panel.acquisitions
  element("timeouts").textContent = panel.timeouts
  element("wait").textContent = `${millis(panel.wait.p50)} / ${millis(panel.wait.p99)}`
  element("hold").textContent = `${millis(panel.hold.p50)} / ${millis(panel.hold.p99)}`
  const holder = element("holder")
  holder.classList.toggle("held", panel.holder !== null)
  if (panel.holder) {
    const { ownerId, label, heldFor, callSite } = panel.holder
    const where = document.createElement("code")
    where.textContent = callSite
    holder.replaceChildren("held by ", owner(ownerId, own), ` (${label ?? "no label"}) for ${millis(heldFor)}`, where)
  } else {
    holder.replaceChildren("free")
  }
  element("queue").replaceChildren(...panel.queue.map(({ ownerId, label, waitTime }) => {
    const waiter = document.createElement("li")
    waiter.append(owner(ownerId, own), ` ${label ?? ""}, waiting for ${millis(waitTime)}`)
    return waiter
  }))
}
