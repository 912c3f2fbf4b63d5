"use strict"

const TRACK = 22, AXIS = 24, NAMES = 150, BAR = 16
const FONT = "system-ui, 'DejaVu Sans', sans-serif"

/// The colours of the page, which depend on whether it is dark.
function palette() {
  const style = getComputedStyle(document.documentElement)
  const color = name => style.getPropertyValue(name).trim()
  const names = ["card", "text", "quiet", "line", "grid", "selected", "arrow", "wait", "wait-edge",
    "released"]
  const colors = Object.fromEntries(names.map(name => [name, color(`--${name}`)]))
  colors.outcomes = OUTCOMES.map(outcome => color(outcome.color))
  return colors
}

/// Makes a canvas as sharp as the screen, and returns its context.
function context(canvas, width, height) {
  const scale = devicePixelRatio
  const [columns, rows] = [Math.round(width * scale), Math.round(height * scale)]
  if (canvas.width !== columns || canvas.height !== rows) {
    canvas.width = columns
    canvas.height = rows
  }
  canvas.style.height = `${height}px`
  const drawing = canvas.getContext("2d")
  drawing.setTransform(scale, 0, 0, scale, 0, 0)
  drawing.clearRect(0, 0, width, height)
  drawing.font = `12px ${FONT}`
  drawing.textBaseline = "middle"
  return drawing
}

/// Draws the visible part of the timeline. The cost depends on the visible requests: those that are
/// narrower than a pixel are added up for each column of pixels.
class Drawing {
  constructor(requests, canvas, { from, to, scroll, width, height, selected }) {
    Object.assign(this, { requests, from, to, scroll, width, height, selected })
    this.colors = palette()
    this.drawing = context(canvas, width, height)
    this.scale = (width - NAMES) / (to - from)
    this.waited = new Float32Array(width - NAMES + 1)
    this.held = new Float32Array(width - NAMES + 1)
  }

  x(time) {
    return NAMES + (time - this.from) * this.scale
  }

  /// The top of a track.
  y(track) {
    return AXIS + track * TRACK - this.scroll
  }

  draw() {
    const { requests, drawing, width, height } = this
    const first = Math.max(0, Math.floor(this.scroll / TRACK))
    const last = Math.min(requests.tracks.length, Math.ceil((this.scroll + height - AXIS) / TRACK))
    this.wide = []
    this.drawGrid(first, last)
    drawing.save()
    drawing.beginPath()
    drawing.rect(NAMES, AXIS, width - NAMES, height - AXIS)
    drawing.clip()
    const marks = []
    for (let track = first; track < last; track++) marks.push(this.drawTrack(track))
    if (this.wide.length <= 1500) this.drawArrows()
    this.drawSelected()
    for (const { rows, y } of marks) this.drawMarks(rows, y)
    drawing.restore()
    for (let track = first; track < last; track++) this.drawName(track)
    this.drawAxis()
  }

  ticks() {
    const raw = (this.to - this.from) / Math.max(2, (this.width - NAMES) / 110)
    const power = 10 ** Math.floor(Math.log10(raw))
    const step = Math.max(1, power * [1, 2, 5, 10].find(factor => factor * power >= raw))
    const first = Math.ceil(this.from / step), last = Math.floor(this.to / step)
    // Counted, because a step can be too small to change a time that is far from the first request.
    const ticks = Array.from({ length: last - first + 1 }, (_, nth) => (first + nth) * step)
    return { ticks, step }
  }

  /// Lines at times, and between owners.
  drawGrid(first, last) {
    const { drawing, colors, width, height } = this
    drawing.fillStyle = colors.grid
    for (const at of this.ticks().ticks) drawing.fillRect(Math.round(this.x(at)), AXIS, 1, height)
    drawing.fillStyle = colors.line
    for (let track = first; track < last; track++) {
      const [, number] = this.requests.tracks[track]
      if (number === 1) drawing.fillRect(NAMES, this.y(track), width, 1)
    }
  }

  drawAxis() {
    const { drawing, colors, width } = this
    drawing.fillStyle = colors.card
    drawing.fillRect(0, 0, width, AXIS - 1)
    drawing.fillStyle = colors.line
    drawing.fillRect(0, AXIS - 1, width, 1)
    drawing.fillStyle = colors.quiet
    drawing.textAlign = "left"
    const { ticks, step } = this.ticks()
    for (const at of ticks) {
      const x = Math.round(this.x(at))
      if (x > width - 60) continue
      drawing.fillRect(x, AXIS - 6, 1, 5)
      drawing.fillText(moment(at, step * 20), x + 4, AXIS / 2 - 1)
    }
  }

  drawName(track) {
    const { drawing, colors, requests } = this
    const [owner, number] = requests.tracks[track]
    const y = this.y(track)
    drawing.fillStyle = colors.card
    drawing.fillRect(0, y, NAMES, TRACK)
    drawing.fillStyle = colors.line
    drawing.fillRect(NAMES - 1, y, 1, TRACK)
    if (number === 1) drawing.fillRect(0, y, NAMES, 1)
    drawing.fillStyle = number === 1 ? colors.text : colors.quiet
    drawing.textAlign = "left"
    const name = visible(requests.owners[owner])
    const text = number === 1 ? name : `${name} (${number})`
    drawing.fillText(shortened(drawing, text, NAMES - 20), 10, y + TRACK / 2 + 1)
  }

  /// Returns the requests of the track whose ends have letters.
  drawTrack(track) {
    const { requests, scale, from, to, waited, held, width } = this
    const { rows, requested, granted, ended, outcome } = requests
    const end = requests.first[track + 1]
    const y = this.y(track) + (TRACK - BAR) / 2
    const marks = []
    waited.fill(0)
    held.fill(0)
    let narrow = false
    for (let at = requests.find(track, from); at < end; at++) {
      const row = rows[at]
      if (requested[row] > to) break
      const x = (requested[row] - from) * scale
      if ((ended[row] - requested[row]) * scale >= 1) {
        this.wide.push(row)
        this.drawRequest(row, y)
      } else {
        const pixel = Math.min(waited.length - 1, Math.max(0, Math.floor(x)))
        waited[pixel] += (granted[row] - requested[row]) * scale
        held[pixel] += (ended[row] - granted[row]) * scale
        narrow = true
      }
      if (OUTCOMES[outcome[row]].letter !== "") marks.push(row)
    }
    if (narrow) this.drawNarrow(y)
    return { rows: marks, y }
  }

  /// A wait is low and pale, a hold is high and solid: they differ by more than their colour.
  drawRequest(row, y) {
    const { requests, drawing, colors } = this
    const { requested, granted, ended, outcome } = requests
    const [x0, x1, x2] = [requested, granted, ended].map(column => this.x(column[row]))
    const left = Math.max(NAMES - 2, x0)
    if (x1 > left) {
      const right = Math.min(this.width + 2, x1)
      drawing.fillStyle = colors.wait
      drawing.fillRect(left, y + BAR * .4, right - left, BAR * .6)
      drawing.fillStyle = colors["wait-edge"]
      drawing.fillRect(left, y + BAR - 1, right - left, 1)
    }
    const { hold, letter } = OUTCOMES[outcome[row]]
    if (!hold) return
    const begin = Math.max(NAMES - 2, x1)
    const end = Math.min(this.width + 2, Math.max(x2, x1 + .75))
    if (end <= begin) return
    drawing.fillStyle = colors.outcomes[outcome[row]]
    // A gap keeps holds that follow one another apart.
    drawing.fillRect(begin, y, Math.max(.75, end - begin - (end - begin > 4 ? 1 : 0)), BAR)
    const label = requests.labelOf(row)
    if (label !== null && end - begin > 50) {
      drawing.fillStyle = colors.card
      drawing.textAlign = "left"
      const room = end - begin - (letter === "" ? 10 : 24)
      drawing.fillText(shortened(drawing, label, room), begin + 5, y + BAR / 2 + .5)
    }
  }

  /// Columns of pixels: the solid part is as high as the share of the time in which it was held.
  drawNarrow(y) {
    const { drawing, colors, waited, held } = this
    const level = value => value === 0 ? 0 : Math.max(1, Math.round(Math.min(1, value) * 8))
    for (let from = 0; from < waited.length;) {
      const [wait, hold] = [level(waited[from]), level(held[from])]
      let to = from + 1
      while (to < waited.length && level(waited[to]) === wait && level(held[to]) === hold) to++
      if (wait > 0) {
        drawing.globalAlpha = .35 + wait / 8 * .65
        drawing.fillStyle = colors.wait
        drawing.fillRect(NAMES + from, y + BAR * .4, to - from, BAR * .6)
        drawing.globalAlpha = 1
        drawing.fillStyle = colors["wait-edge"]
        drawing.fillRect(NAMES + from, y + BAR - 1, to - from, 1)
      }
      if (hold > 0) {
        const high = Math.max(2, BAR * hold / 8)
        drawing.fillStyle = colors.released
        drawing.fillRect(NAMES + from, y + BAR - high, to - from, high)
      }
      from = to
    }
  }

  /// Letters at the ends of requests. Where they have no room, lines at the top.
  drawMarks(rows, y) {
    const { requests, drawing, colors } = this
    const ends = rows.map(row => {
      return Math.round(Math.min(this.x(requests.ended[row]), this.width - 7))
    })
    let line = -Infinity
    drawing.font = `bold 10px ${FONT}`
    for (const [at, row] of rows.entries()) {
      const { letter, unusual } = requests.outcomeOf(row)
      const x = ends[at]
      if (x < NAMES || (!unusual && this.x(requests.requested[row]) > x - 13)) continue
      const color = colors.outcomes[requests.outcome[row]]
      if (!(x - ends[at - 1] < 15) && !(ends[at + 1] - x < 15)) {
        drawing.fillStyle = colors.card
        drawing.fillRect(x - 7, y + 1, 14, 14)
        drawing.fillStyle = color
        drawing.fillRect(x - 6, y + 2, 12, 12)
        drawing.fillStyle = letter === "W" ? colors.text : colors.card
        drawing.textAlign = "center"
        drawing.fillText(letter, x, y + BAR / 2 + .5)
      } else if (unusual && x >= line) {
        drawing.fillStyle = color
        drawing.fillRect(x - 1, y, 2, 5)
        line = x + 2
      }
    }
    drawing.font = `12px ${FONT}`
  }

  /// From a releaser to the next holder, in the moment of the hand-off.
  drawArrows() {
    const { requests, drawing, colors } = this
    drawing.strokeStyle = drawing.fillStyle = colors.arrow
    for (const row of this.wide) {
      const giver = requests.giver[row]
      if (giver < 0) continue
      const [from, to] = [requests.track[giver], requests.track[row]]
      const x = this.x(requests.granted[row])
      const isNear = row === this.selected || giver === this.selected
      const isRoomy = (requests.ended[row] - requests.requested[row]) * this.scale > 12
      if (from === to || x < NAMES || x > this.width || !(isNear || isRoomy)) continue
      const down = to > from ? 1 : -1
      const start = this.y(from) + TRACK / 2
      const end = this.y(to) + TRACK / 2 - down
      drawing.lineWidth = isNear ? 2 : 1
      drawing.globalAlpha = isNear ? 1 : .7
      drawing.beginPath()
      drawing.moveTo(x, start)
      drawing.lineTo(x, end - down * 4)
      drawing.stroke()
      drawing.beginPath()
      drawing.arc(x, start, 2, 0, 7)
      drawing.fill()
      drawing.beginPath()
      drawing.moveTo(x, end + down)
      drawing.lineTo(x - 3.5, end - down * 5)
      drawing.lineTo(x + 3.5, end - down * 5)
      drawing.fill()
    }
    drawing.globalAlpha = 1
  }

  drawSelected() {
    const { requests, drawing, colors, selected } = this
    if (selected < 0) return
    const y = this.y(requests.track[selected]) + (TRACK - BAR) / 2
    const left = Math.max(NAMES - 4, this.x(requests.requested[selected]))
    const right = Math.min(this.width + 4, this.x(requests.ended[selected]))
    drawing.strokeStyle = colors.selected
    drawing.lineWidth = 2
    drawing.strokeRect(left - 1.5, y - 1, Math.max(3, right - left) + 3, BAR + 3)
  }
}

const shortenings = new Map()
/// A text that is cut where it does not fit.
function shortened(drawing, text, width) {
  const key = `${Math.floor(width / 4)} ${text}`
  if (shortenings.has(key)) return shortenings.get(key)
  let short = text
  if (drawing.measureText(text).width > width) {
    const points = Array.from(text.slice(0, 200))
    do points.pop()
    while (points.length > 0 && drawing.measureText(`${points.join("")}…`).width > width)
    short = points.length > 0 ? `${points.join("")}…` : ""
  }
  if (shortenings.size > 10_000) shortenings.clear()
  shortenings.set(key, short)
  return short
}
