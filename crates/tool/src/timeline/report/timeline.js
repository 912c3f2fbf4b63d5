"use strict"

/// The timeline: which part is visible, what is selected, and how keys and pointers change both.
class TimelineView {
  selected = -1

  constructor(requests) {
    this.requests = requests
    this.length = Math.max(1, requests.length)
    this.from = 0
    this.to = this.length
    this.box = document.getElementById("timeline")
    this.canvas = document.getElementById("canvas")
    this.tip = document.getElementById("tip")
    this.range = document.getElementById("range")
    this.detail = document.getElementById("detail")
    const full = AXIS + requests.tracks.length * TRACK + 4
    document.getElementById("tracks").style.height = `${full}px`
    this.overview = new Overview(requests, document.getElementById("overview"), time => {
      this.pan(time - (this.from + this.to) / 2)
    })
    this.#listen()
  }

  #listen() {
    const { box } = this
    const later = () => this.redraw()
    new ResizeObserver(later).observe(box)
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later)
    box.addEventListener("scroll", later)
    box.addEventListener("keydown", event => this.#key(event))
    box.addEventListener("wheel", event => this.#wheel(event), { passive: false })
    box.addEventListener("pointerdown", event => this.#drag(event))
    box.addEventListener("pointermove", event => this.#hover(event))
    box.addEventListener("pointerleave", () => { this.tip.hidden = true })
    const buttons = {
      earlier: "a", later: "d", "zoom-in": "+", "zoom-out": "-", "zoom-all": "0",
    }
    for (const [id, key] of Object.entries(buttons)) {
      document.getElementById(id).addEventListener("click", () => this.#keys[key]())
    }
  }

  // Changes what is visible.

  /// Shows a range, as far as the recording has it.
  look(from, to) {
    const width = Math.min(this.length, Math.max(20, to - from))
    const middle = (from + to) / 2
    this.from = Math.min(this.length - width, Math.max(0, middle - width / 2))
    this.to = this.from + width
    this.redraw()
  }

  pan(time) {
    this.look(this.from + time, this.to + time)
  }

  /// A factor below one zooms in. The time at a share of the width stays where it is.
  zoom(factor, share = .5) {
    const width = Math.min(this.length, Math.max(20, (this.to - this.from) * factor))
    const at = this.from + (this.to - this.from) * share
    this.look(at - width * share, at + width * (1 - share))
  }

  /// Selects a request, and zooms so that it is a third of the width.
  show(row) {
    const { requested, ended } = this.requests
    const width = Math.max(60, ended[row] - requested[row])
    this.look(requested[row] - width, ended[row] + width)
    this.select(row)
    this.box.focus({ preventScroll: true })
    this.box.scrollIntoView({ block: "nearest" })
  }

  /// Selects a request, or none with -1.
  select(row) {
    this.selected = row
    if (row >= 0) this.#reveal(row)
    showDetail(this.detail, this.requests, row, this)
    this.redraw()
  }

  /// Scrolls and pans until a request is visible.
  #reveal(row) {
    const { requested, ended, track } = this.requests
    const top = track[row] * TRACK
    const room = this.box.clientHeight - AXIS - TRACK
    if (top < this.box.scrollTop) this.box.scrollTop = top
    if (top > this.box.scrollTop + room) this.box.scrollTop = top - room
    if (ended[row] < this.from || requested[row] > this.to) {
      this.pan((requested[row] + ended[row] - this.from - this.to) / 2)
    }
  }

  // Keys.

  #keys = {
    ArrowLeft: () => this.pan((this.from - this.to) / 5),
    ArrowRight: () => this.pan((this.to - this.from) / 5),
    "+": () => this.zoom(1 / 1.5),
    "-": () => this.zoom(1.5),
    0: () => this.look(0, this.length),
    Home: () => this.pan(-this.from),
    End: () => this.pan(this.length - this.to),
    Enter: () => this.#selectMiddle(),
    ",": () => this.#step(-1),
    ".": () => this.#step(1),
    ArrowUp: () => this.#changeTrack(-1),
    ArrowDown: () => this.#changeTrack(1),
    f: () => { if (this.selected >= 0) this.show(this.selected) },
    Escape: () => this.select(-1),
  }

  #same = { a: "ArrowLeft", d: "ArrowRight", w: "+", "=": "+", s: "-", _: "-" }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.box) return
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
    const action = this.#keys[this.#same[key] ?? key]
    if (!action) return
    event.preventDefault()
    action()
  }

  /// The request of a track that is nearest to a time.
  #nearest(track, time) {
    const { first, rows, requested, ended } = this.requests
    const at = this.requests.find(track, time)
    const distance = row => Math.max(requested[row] - time, time - ended[row], 0)
    const around = [at - 1, at].filter(at => at >= first[track] && at < first[track + 1])
    return around.map(at => rows[at]).sort((one, other) => distance(one) - distance(other))[0]
  }

  /// The nearest to the middle, of the track of the selected request or of the first one in view.
  #selectMiddle() {
    const middle = (this.from + this.to) / 2
    const first = Math.floor(this.box.scrollTop / TRACK)
    const track = this.selected < 0 ? first : this.requests.track[this.selected]
    this.select(this.#nearest(track, middle))
  }

  #step(by) {
    if (this.selected < 0) return this.#selectMiddle()
    const { track, rows, first, requested } = this.requests
    const own = track[this.selected]
    let at = this.requests.find(own, requested[this.selected])
    while (rows[at] !== this.selected) at++
    const next = at + by
    if (next >= first[own] && next < first[own + 1]) this.select(rows[next])
  }

  #changeTrack(by) {
    if (this.selected < 0) return this.#selectMiddle()
    const { track, tracks, granted } = this.requests
    const next = track[this.selected] + by
    if (next < 0 || next >= tracks.length) return
    this.select(this.#nearest(next, granted[this.selected]))
  }

  // Pointers.

  #share(event) {
    const { left, width } = this.canvas.getBoundingClientRect()
    return Math.min(1, Math.max(0, (event.clientX - left - NAMES) / (width - NAMES)))
  }

  /// The request below a pointer, or within a few pixels of it.
  #at(event) {
    const { left, top, width } = this.canvas.getBoundingClientRect()
    const track = Math.floor((event.clientY - top - AXIS + this.box.scrollTop) / TRACK)
    const isInside = event.clientX - left > NAMES && event.clientY - top > AXIS
    if (!isInside || track < 0 || track >= this.requests.tracks.length) return -1
    const time = this.from + (this.to - this.from) * this.#share(event)
    const row = this.#nearest(track, time)
    const reach = (this.to - this.from) / (width - NAMES) * 4
    const { requested, ended } = this.requests
    return requested[row] - reach <= time && time <= ended[row] + reach ? row : -1
  }

  #wheel(event) {
    const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault()
      this.zoom(1.0015 ** event.deltaY, this.#share(event))
    } else if (Math.abs(sideways) > (event.shiftKey ? 0 : Math.abs(event.deltaY))) {
      event.preventDefault()
      this.pan(sideways * (this.to - this.from) / this.canvas.clientWidth)
    }
  }

  #drag(start) {
    const { box } = this
    if (start.button !== 0) return
    const { from, to } = this
    const scale = (to - from) / (this.canvas.clientWidth - NAMES)
    let isDrag = false
    const move = event => {
      const distance = event.clientX - start.clientX
      isDrag ||= Math.abs(distance) > 3
      if (!isDrag) return
      box.setPointerCapture(start.pointerId)
      box.classList.add("dragging")
      this.tip.hidden = true
      this.look(from - distance * scale, to - distance * scale)
    }
    const end = event => {
      box.removeEventListener("pointermove", move)
      box.removeEventListener("pointerup", end)
      box.removeEventListener("pointercancel", end)
      box.classList.remove("dragging")
      if (!isDrag && event.type === "pointerup") this.select(this.#at(event))
    }
    box.addEventListener("pointermove", move)
    box.addEventListener("pointerup", end)
    box.addEventListener("pointercancel", end)
  }

  #hover(event) {
    const row = event.buttons === 0 ? this.#at(event) : -1
    this.tip.hidden = row < 0
    if (row < 0) return
    const { requests, tip } = this
    const held = requests.outcomeOf(row).hold ? `, held ${duration(requests.hold[row])}` : ""
    tip.textContent = `${requests.title(row)}: waited ${duration(requests.wait[row])}${held}, ` +
      requests.outcomeOf(row).name
    const { innerWidth } = window
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`
    tip.style.top = `${event.clientY + 18}px`
  }

  // Drawing, once for each frame.

  redraw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null
      this.draw()
    })
  }

  draw() {
    const { from, to, selected, requests, box } = this
    const width = Math.max(NAMES + 100, Math.floor(box.clientWidth))
    const full = AXIS + requests.tracks.length * TRACK + 4
    const height = Math.min(full, box.clientHeight || full)
    const scroll = box.scrollTop
    new Drawing(requests, this.canvas, { from, to, scroll, width, height, selected }).draw()
    this.overview.draw(from, to)
    const span = to - from
    this.range.textContent =
      `${moment(from, span)} to ${moment(to, span)} (${duration(Math.round(span))})`
  }
}

/// What the selected request was, and links to those before and after it.
function showDetail(section, requests, row, timeline) {
  if (row < 0) {
    section.replaceChildren(element("p", { class: "hint" }, "No request is selected."))
    return
  }
  const outcome = requests.outcomeOf(row)
  const link = other => element("button", { class: "link", click: () => timeline.select(other) },
    element("bdi", {}, `${requests.lockId(other)} of ${requests.title(other)}`))
  const list = (items, none) => {
    if (items.length === 0) return [none]
    const some = items.slice(0, 5).map(item => element("div", {}, ...item))
    const rest = items.length - some.length
    return rest === 0 ? some : [...some, `and ${counted(rest, "other")}`]
  }
  const giver = requests.giver[row]
  const takers = outcome.hold ? requests.takers(row) : []
  const blockers = requests.blockers(row)
  const at = calendar(requests.beganAt + (requests.origin + requests.requested[row]) / 1e6)
  const fields = [
    ["id", [element("code", {}, requests.lockId(row))]],
    ["owner", [element("bdi", {}, requests.owner(row))]],
    ["label", [element("bdi", {}, requests.labelOf(row) ?? "none")]],
    ["call site", [callSite(requests, row)]],
    ["requested", [`${moment(requests.requested[row], 1e7)} (${at})`]],
    ["waited", [duration(requests.wait[row]) + (requests.nodes[row] ? ", for nodes" : "")]],
    ["held", [outcome.hold ? duration(requests.hold[row]) : "never"]],
    ["outcome", [badge(outcome), ` ${outcome.name}`]],
    ["held meanwhile", list(blockers.map(({ row, time }) => {
      return [link(row), ` for ${duration(time)}`]
    }), "no request")],
    ["handed the lock by", list(giver < 0 ? [] : [[link(giver)]], "no holder")],
    ["handed the lock to", list(takers.map(taker => [link(taker)]), "no request")],
  ]
  section.replaceChildren(
    element("h2", {}, element("bdi", {}, requests.title(row))),
    element("dl", {}, ...fields.map(([name, content]) => {
      return element("div", {}, element("dt", {}, name), element("dd", {}, ...content))
    })))
}
