"use strict"

/// By number. A request with a `hold` was granted, and has an entry of its hold.
const OUTCOMES = [
  { name: "waiting", letter: "W", color: "--waiting", hold: false, unusual: false },
  { name: "holding", letter: "H", color: "--holding", hold: true, unusual: false },
  { name: "released", letter: "", color: "--released", hold: true, unusual: false },
  { name: "revoked", letter: "R", color: "--revoked", hold: true, unusual: true },
  { name: "extended", letter: "E", color: "--extended", hold: false, unusual: false },
  { name: "timed out", letter: "T", color: "--timed-out", hold: false, unusual: true },
  { name: "cancelled", letter: "C", color: "--cancelled", hold: false, unusual: true },
  { name: "deadlock", letter: "D", color: "--deadlock", hold: false, unusual: true },
  { name: "other", letter: "O", color: "--cancelled", hold: false, unusual: true },
]

const DIGITS = new Uint8Array(128)
for (const [value, digit] of
  [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].entries()) {
  DIGITS[digit.charCodeAt(0)] = value
}

/// Lets the page answer before it goes on.
const pause = () => globalThis.scheduler?.yield?.() ?? new Promise(done => setTimeout(done))

/// Reads a column of base64 VLQ: a digit has five bits, the lowest ones first. The sixth bit is set
/// if more digits follow.
function column(name, numbers) {
  const holder = document.querySelector(`[data-column="${name}"]`)
  const text = holder.textContent
  holder.remove()
  for (let at = 0, row = 0; row < numbers.length; row++) {
    let number = 0, digit, scale = 1
    do {
      digit = DIGITS[text.charCodeAt(at++)]
      number += (digit & 31) * scale
      scale *= 32
    } while (digit & 32)
    numbers[row] = number
  }
  return numbers
}

/// The lowest bit is the sign.
const signed = number => number % 2 ? -(number - 1) / 2 : number / 2

/// The requests as columns. A row is a request; rows are in the order of the requests.
class Requests {
  static async read() {
    const requests = new Requests()
    Object.assign(requests, JSON.parse(document.getElementById("requests").textContent))
    return requests
  }

  async readColumns() {
    const { count } = this
    const read = async (name, numbers) => {
      await pause()
      this[name] = column(name, numbers)
    }
    const floats = () => new Float64Array(count)
    await read("requested", floats())
    await read("wait", floats())
    await read("hold", floats())
    await read("outcome", new Uint8Array(count))
    await read("track", new Uint32Array(count))
    await read("label", new Uint32Array(count))
    await read("site", new Uint32Array(count))
    await read("lock", new Uint32Array(count))
    await read("id", floats())
    await read("giver", floats())
    await pause()
    this.#resolve()
    await pause()
    this.#indexTracks()
  }

  /// Makes columns of differences columns of values.
  #resolve() {
    const { count, requested, wait, hold, id, giver } = this
    this.granted = new Float64Array(count)
    this.ended = new Float64Array(count)
    this.nodes = new Uint8Array(count)
    for (let row = 0, at = 0, number = 0; row < count; row++) {
      at += requested[row]
      requested[row] = at
      this.granted[row] = at + wait[row]
      this.ended[row] = this.granted[row] + hold[row]
      this.nodes[row] = this.outcome[row] & 1
      this.outcome[row] >>= 1
      number += signed(id[row])
      id[row] = number
      // Less than zero: no giver.
      giver[row] = giver[row] === 0 ? -1 : row - signed(giver[row])
    }
  }

  /// Lists the rows of each track. In a track, a request ends before the next one begins.
  #indexTracks() {
    const { count, track, tracks } = this
    this.first = new Uint32Array(tracks.length + 1)
    for (let row = 0; row < count; row++) this.first[track[row] + 1]++
    for (let at = 0; at < tracks.length; at++) this.first[at + 1] += this.first[at]
    this.rows = new Uint32Array(count)
    const next = this.first.slice()
    for (let row = 0; row < count; row++) this.rows[next[track[row]]++] = row
  }

  /// The place in `rows` of the first request of a track that ends at a time or later.
  find(track, time) {
    let low = this.first[track], high = this.first[track + 1]
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.ended[this.rows[middle]] < time) low = middle + 1
      else high = middle
    }
    return low
  }

  /// The requests that a holder handed the lock.
  takers(row) {
    const takers = []
    for (let taker = 0; taker < this.count; taker++) {
      if (this.giver[taker] === row) takers.push(taker)
    }
    return takers
  }

  /// The requests that held while another one waited, with the time, the longest first.
  blockers(row) {
    const blockers = []
    for (let other = 0; other < this.count; other++) {
      if (!OUTCOMES[this.outcome[other]].hold || this.id[other] === this.id[row]) continue
      const from = Math.max(this.granted[other], this.requested[row])
      const time = Math.min(this.ended[other], this.granted[row]) - from
      if (time > 0) blockers.push({ row: other, time })
    }
    return blockers.sort((one, other) => other.time - one.time)
  }

  lockId(row) {
    return `lock-${this.id[row]}-${this.locks[this.lock[row]]}`
  }

  owner(row) {
    return visible(this.owners[this.tracks[this.track[row]][0]])
  }

  labelOf(row) {
    return this.label[row] === 0 ? null : visible(this.labels[this.label[row] - 1])
  }

  /// `ann (import)`.
  title(row) {
    const label = this.labelOf(row)
    return label === null ? this.owner(row) : `${this.owner(row)} (${label})`
  }

  callSite(row) {
    return this.callSites[this.site[row]]
  }

  outcomeOf(row) {
    return OUTCOMES[this.outcome[row]]
  }
}
