// What the editor shows beside the text: pending edits, and the carets of other tabs.

import { StateEffect, StateField } from "@codemirror/state"
import { Decoration, EditorView, WidgetType } from "@codemirror/view"

const inserted = Decoration.mark({ class: "pending", inclusive: false })

class Deleted extends WidgetType {
  constructor(text) {
    super()
    this.text = text
  }

  eq(other) {
    return other.text === this.text
  }

  toDOM() {
    const mark = document.createElement("span")
    mark.className = "pending-deletion"
    mark.title = `not yet deleted: ${this.text}`
    return mark
  }
}

/// A line break that is pending. Without it, nothing would mark an empty line.
class Break extends WidgetType {
  eq() {
    return true
  }

  toDOM() {
    const mark = document.createElement("span")
    mark.className = "pending"
    mark.textContent = "↵"
    return mark
  }
}

/// Marks the edits that the store has not acknowledged. What has no mark is the text of a version.
export const pendingMarks = copy => EditorView.decorations.of(() => {
  const marks = []
  const before = copy().confirmed
  copy().changes.iterChanges((fromA, toA, fromB, toB, text) => {
    if (toA > fromA) {
      const widget = new Deleted(before.sliceString(fromA, Math.min(toA, fromA + 100), "\n"))
      marks.push(Decoration.widget({ widget, side: -1 }).range(fromB))
    }
    if (toB > fromB) marks.push(inserted.range(fromB, toB))
    let at = fromB - 1
    for (const line of text.iterLines()) {
      at += 1 + line.length
      if (at < toB) marks.push(Decoration.widget({ widget: new Break() }).range(at))
    }
  })
  return Decoration.set(marks, true)
})

export const hue = tab => parseInt(tab.slice(0, 4), 16) % 360
export const nameOf = tab => `tab ${tab.slice(0, 4)}`

class Caret extends WidgetType {
  constructor(tab) {
    super()
    this.tab = tab
  }

  eq(other) {
    return other.tab === this.tab
  }

  toDOM() {
    const caret = document.createElement("span")
    caret.className = "caret"
    caret.style.setProperty("--hue", hue(this.tab))
    caret.dataset.tab = this.tab
    const name = document.createElement("span")
    name.textContent = nameOf(this.tab)
    caret.append(name)
    return caret
  }

  ignoreEvent() {
    return true
  }
}

/// Moves the caret of a tab: `{tab, anchor, head}`. Without `head` it is removed.
export const moveCaret = StateEffect.define()

export const carets = StateField.define({
  create: () => new Map(),
  update(before, transaction) {
    let after = before
    if (transaction.docChanged) {
      const map = at => transaction.changes.mapPos(at, 1)
      after = new Map([...before].map(([tab, { anchor, head }]) => {
        return [tab, { anchor: map(anchor), head: map(head) }]
      }))
    }
    for (const effect of transaction.effects) {
      if (!effect.is(moveCaret)) continue
      const { tab, anchor, head } = effect.value
      if (after === before) after = new Map(before)
      if (head === undefined) after.delete(tab)
      else after.set(tab, { anchor, head })
    }
    return after
  },
  provide: field => EditorView.decorations.from(field, carets => {
    const marks = []
    for (const [tab, { anchor, head }] of carets) {
      marks.push(Decoration.widget({ widget: new Caret(tab), side: 1 }).range(head))
      if (anchor === head) continue
      const attributes = { style: `--hue: ${hue(tab)}` }
      const range = [Math.min(anchor, head), Math.max(anchor, head)]
      marks.push(Decoration.mark({ class: "selected", attributes }).range(...range))
    }
    return Decoration.set(marks, true)
  }),
})
