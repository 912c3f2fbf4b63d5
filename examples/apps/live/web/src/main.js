// The page: an editor, a copy of the document, and a connection.

import { standardKeymap } from "@codemirror/commands"
import { Annotation, EditorState } from "@codemirror/state"
import { EditorView, keymap } from "@codemirror/view"
import { Connection } from "./connection.js"
import { Copy, MOST_INSERTED, sizeOf, stringOf } from "./copy.js"
import { carets, moveCaret, pendingMarks } from "./marks.js"
import { showPanel } from "./panel.js"

/// How long the caret rests before the other tabs see it.
const CARET_PAUSE = 60
/// The pause before a request that timed out is sent again.
const RETRY = 500

const element = id => document.getElementById(id)
/// Marks a transaction that is no edit of this user.
const fromServer = Annotation.define()

// --- The session survives a reload, with its pending requests ---

const session = sessionStorage.session ??= crypto.randomUUID()
let copy = new Copy(0, "")
let isFresh = true
try {
  const saved = JSON.parse(sessionStorage.saved)
  if (saved.session === session) [copy, isFresh] = [Copy.restore(saved), false]
} catch { /* There is none, or it is no copy. */ }
delete sessionStorage.saved
let isReplaced = false
addEventListener("pagehide", () => {
  if (copy.pending.length === 0 || isReplaced) return
  try {
    sessionStorage.saved = JSON.stringify({ session, ...copy.save() })
  } catch { /* The text is too large for the browser's storage. */ }
})
/// Only a reload keeps them. The browser does not say whether it reloads or closes.
addEventListener("beforeunload", event => {
  if (copy.pending.length > 0 && !isReplaced) event.preventDefault()
})

// --- The editor ---

const isHigh = unit => /[\ud800-\udbff]/.test(unit)
const isLow = unit => /[\udc00-\udfff]/.test(unit)
const splitsPair = (text, at) => {
  return isHigh(text.sliceString(at - 1, at)) && isLow(text.sliceString(at, at + 1))
}

/// The store has no halves of characters, and bounds a request.
const acceptable = transaction => {
  if (transaction.annotation(fromServer)) return true
  let isWhole = true
  transaction.changes.iterChanges((from, to, _fromB, _toB, inserted) => {
    const doc = transaction.startState.doc
    isWhole &&= stringOf(inserted).isWellFormed() && !splitsPair(doc, from) && !splitsPair(doc, to)
  })
  const fits = sizeOf(transaction.changes) <= MOST_INSERTED
  if (!fits) notify(`One edit can insert ${MOST_INSERTED} characters.`)
  return isWhole && fits
}

const history = [
  { key: "Mod-z", run: () => request("undo"), preventDefault: true },
  { key: "Mod-y", mac: "Mod-Shift-z", run: () => request("redo"), preventDefault: true },
  { key: "Mod-Shift-z", run: () => request("redo"), preventDefault: true },
]

/// Whether the user has moved the caret.
const moves = transaction => transaction.selection && !transaction.annotation(fromServer)

let caretTimer = null
const view = new EditorView({
  parent: element("editor"),
  state: EditorState.create({
    doc: copy.displayed,
    extensions: [
      keymap.of([...history, ...standardKeymap]),
      EditorState.lineSeparator.of("\n"),
      EditorState.changeFilter.of(acceptable),
      EditorView.clipboardInputFilter.of(text => text.replace(/\r\n?/g, "\n")),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": "The document", spellcheck: "false" }),
      pendingMarks(() => copy),
      carets,
    ],
  }),
  dispatchTransactions(transactions, view) {
    let isTyped = false
    for (const transaction of transactions) {
      if (!transaction.docChanged || transaction.annotation(fromServer)) continue
      copy.type(transaction.changes)
      isTyped = true
    }
    view.update(transactions)
    if (isTyped) hasPlace()
    if (isTyped) proceed()
    else if (transactions.some(moves)) showCaret()
  },
})

function request(type) {
  copy[type]()
  proceed()
  return true
}

function proceed() {
  connection.pump()
  showStatus()
}

/// Whether the editor has a place to scroll to when it is measured next.
let isPlaced = false
const measured = { read() {}, write() { isPlaced = false } }
function hasPlace() {
  isPlaced = true
  view.requestMeasure(measured)
}

/// Keeps the line of the caret where it is while others type, or the first line that is visible if
/// the caret is not. `head` is where the caret is then.
function stay(changes, head) {
  const box = view.scrollDOM.getBoundingClientRect()
  const caret = view.coordsAtPos(view.state.selection.main.head)
  if (!caret || caret.bottom < box.top || caret.top > box.bottom) return view.scrollSnapshot().map(changes)
  return EditorView.scrollIntoView(head, { y: "start", yMargin: caret.top - box.top })
}

/// Shows what an answer has changed, in one transaction.
function display(changes, effects = []) {
  let selection
  if (changes && !changes.empty) {
    const { main } = view.state.selection
    const head = copy.caretAfter(changes, main.head)
    if (main.empty && head !== changes.mapPos(main.head, -1)) selection = { anchor: head }
    // The editor itself maps a place that it has over the changes that come until then.
    if (!isPlaced) {
      effects = [...effects, stay(changes, head)]
      hasPlace()
    }
  }
  view.dispatch({ changes, selection, effects, annotations: fromServer.of(true) })
}

/// A caret in the confirmed text, as it is displayed.
const displayed = ({ tab, anchor, head }) => {
  const changes = copy.changes
  const [from, to] = [anchor, head].map(at => changes.mapPos(Math.min(at, changes.length), 1))
  return moveCaret.of({ tab, anchor: from, head: to })
}

/// Sends the caret, unless it is in a text that only this tab has. After an edit, the other tabs
/// move it by themselves.
function showCaret() {
  clearTimeout(caretTimer)
  caretTimer = setTimeout(() => {
    if (copy.pending.length > 0) return
    const { anchor, head } = view.state.selection.main
    connection.send({ type: "caret", version: copy.version, anchor, head })
  }, CARET_PAUSE)
}

// --- The server ---

let ownName = null
const receivers = {
  welcome({ tab, version, timeline, commits, text, request, carets: others }) {
    ownName = tab
    copy.timeline = timeline
    const left = [...view.state.field(carets).keys()].map(tab => moveCaret.of({ tab }))
    if (commits) for (const commit of commits) display(copy.commit(commit))
    else if (request === "unknown" && copy.pending[0]?.sent) return giveUp(
      "This tab was away for too long: its last edit may be in the document or not. " +
      "Copy what you need, then reload.")
    else display(copy.reload(version, text, request === "committed"))
    display(null, [...left, ...others.map(displayed)])
    isFresh = false
  },
  commit(commit) {
    // The next welcome has what is missing.
    if (commit.version !== copy.version + 1) return connection.restart()
    if (copy.pending[0]?.key === commit.key) connection.answered()
    const shown = copy.commit(commit)
    const hasMoved = commit.tab !== ownName && commit.changes.length > 0
    display(shown, hasMoved ? [displayed(caretAfter(commit))] : [])
  },
  done({ key, changed }) {
    if (copy.pending[0]?.key !== key) return
    // If it changed something, its commit follows.
    if (changed) return
    connection.answered()
    display(copy.drop())
  },
  refused({ key, message, retry }) {
    if (copy.pending[0]?.key !== key) return
    connection.answered(retry ? RETRY : 0)
    if (retry) return
    display(copy.drop())
    notify(message)
  },
  caret({ caret }) {
    display(null, [displayed(caret)])
  },
  left({ tab }) {
    display(null, [moveCaret.of({ tab })])
  },
  panel(panel) {
    showPanel(panel, ownName)
  },
  error({ message }) {
    notify(message)
  },
}

/// Where the caret of a tab is after its commit: behind the first change.
function caretAfter({ tab, changes: [first, ...later] }) {
  let at = first.at + first.inserted.length
  for (const { at: from, removed, inserted } of later) {
    if (at >= from) at = from + inserted.length + Math.max(0, at - from - removed)
  }
  return { tab, anchor: at, head: at }
}

function giveUp(message) {
  isReplaced = true
  delete sessionStorage.session
  connection.stop()
  view.contentDOM.contentEditable = "false"
  notify(message, true)
}

const connection = new Connection({
  hello() {
    const [first] = copy.pending
    const key = first?.sent ? first.key : null
    const { version, timeline } = copy
    return { type: "hello", session, version: isFresh ? null : version, timeline, key }
  },
  receive(message) {
    receivers[message.type](message)
    showStatus()
  },
  request() {
    if (copy.pending.length === 0) return null
    copy.pending[0].sent = true
    return copy.message()
  },
  changed: showStatus,
  refused(code, reason) {
    giveUp(code === 4409 ? "This session goes on in another tab. Reload for a new one." : reason)
  },
})

// --- The status ---

let noticeTimer = null
function notify(message, stays = false) {
  clearTimeout(noticeTimer)
  element("notice").textContent = message
  element("notice").hidden = false
  if (!stays) noticeTimer = setTimeout(() => { element("notice").hidden = true }, 6000)
}

function showStatus() {
  const { isOpen } = connection
  const count = copy.pending.length
  const saved = count === 0 ? "saved" : count === 1 ? "1 request pending" : `${count} requests pending`
  element("status").textContent = isOpen ? saved : `offline, ${saved}`
  element("status").className = isOpen ? (count === 0 ? "saved" : "waiting") : "offline"
}

element("undo").onclick = () => request("undo")
element("redo").onclick = () => request("redo")
showStatus()
view.focus()

/// For the tests.
window.live = { view, connection, get copy() { return copy } }
