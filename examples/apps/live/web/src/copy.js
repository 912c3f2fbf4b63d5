// A tab's copy of the document: the text of a version of the store, and the edits that the store
// has not acknowledged. It knows no editor and no network.

import { diff } from "@codemirror/merge"
import { ChangeSet, Text } from "@codemirror/state"

/// The most that one request inserts, in UTF-16 units. The server bounds the message.
export const MOST_INSERTED = 50_000

export class Copy {
  /// The pending requests, in order: edits, undos and redos. The first may have been sent. The
  /// changes of each edit start from the text that the ones before it leave. An edit `continues` if
  /// it goes on where the user was typing: it stays with what was typed before.
  pending = []
  /// What the user has typed without moving the caret, in the displayed text. The caret is at `to`.
  #run = null

  /// `timeline`: rises when the server has gone back to earlier versions.
  constructor(version, text, timeline = 0) {
    this.version = version
    this.timeline = timeline
    this.confirmed = textOf(text)
  }

  /// What the tab displays.
  get displayed() {
    return this.changes.apply(this.confirmed)
  }

  /// All pending edits as one.
  get changes() {
    const changes = this.pending.flatMap(request => request.changes ?? [])
    const none = ChangeSet.empty(this.confirmed.length)
    return changes.reduce((all, next) => all.compose(next), none)
  }

  /// Where a caret is after a change of what is displayed: behind what others insert there, which
  /// may be the beginning of a word, but right behind what the user is typing.
  caretAfter(changes, caret) {
    const [before, behind] = [-1, 1].map(side => changes.mapPos(caret, side))
    return this.#run?.to === before ? before : behind
  }

  // --- Requests ---

  /// Takes in an edit of the user. Where it cannot be a part of the last request, it is the next.
  type(changes) {
    const size = sizeOf(changes)
    const continues = this.#goesOn(changes)
    const last = this.pending.at(-1)
    const fits = last?.changes && !last.sent && last.size + size <= MOST_INSERTED
    if (fits && (continues || !last.continues)) {
      last.changes = merged(last.changes.compose(changes))
      last.size += size
    } else {
      this.#request("edit", changes, size, continues)
    }
  }

  /// Whether an edit is at the caret, right behind what the user has typed. Keeps the run.
  #goesOn(changes) {
    const run = this.#run
    const spans = spansOf(changes)
    const [{ from, to, insert }] = spans
    const continues = run !== null && spans.length === 1 && from > run.from
      && (from === run.to || to === run.to)
    const end = from + insert.length
    this.#run = spans.length > 1 || end === from && !continues ? null
      : { from: continues ? run.from : from, to: end }
    return continues
  }

  undo() {
    this.#request("undo", null, 0, false)
  }

  redo() {
    this.#request("redo", null, 0, false)
  }

  #request(type, changes, size, continues) {
    this.pending.push({ type, key: crypto.randomUUID(), changes, size, continues, sent: false })
  }

  /// The message of the first request.
  message() {
    const { type, key, changes, continues } = this.pending[0]
    if (!changes) return { type, key }
    return { type, key, base: this.version, continues, changes: splicesOf(changes) }
  }

  // --- Answers: each returns the change of what is displayed ---

  /// A commit of the next version.
  commit({ version, key, changes }) {
    const own = key !== null && this.pending[0]?.key === key ? this.pending.shift() : null
    const before = this.confirmed
    let shown = null
    const nothing = { at: 0, removed: 0, inserted: "" }
    for (const { at, removed, inserted } of changes.length > 0 ? changes : [nothing]) {
      const splice = { from: at, to: at + removed, insert: inserted }
      const step = ChangeSet.of(splice, this.confirmed.length, "\n")
      this.confirmed = step.apply(this.confirmed)
      // The edit of this tab is displayed already.
      const next = own?.changes ? step : this.#rebased(step)
      shown = shown ? shown.compose(next) : next
    }
    this.version = version
    return own?.changes ? this.#replaced(own.changes, shown, before) : this.#shown(shown)
  }

  /// The first request changed nothing.
  drop() {
    const { changes } = this.pending.shift()
    const nothing = ChangeSet.empty(this.confirmed.length)
    return this.#replaced(changes ?? nothing, nothing, this.confirmed)
  }

  /// The text of a version that is not the next one. `committed` tells whether it contains the
  /// first request.
  reload(version, text, committed) {
    const own = committed ? this.pending.shift() : null
    const before = own?.changes ? own.changes.apply(this.confirmed) : this.confirmed
    const after = textOf(text)
    const changed = diff(stringOf(before), text, { scanLimit: 1000, timeout: 500 })
    const splices = changed.map(({ fromA, toA, fromB, toB }) => ({
      from: fromA, to: toA, insert: after.slice(fromB, toB),
    }))
    this.version = version
    this.confirmed = after
    return this.#shown(this.#rebased(ChangeSet.of(splices, before.length, "\n")))
  }

  /// Displays the actual changes in place of the expected ones, both from the text `before`.
  #replaced(expected, actual, before) {
    const [one, other] = [expected, actual].map(changes => JSON.stringify(splicesOf(changes)))
    const none = ChangeSet.empty(expected.newLength)
    return this.#shown(this.#rebased(one === other ? none : expected.invert(before).compose(actual)))
  }

  /// Maps the pending edits over a change that comes before them, and it over them, by the rule of
  /// the server: of two insertions at one place the committed one is first, unless the other
  /// continues what is before it.
  #rebased(change) {
    for (const request of this.pending) {
      if (!request.changes) continue
      const later = request.changes.map(change, request.continues)
      change = change.map(request.changes, !request.continues)
      request.changes = merged(later)
    }
    return change
  }

  /// Moves the run over a change of the displayed text.
  #shown(change) {
    if (this.#run) {
      const [from, to] = [change.mapPos(this.#run.from, 1), change.mapPos(this.#run.to, -1)]
      this.#run = from < to ? { from, to } : null
    }
    return change
  }

  // --- A reload of the page ---

  save() {
    const pending = this.pending.map(request => ({ ...request, changes: request.changes?.toJSON() ?? null }))
    const { version, timeline } = this
    return { version, timeline, text: stringOf(this.confirmed), pending }
  }

  static restore({ version, timeline, text, pending }) {
    const copy = new Copy(version, text, timeline)
    const changes = json => json && ChangeSet.fromJSON(json)
    copy.pending = pending.map(request => ({ ...request, changes: changes(request.changes) }))
    return copy
  }
}

/// The changes, with positions in the text before. Adjacent ones are one.
function spansOf(changes) {
  const spans = []
  changes.iterChanges((from, to, _fromB, _toB, insert) => spans.push({ from, to, insert }))
  return spans
}

/// The same changes without a place between adjacent ones, to which something could be mapped.
const merged = changes => ChangeSet.of(spansOf(changes), changes.length, "\n")

/// The changes as the server reads them.
const splicesOf = changes => spansOf(changes).map(({ from, to, insert }) => {
  return { at: from, removed: to - from, inserted: stringOf(insert) }
})

/// About how much of a message the changes take, in UTF-16 units.
export function sizeOf(changes) {
  let size = 0
  changes.iterChanges((_fromA, _toA, _fromB, _toB, inserted) => { size += 20 + inserted.length })
  return size
}

// A carriage return is a character like others here: the store counts it as one.
export const textOf = string => Text.of(string.split("\n"))
export const stringOf = text => text.sliceString(0, undefined, "\n")
