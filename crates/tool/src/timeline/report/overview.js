"use strict"

/// How many requests wait, over the whole recording, and which part of it the timeline shows.
class Overview {
  constructor(requests, canvas, move) {
    this.requests = requests
    this.canvas = canvas
    this.length = Math.max(1, requests.length)
    canvas.addEventListener("pointerdown", event => {
      canvas.setPointerCapture(event.pointerId)
      this.#point(event, move)
    })
    canvas.addEventListener("pointermove", event => {
      if (canvas.hasPointerCapture(event.pointerId)) this.#point(event, move)
    })
  }

  #point(event, move) {
    const { left, width } = this.canvas.getBoundingClientRect()
    move((event.clientX - left - NAMES) / (width - NAMES) * this.length)
  }

  /// The mean number of waiting requests in each column of pixels.
  #measure(columns) {
    if (this.waiting?.length === columns) return
    const { count, requested, granted } = this.requests
    const scale = columns / this.length
    // Whole columns as changes from one to the next, and the parts of columns at both ends.
    const changes = new Float64Array(columns + 1)
    const parts = new Float64Array(columns + 1)
    for (let row = 0; row < count; row++) {
      const from = requested[row] * scale, to = granted[row] * scale
      const first = Math.floor(from), last = Math.floor(to)
      if (first === last) {
        parts[first] += to - from
        continue
      }
      parts[first] += first + 1 - from
      parts[last] += to - last
      changes[first + 1]++
      changes[last]--
    }
    this.waiting = new Float64Array(columns)
    for (let at = 0, whole = 0; at < columns; at++) {
      whole += changes[at]
      this.waiting[at] = whole + parts[at]
    }
  }

  draw(from, to) {
    const width = this.canvas.clientWidth, height = 44
    if (width <= NAMES + 50) return
    const columns = Math.floor(width - NAMES)
    this.#measure(columns)
    const drawing = context(this.canvas, width, height)
    const colors = palette()
    const most = this.waiting.reduce((most, value) => Math.max(most, value), 0)
    drawing.fillStyle = colors.quiet
    drawing.textAlign = "left"
    drawing.fillText("requests waiting", 10, 15)
    drawing.fillText(most > 0 ? `most: ${grouped(most, 1)}` : "none", 10, 31)
    drawing.fillStyle = colors["wait-edge"]
    for (let at = 0; at < columns; at++) {
      const high = most > 0 ? this.waiting[at] / most * (height - 6) : 0
      if (high > 0) drawing.fillRect(NAMES + at, height - Math.max(1, high), 1, Math.max(1, high))
    }
    drawing.fillStyle = colors.line
    drawing.fillRect(NAMES, height - 1, columns, 1)
    const left = NAMES + from / this.length * columns
    const right = NAMES + to / this.length * columns
    drawing.globalAlpha = .12
    drawing.fillStyle = colors.text
    drawing.fillRect(NAMES, 0, left - NAMES, height)
    drawing.fillRect(right, 0, width - right, height)
    drawing.globalAlpha = 1
    drawing.strokeStyle = colors.text
    drawing.strokeRect(left + .5, .5, Math.max(2, right - left - 1), height - 1)
  }
}
