// A tab's copy of the document: the text of a version of the store, and the edits that the store
// has not acknowledged. It knows no editor and no network.

import { diff } from "@codemirror/merge"
import { ChangeSet, Text } from "@codemirror/state"

/// The most that one request inserts, in UTF-16 units. The server bounds the message.
export const MOST_INSERTED = 50_000

export class Copy {
  /// The pending requests, in order: edits, undos and redos. The first may have been sent. The
  /// changes of each edit start from the text that the ones before it leave.
  pending = []

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

  // --- Requests ---

  /// Takes in an edit of the user.
  type(changes) {
    const size = sizeOf(changes)
    const last = this.pending.at(-1)
    if (last?.changes && !last.sent && last.size + size <= MOST_INSERTED) {
      last.changes = last.changes.compose(changes)
      last.size += size
    } else {
      this.#request("edit", changes, size)
    }
  }

  undo() {
    this.#request("undo", null, 0)
  }

  redo() {
    this.#request("redo", null, 0)
  }

  #request(type, changes, size) {
    this.pending.push({ type, key: crypto.randomUUID(), changes, size, sent: false })
  }

  /// The message of the first request.
  message() {
    const { type, key, changes } = this.pending[0]
    return changes ? { type, key, base: this.version, changes: splicesOf(changes) } : { type, key }
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
      const next = own?.changes ? step : this.#mapped(step)
      shown = shown ? shown.compose(next) : next
    }
    this.version = version
    return own?.changes ? this.#replaced(own.changes, shown, before) : shown
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
    return this.#mapped(ChangeSet.of(splices, before.length, "\n"))
  }

  /// Displays the actual changes in place of the expected ones, both from the text `before`.
  #replaced(expected, actual, before) {
    const [one, other] = [expected, actual].map(changes => JSON.stringify(splicesOf(changes)))
    const none = ChangeSet.empty(expected.newLength)
    return this.#mapped(one === other ? none : expected.invert(before).compose(actual))
  }

  /// Maps the pending edits over a change that comes before them, and it over them.
  #mapped(change) {
    for (const request of this.pending) {
      if (!request.changes) continue
      const later = request.changes.map(change)
      change = change.map(request.changes, true)
      request.changes = later
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

/// The changes as the server reads them: in order, with positions in the text before.
function splicesOf(changes) {
  const splices = []
  changes.iterChanges((from, to, _fromB, _toB, inserted) => {
    splices.push({ at: from, removed: to - from, inserted: stringOf(inserted) })
  })
  return splices
}

/// About how much of a message the changes take, in UTF-16 units.
export function sizeOf(changes) {
  let size = 0
  changes.iterChanges((_fromA, _toA, _fromB, _toB, inserted) => { size += 20 + inserted.length })
  return size
}

// A carriage return is a character like others here: the store counts it as one.
export const textOf = string => Text.of(string.split("\n"))
export const stringOf = text => text.sliceString(0, undefined, "\n")
