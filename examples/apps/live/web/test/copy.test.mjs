// The copies of several tabs and a model of the server, without a browser and without a network. SEED repeats a run.

import assert from "node:assert/strict"
import { it } from "node:test"
import { ChangeSet } from "@codemirror/state"
import { Copy, stringOf } from "../src/copy.js"
import { random, SEED } from "./random.mjs"

const RUNS = Number(process.env.COPY_RUNS ?? 2000)

/// The server: rebases an edit over the commits since its base, as `src/splice.rs` does.
class Model {
  log = []

  constructor(text) {
    this.text = text
  }

  /// Takes in the message of a tab.
  commit({ key, base, continues, changes }) {
    for (const commit of this.log.slice(base)) {
      for (const over of commit.changes) changes = changes.flatMap(edit => rebased(edit, over, continues))
    }
    // From the end on, as the store does it.
    changes = changes.filter(({ removed, inserted }) => removed > 0 || inserted !== "").reverse()
    for (const { at, removed, inserted } of changes) {
      this.text = this.text.slice(0, at) + inserted + this.text.slice(at + removed)
    }
    this.log.push({ version: this.log.length + 1, key, changes })
  }
}

const end = ({ at, removed }) => at + removed

function rebased(edit, over, continues) {
  const moved = at => at < over.at ? at : over.at + over.inserted.length + Math.max(0, at - end(over))
  const isBehind = continues ? over.removed < edit.removed : over.removed <= edit.removed
  if (edit.at > over.at || edit.at === over.at && isBehind) {
    const at = moved(edit.at)
    return [{ ...edit, at, removed: Math.max(0, moved(end(edit)) - at) }]
  }
  const first = { ...edit, removed: Math.min(end(edit), over.at) - edit.at }
  if (end(edit) <= end(over)) return [first]
  return [first, { at: over.at + over.inserted.length, removed: end(edit) - end(over), inserted: "" }]
}

/// A tab with a caret, which receives the commits of the server in order, each at any time.
class Typist {
  constructor(server, copy, word) {
    Object.assign(this, { server, copy, word, left: [...word], displayed: stringOf(copy.confirmed) })
  }

  #show(changes) {
    this.displayed = stringOf(changes.apply(this.copy.confirmed.constructor.of(this.displayed.split("\n"))))
    this.caret = this.copy.caretAfter(changes, this.caret)
    assert.equal(this.displayed, stringOf(this.copy.displayed), "the returned change is that of the display")
  }

  /// Replaces what is selected by the next letter.
  type(selected = 0) {
    const splice = { from: this.caret, to: this.caret + selected, insert: this.left.shift() }
    const changes = ChangeSet.of(splice, this.displayed.length, "\n")
    this.copy.type(changes)
    this.caret++
    this.displayed = this.displayed.slice(0, splice.from) + splice.insert + this.displayed.slice(splice.to)
  }

  send() {
    const [first] = this.copy.pending
    if (!first || first.sent) return
    first.sent = true
    this.server.commit(this.copy.message())
  }

  receive() {
    const commit = this.server.log[this.copy.version]
    if (commit) this.#show(this.copy.commit(commit))
  }
}

/// Tabs that type one word each, without moving the caret after the first letter.
function together(seed) {
  const below = random(seed)
  const text = "The meeting is Monday.".slice(0, below(23))
  const server = new Model(text)
  const words = ["tomorrow", "(OR TUESDAY)", "0123456789"].slice(0, 2 + below(2))
  const tabs = words.map(word => new Typist(server, new Copy(0, text), word))
  const place = below(text.length + 1)
  for (const tab of tabs) {
    // Often at one place, with or without a selection there.
    tab.caret = below(3) > 0 ? place : below(text.length + 1)
    const selected = below(2) * below(Math.min(7, text.length - tab.caret + 1))
    if (below(2) && tab.caret >= selected) tab.caret -= selected
    tab.selected = selected
  }
  const isDone = tab => tab.left.length === 0 && tab.copy.pending.length === 0 && tab.copy.version === server.log.length
  while (!tabs.every(isDone)) {
    const tab = tabs[below(tabs.length)]
    const act = below(3)
    if (act === 0 && tab.left.length > 0) {
      tab.type(Math.min(tab.selected, tab.displayed.length - tab.caret))
      tab.selected = 0
    } else if (act === 1) tab.send()
    else tab.receive()
    // Until it types, others can move what is selected here.
    if (tab.selected > 0 && tab.copy.version > 0) tab.selected = 0
  }
  for (const { displayed } of tabs) assert.equal(displayed, server.text)
  for (const word of words) assert.ok(server.text.includes(word), `${word} is torn: ${server.text}`)
}

it("what one user typed without moving the caret stays together", () => {
  for (let run = 0; run < RUNS; run++) {
    try {
      together(SEED + run)
    } catch (error) {
      error.message = `SEED=${SEED + run} COPY_RUNS=1: ${error.message}`
      throw error
    }
  }
})

it("a word that is typed over a selection is not torn by an insertion behind the selection", () => {
  const text = "The meeting is Monday"
  const server = new Model(text)
  const [ann, bob] = ["tomorrow", " (or Tuesday)"].map(word => new Typist(server, new Copy(0, text), word))
  ann.caret = 15
  bob.caret = text.length
  ann.type(6)
  while (bob.left.length > 0) bob.type()
  bob.send()
  ann.send()
  while (ann.left.length > 0) ann.type()
  for (let step = 0; step < 3; step++) for (const tab of [ann, bob]) [tab.receive(), tab.send()]
  for (let step = 0; step < 3; step++) for (const tab of [ann, bob]) tab.receive()
  assert.equal(server.text, "The meeting is tomorrow (or Tuesday)")
  for (const { displayed } of [ann, bob]) assert.equal(displayed, server.text)
})
