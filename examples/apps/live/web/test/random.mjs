// Random typing, from a seed.

export const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000_007)

/// Mulberry32.
export function random(seed) {
  let state = seed >>> 0
  return below => {
    state = (state + 0x6d2b79f5) >>> 0
    let z = Math.imul(state ^ (state >>> 15), state | 1)
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61)
    return Math.floor(((z ^ (z >>> 14)) >>> 0) / 2 ** 32 * below)
  }
}

/// Runs in a page: types for some milliseconds.
export function type({ seed, millis, make }) {
  const below = eval(`(${make})`)(seed)
  const { view } = live
  const inside = at => /[\udc00-\udfff]/.test(view.state.doc.sliceString(at, at + 1))
  const edit = () => {
    const { length } = view.state.doc
    // The caret is where a user types on; sometimes it jumps.
    let from = below(5) === 0 ? below(length + 1) : view.state.selection.main.head
    if (inside(from)) from--
    let to = Math.min(length, from + (below(length > 400 ? 2 : 5) === 0 ? below(12) : 0))
    if (inside(to)) to++
    const insert = ["a", "b", "e", "n", " ", "the ", "\n", "é", "🦀", ""][below(10)]
    view.dispatch({ changes: { from, to, insert }, selection: { anchor: from + insert.length } })
  }
  const end = performance.now() + millis
  return new Promise((resolve, reject) => {
    const next = () => {
      if (performance.now() >= end) return resolve()
      try {
        if (below(20) === 0) document.getElementById(below(3) === 0 ? "redo" : "undo").click()
        else edit()
      } catch (error) {
        return reject(error)
      }
      setTimeout(next, 10 + below(120))
    }
    next()
  })
}
