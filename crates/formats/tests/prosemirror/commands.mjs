// Commands of an editor with random selections and arguments, as cases that doclock repeats with its
// operations. A command that does not apply has no result.
import {
  autoJoin, createParagraphNear, deleteSelection, exitCode, joinBackward, joinDown, joinForward,
  joinTextblockBackward, joinTextblockForward, joinUp, lift, liftEmptyBlock, newlineInCode,
  setBlockType, splitBlock, splitBlockAs, splitBlockKeepMarks, toggleMark, wrapIn,
} from "prosemirror-commands"
import {
  liftListItem, sinkListItem, splitListItem, splitListItemKeepMarks, wrapInList, wrapRangeInList,
} from "prosemirror-schema-list"
import {EditorState, NodeSelection} from "prosemirror-state"
import {
  CellSelection, TableMap, __clipCells as clipCells, __insertCells as insertCells,
  __pastedCells as pastedCells, addColumnAfter, addColumnBefore, addRowAfter, addRowBefore,
  cellAround,
  deleteCellSelection, deleteColumn, deleteRow, deleteTable, fixTables, mergeCells,
  moveTableColumn, moveTableRow, removeColSpan, setCellAttr, splitCell, splitCellWithType, tableNodeTypes,
  toggleHeader, toggleHeaderCell, toggleHeaderColumn, toggleHeaderRow,
} from "prosemirror-tables"
import {Fragment} from "prosemirror-model"
import {Transform, findWrapping, liftTarget} from "prosemirror-transform"
import {breakingSchemas, kit, one, random} from "./kit.mjs"
import {cellsOf, of, overCells, ranged, selections, table} from "./selections.mjs"
import {typing, undoing} from "./typing.mjs"

const emptying = command => (current, dispatch) => {
  const selection = overCells(current.selection)
  if (!selection) throw new Error("a table that is not whole")
  return selection instanceof CellSelection
    ? deleteCellSelection(current.apply(current.tr.setSelection(selection)), dispatch)
    : command(current.apply(current.tr.setSelection(selection)), dispatch)
}
// Other commands replace the content of one of the cells as well.
const withinCell = command => (current, dispatch) => {
  if (overCells(current.selection) != current.selection) throw new Error("several cells")
  return command(current, dispatch)
}

const mark = json => ({mark: json.toJSON()})
const state = (doc, selection) => EditorState.create({doc, selection})
const edit = change => (current, dispatch) => {
  const {tr, selection: {from, to}} = current
  change(tr, from, to, current)
  if (tr.docChanged) dispatch(tr)
  return tr.docChanged
}
// toggleMark where a text that may not have the mark does not count, and white space does where
// there is nothing else. The command of prosemirror-commands never removes a mark from a range with
// a text of the former kind, and never adds one to white space.
const toggled = made => edit((tr, from, to) => {
  const {type} = made, found = []
  tr.doc.nodesBetween(from, to, (node, pos, parent) => {
    const has = !!type.isInSet(node.marks), may = has || made.isInSet(made.addToSet(node.marks))
    if (!node.isInline || !may || !parent.type.allowsMarkType(type)) return
    const text = node.isText ? node.text.slice(Math.max(0, from - pos), to - pos) : "x"
    found.push({has, isBlank: !text.trim()})
  })
  const words = found.filter(({isBlank}) => !isBlank)
  const every = (words.length ? words : found).every(({has}) => has)
  if (every) tr.removeMark(from, to, type)
  else tr.addMark(from, to, made)
})
// The type of an item, of lists and of blocks under both naming conventions.
const type = (schema, ...names) => names.map(name => schema.nodes[name]).find(Boolean)
const item = schema => type(schema, "list_item", "listItem")
const bullet = schema => type(schema, "bullet_list", "bulletList")
const ordered = schema => type(schema, "ordered_list", "orderedList")
const code = schema => type(schema, "code_block", "codeBlock")
const listed = command => [of("caret", "range", "edges", "empty"), ({schema}) =>
  item(schema) && [{item: item(schema).name}, command(item(schema))]]
const plainCommand = (select, command) => [select, () => [{}, command]]
// A text block of a random type.
const blockTypes = schema => [
  [schema.nodes.heading, {level: 2}], [schema.nodes.paragraph, null], [code(schema), null],
]
const setting = make => [of("caret", "range", "edges"), ({schema}) => {
  const [type, attrs] = one(blockTypes(schema))
  return [{type: type.name, attrs}, make(type, attrs)]
}]
// Another type for a node, with its attributes, or null.
function otherMarkup(schema, {type, attrs}) {
  const start = ordered(schema)?.spec.attrs.start ? "start" : "order"
  const lists = [[bullet(schema), null], [ordered(schema), {[start]: 3}]]
  const cells = ["table_cell", "table_header"].map(name => [schema.nodes[name], attrs])
  const kinds = [blockTypes(schema), lists, cells].find(kinds => kinds.some(([of]) => of == type))
  return kinds ? one(kinds) : null
}
const pasting = replace => [of("caret", "start", "end", "empty", "range", "edges"), kit => {
  const source = kit.document(), selection = ranged(source)
  if (!selection || selection.empty) return null
  const {from, to} = selection, over = overCells(selection), slice = over?.content()
  if (!slice) return null
  // Cells in a table are what handlePaste is for.
  const paste = edit((tr, start, end, {selection}) => {
    if (cellAround(selection.$head) && pastedCells(slice)) throw new Error("cells")
    replace(tr, slice, start, end)
  })
  return [{source: source.toJSON(), from, to}, withinCell(paste)]
}]
const inBlocks = change => edit((tr, from, to, {selection: {$from, $to}}) => {
  const range = $from.blockRange($to)
  if (range) change(tr, range)
})
// The marks of the caret stay, and text is typed there.
const keepingMarks = command => {
  const args = {}
  return [args, (current, dispatch) => {
    const {$from, $to} = current.selection
    args.marks = $to.parentOffset ? $from.marks().map(mark => mark.toJSON()) : null
    return command(current, tr => dispatch(current.apply(tr).tr.insertText("x")))
  }]
}

// Commands on tables have documents of their own.
const inTable = (select, make) => {
  const command = [of(...select), kit => kit.schema.nodes.table ? make(kit) : null]
  command.tables = true
  return command
}
const plainTable = (select, ...command) => inTable(select, () => [{}, ...command])
// The rows or the columns of the first and the last selected cell.
function moves(axis, command) {
  return inTable(["cells"], () => [{}, (current, dispatch) => {
    const {$anchorCell, $headCell} = current.selection, {node, start} = table(current.doc)
    const line = $cell => TableMap.get(node).findCell($cell.pos - start)[axis]
    return command({from: line($anchorCell), to: line($headCell)})(current, dispatch)
  }])
}
// What a table is repaired to by the plugin of tables, which repairs as long as it changes anything.
function whole(doc, prepared = doc => doc) {
  for (let nth = 0; nth < 9; nth++) {
    doc = prepared(doc)
    const tr = fixTables(EditorState.create({doc}))
    if (!tr) return doc
    doc = tr.doc
  }
  return null
}
const wholly = prepared => (current, dispatch) => {
  const doc = whole(current.doc, prepared)
  if (doc) dispatch({doc})
  return !!doc
}
// The cells with the widths of their own columns: clipCells leaves a cell that it cuts all that the
// cell had.
function withWidths(cells) {
  const cut = cell => {
    const {colspan, colwidth} = cell.attrs, own = colwidth?.slice(0, colspan)
    const widths = own?.some(width => width > 0) ? own : null
    return cell.type.create({...cell.attrs, colwidth: widths}, cell.content)
  }
  return {...cells, rows: cells.rows.map(row => Fragment.from(row.content.map(cut)))}
}
// A new cell with what is pasted into it.
const cellOf = (type, slice) => {
  const cell = type.createAndFill()
  return new Transform(cell).replace(0, cell.content.size, slice).doc
}
// Each selected cell with what is pasted into it. handlePaste puts a plain cell without attributes
// at each of their places.
const pasteIntoEach = slice => ({tr, selection}, dispatch) => {
  const pasted = []
  selection.forEachCell((cell, pos) => pasted.unshift([cell, pos]))
  for (const [cell, pos] of pasted) {
    const {content} = cellOf(cell.type, slice)
    tr.replaceWith(pos + 1, pos + 1 + cell.content.size, content)
  }
  dispatch(tr)
  return true
}
// What handlePaste of prosemirror-tables does with cells, and, in several selected ones, with what
// is none. The table is a document of its own: where
// it is not, insertCells puts what is left below the pasted cells where its position would be then.
const pasteCells = slice => ({doc, selection}, dispatch) => {
  const isOver = selection instanceof CellSelection
  const $cell = isOver ? selection.$anchorCell : cellAround(selection.$head)
  const table = $cell.node(-1), start = $cell.start(-1), map = TableMap.get(table)
  const rect = isOver ? map.rectBetween(selection.$anchorCell.pos - start, selection.$headCell.pos - start)
    : map.findCell($cell.pos - start)
  const ofContent = () => {
    const cell = cellOf(tableNodeTypes(doc.type.schema).cell, slice)
    return {width: 1, height: 1, rows: [Fragment.from(cell)]}
  }
  let cells = pastedCells(slice) || ofContent()
  if (isOver) cells = withWidths(clipCells(cells, rect.right - rect.left, rect.bottom - rect.top))
  insertCells(EditorState.create({doc: table}), pasted => {
    const {tr} = EditorState.create({doc})
    pasted.doc.check()
    const repaired = whole(tr.replaceWith(start - 1, start - 1 + table.nodeSize, pasted.doc).doc)
    if (repaired) dispatch({doc: repaired})
  }, 0, rect, cells)
  return true
}
// A document in which no cell of the first table overlaps another or reaches below the last row.
// fixTables adds cells for each place at which one overlaps another, and columns with them.
function withoutOverlaps(doc) {
  if (!table(doc)) return doc
  const {tr} = EditorState.create({doc}), {node, start} = table(doc), taken = []
  node.forEach(() => taken.push([]))
  node.forEach((row, offset, nth) => {
    let left = 0
    row.forEach((cell, inRow) => {
      const {colspan, rowspan} = cell.attrs, rows = taken.slice(nth, nth + rowspan)
      while (taken[nth][left]) left++
      let right = left + 1
      while (right < left + colspan && !taken[nth][right]) right++
      for (const places of rows) for (let at = left; at < right; at++) places[at] = true
      const wide = left + colspan - right, attrs = {...cell.attrs, rowspan: rows.length}
      const cut = wide ? removeColSpan(attrs, right - left, wide) : attrs
      tr.setNodeMarkup(start + offset + 1 + inRow, null, cut)
      left = right
    })
  })
  return tr.doc
}
// A document with a table that is not whole any more.
function damaged(doc) {
  const {tr} = EditorState.create({doc}), found = table(doc), pos = one(cellsOf(doc))
  const cell = doc.nodeAt(pos), set = attrs => tr.setNodeMarkup(pos, null, {...cell.attrs, ...attrs})
  switch (random(5)) {
    case 0: case 1: tr.delete(pos, pos + cell.nodeSize); break
    case 2: tr.insert(pos, cell); break
    case 3: {
      const near = name => Math.max(1, cell.attrs[name] + one([-1, 0, 1]))
      set({colspan: near("colspan"), rowspan: near("rowspan")})
    } break
    default: set({colwidth: Array.from({length: cell.attrs.colspan}, () => one([0, 40, 60]))})
  }
  return table(tr.doc) && tr.doc
}
// Each has the selections that it is run with, and makes its arguments and the command. Where the
// command of the package has a defect, it makes the command without it as well.
export const commands = {
  deleteSelection: plainCommand(of("range", "range", "edges", "node"), emptying(deleteSelection)),
  delete: plainCommand(ranged, emptying(edit((tr, from, to) => tr.delete(from, to)))),
  deleteRange: plainCommand(ranged, emptying(edit((tr, from, to) => tr.deleteRange(from, to)))),
  insertText: [of("caret", "empty", "start", "end"), ({words}) => {
    const text = one(words)
    return [{text}, edit(tr => tr.insertText(text))]
  }],
  insertTextOver: [ranged, ({words}) => {
    const text = one(words)
    return [{text}, withinCell(edit(tr => tr.insertText(text)))]
  }],
  paste: pasting((tr, slice) => tr.replaceSelection(slice)),
  replaceRange: pasting((tr, slice, from, to) => tr.replaceRange(from, to, slice)),
  replaceRangeWith: [of("caret", "empty", "range", "edges"), kit => {
    const node = kit.block(1)
    return [{content: node.toJSON()}, withinCell(edit((tr, from, to, {selection}) => {
      if (cellAround(selection.$head) && node.type.name == "table") throw new Error("cells")
      tr.replaceRangeWith(from, to, node)
    }))]
  }],
  insert: [of("caret", "start", "end", "before"), kit => {
    const [text, block] = [kit.inline(kit.schema.nodes.paragraph), kit.block(1)], args = {}
    return [args, edit((tr, from, to, {selection}) => {
      const node = selection instanceof NodeSelection ? block : text, $from = tr.doc.resolve(from)
      // A node that may not be there is for replaceRange.
      if (!$from.parent.canReplaceWith($from.index(), $from.index(), node.type)) throw new Error("no place")
      args.content = node.toJSON()
      tr.insert(from, node)
    })]
  }],
  split: [of("caret", "start", "end", "empty"), () => {
    const depth = 1 + random(2)
    return [{depth}, edit((tr, from) => tr.split(from, depth))]
  }],
  join: plainCommand(of("second"), edit((tr, from) => tr.join(from))),
  "Transform.lift": plainCommand(of("caret", "range", "edges"), inBlocks((tr, range) => {
    const target = liftTarget(range)
    if (target != null) tr.lift(range, target)
  })),
  "Transform.wrap": [of("caret", "range", "edges"), ({schema}) => {
    const type = one([schema.nodes.blockquote, bullet(schema), ordered(schema)].filter(Boolean))
    return [{type: type.name}, inBlocks((tr, range) => {
      const wrapping = findWrapping(range, type)
      if (wrapping) tr.wrap(range, wrapping)
    })]
  }],
  "Transform.setBlockType": setting((type, attrs) =>
    edit((tr, from, to) => tr.setBlockType(from, to, type, attrs))),
  setNodeMarkup: [of("before"), kit => {
    const args = {}
    return [args, edit((tr, from) => {
      const markup = otherMarkup(kit.schema, tr.doc.nodeAt(from))
      if (!markup) throw new Error("no other markup")
      const [type, attrs] = markup
      Object.assign(args, {type: type.name, attrs})
      tr.setNodeMarkup(from, type, attrs)
    })]
  }],
  setNodeAttribute: [of("before"), () => {
    const args = {}
    return [args, edit((tr, from) => {
      const {type, attrs} = tr.doc.nodeAt(from)
      const values = {level: [1, 2, 3], order: [1, 7], start: [1, 7], colwidth: [[7], [8]]}
      const name = one(Object.keys(attrs).filter(name => name in values))
      if (!name) throw new Error("no attribute")
      const value = one(values[name])
      Object.assign(args, {type: type.name, attrs: {...attrs, [name]: value}})
      tr.setNodeAttribute(from, name, value)
    })]
  }],
  setDocAttribute: [of("caret"), ({schema}) => {
    const title = one(["a", "b"])
    return "title" in (schema.nodes.doc.spec.attrs || {})
      ? [{title}, edit(tr => tr.setDocAttribute("title", title))] : null
  }],
  cutAndPaste: plainCommand(ranged, withinCell((current, dispatch) => {
    if (current.selection.empty) return false
    const slice = current.selection.content()
    let next
    deleteSelection(current, tr => { next = current.apply(tr) })
    const {tr} = next
    tr.replaceSelection(slice)
    dispatch(tr)
    return true
  })),
  copyOverItself: plainCommand(ranged, withinCell((current, dispatch) => {
    if (current.selection.empty) return false
    const {tr} = current
    tr.replaceSelection(current.selection.content())
    dispatch(tr)
    return true
  })),
  splitBlock: plainCommand(
    of("caret", "start", "end", "empty", "range", "edges"), withinCell(splitBlock)),
  splitBlockAs: [of("caret", "start", "end", "empty"), ({schema}) => {
    const [type] = one(blockTypes(schema))
    return [{type: type.name}, splitBlockAs(() => ({type}))]
  }],
  splitBlockKeepMarks: [of("caret", "end"), () => keepingMarks(splitBlockKeepMarks)],
  joinBackward: plainCommand(of("start", "empty"), joinBackward),
  joinForward: plainCommand(of("end", "empty"), joinForward),
  joinTextblockBackward: plainCommand(of("start", "empty"), joinTextblockBackward),
  joinTextblockForward: plainCommand(of("end", "empty"), joinTextblockForward),
  joinUp: plainCommand(of("caret", "node"), joinUp),
  joinDown: plainCommand(of("caret", "node"), joinDown),
  lift: plainCommand(of("caret", "range", "edges"), lift),
  liftEmptyBlock: plainCommand(of("empty"), liftEmptyBlock),
  wrapIn: [of("caret", "range", "edges"), ({schema}) =>
    [{type: "blockquote"}, wrapIn(schema.nodes.blockquote)]],
  setBlockType: setting(setBlockType),
  exitCode: plainCommand(of("caret"), exitCode),
  newlineInCode: plainCommand(of("caret"), newlineInCode),
  createParagraphNear: plainCommand(of("node"), createParagraphNear),
  autoJoin: [of("caret", "range", "edges"), ({schema}) => {
    const list = one([bullet(schema), ordered(schema)])
    const types = [schema.nodes.blockquote, bullet(schema), ordered(schema)].filter(Boolean)
    const [inner, command] = one([
      ["wrapIn", wrapIn(schema.nodes.blockquote)], ["lift", lift],
      ["deleteSelection", emptying(deleteSelection)],
      ...list ? [["wrapInList", wrapInList(list)], ["liftListItem", liftListItem(item(schema))],
        ["sinkListItem", sinkListItem(item(schema))]] : [],
    ])
    const type = inner == "wrapInList" ? {type: list.name} : {}
    return [{inner, ...type}, autoJoin(command, types.map(type => type.name))]
  }],
  wrapInList: [of("caret", "range", "edges"), ({schema}) => {
    const list = one([bullet(schema), ordered(schema)])
    return list && [{type: list.name}, wrapInList(list)]
  }],
  wrapRangeInList: [of("caret", "range", "edges"), ({schema}) => {
    const list = one([bullet(schema), ordered(schema)])
    return list && [{type: list.name}, inBlocks((tr, range) => wrapRangeInList(tr, range, list))]
  }],
  splitListItem: listed(splitListItem),
  splitListItemKeepMarks: [of("caret", "end"), ({schema}) =>
    item(schema) ? keepingMarks(splitListItemKeepMarks(item(schema))) : null],
  liftListItem: listed(liftListItem),
  sinkListItem: listed(sinkListItem),
  toggleMark: [ranged, kit => {
    const made = kit.randomMark()
    const options = {removeWhenPresent: false, includeWhitespace: true}
    return [mark(made), toggleMark(made.type, made.attrs, options), toggled(made)]
  }],
  // Marks are toggled at the caret, and text is typed there.
  setStoredMarks: [of("caret", "empty", "start", "end"), kit => {
    const toggled = Array.from({length: 1 + random(3)}, kit.randomMark), text = one(kit.words)
    return [{toggled: toggled.map(mark => mark.toJSON()), text}, (current, dispatch) => {
      for (const {type, attrs} of toggled) {
        toggleMark(type, attrs)(current, tr => { current = current.apply(tr) })
      }
      // As the view does with typed text.
      dispatch(current.tr.insertText(text))
      return true
    }]
  }],
  inputRules: [of("caret", "start", "start", "empty"), kit => kit.name != "tiptap" && typing(kit)],
  "input rules": [of("caret", "start", "start", "empty"), kit => kit.name == "tiptap" && typing(kit)],
  undoInputRule: [of("caret", "start", "start", "empty"), undoing],
  addMark: [ranged, kit => {
    const made = kit.randomMark()
    return [mark(made), edit((tr, from, to) => tr.addMark(from, to, made))]
  }],
  removeMark: [ranged, kit => {
    const made = kit.randomMark()
    return [mark(made), edit((tr, from, to) => tr.removeMark(from, to, made))]
  }],
  removeMarkType: [ranged, kit => {
    const made = kit.randomMark()
    return [mark(made), edit((tr, from, to) => tr.removeMark(from, to, made.type))]
  }],
  clearMarks: plainCommand(ranged, edit((tr, from, to) => tr.removeMark(from, to))),
  addRowBefore: plainTable(["cell"], addRowBefore),
  addRowAfter: plainTable(["cell"], addRowAfter),
  addColumnBefore: plainTable(["cell"], addColumnBefore),
  addColumnAfter: plainTable(["cell"], addColumnAfter),
  deleteRow: plainTable(["cell", "cells"], deleteRow),
  deleteColumn: plainTable(["cell", "cells"], deleteColumn),
  mergeCells: plainTable(["cells"], mergeCells),
  splitCell: plainTable(["span"], splitCell),
  splitCellWithType: inTable(["span"], ({schema}) => {
    const type = one(["cell", "header_cell"])
    return [{type}, splitCellWithType(() => tableNodeTypes(schema)[type])]
  }),
  setCellAttr: inTable(["cell"], () => {
    const value = one([[7], [8], null])
    return [{value}, setCellAttr("colwidth", value)]
  }),
  toggleHeaderRow: plainTable(["cell", "cells"], toggleHeaderRow),
  toggleHeaderColumn: plainTable(["cell", "cells"], toggleHeaderColumn),
  toggleHeaderCell: plainTable(["cell", "cells"], toggleHeaderCell),
  toggleHeader: inTable(["cell"], () => {
    const part = one(["row", "column"])
    return [{part}, toggleHeader(part)]
  }),
  deleteCellSelection: plainTable(["cell", "cells", "across"], emptying(deleteCellSelection)),
  deleteTable: plainTable(["cell"], deleteTable),
  handlePaste: inTable(["cell", "cells", "inCell"], kit => {
    const source = whole(kit.tableDocument()), copied = source && selections.cells(source)
    if (!copied) return null
    const from = [copied.$anchorCell.pos, copied.$headCell.pos]
    return [{source: source.toJSON(), from}, pasteCells(copied.content())]
  }),
  "handlePaste (no cells)": inTable(["cell", "cells"], kit => {
    const source = kit.document(), selection = ranged(source)
    const over = selection?.empty ? null : overCells(selection), slice = over?.content()
    if (!slice || pastedCells(slice)) return null
    const {from, to} = selection
    return [{content: source.toJSON(), from, to}, pasteCells(slice), pasteIntoEach(slice)]
  }),
  moveTableRow: moves("top", moveTableRow),
  moveTableColumn: moves("left", moveTableColumn),
  fixTables: plainTable(["caret"], wholly(), wholly(withoutOverlaps)),
}

// --- Cases ---

// What a command makes of a document, or null if it fails.
function run(command, current) {
  let result = null
  try {
    if (!command(current, tr => { result = tr.doc })) return {result: null}
    result?.check()
    return {result}
  } catch (error) {
    if (!(error instanceof Error)) throw error
    return null
  }
}

// A newline in a text is a character of its own in a document of doclock, and none of an editor's.
const words = ["a", "bc", "é", "🦀", "漢 ", "\\\"", "d🦀e", " "]
const codes = ["x", "x\ny", "🦀", "y"]
export const kits = Object.entries(breakingSchemas)
  .map(([name, schema]) => kit(name, schema, words, codes))

// A document for a command, or null.
function documentFor(kit, name) {
  const inTables = commands[name].tables
  if (inTables && !kit.schema.nodes.table) return null
  const doc = inTables ? whole(kit.tableDocument()) : kit.document()
  return doc && name == "fixTables" ? damaged(doc) : doc
}

// A document with a hard break for each newline of a text that is not in code: where code is joined
// to text, only some commands replace its newlines.
function withBreaks(node) {
  const {linebreakReplacement} = node.type.schema, content = []
  node.forEach(child => {
    if (!child.isText || node.type.spec.code) return content.push(withBreaks(child))
    child.text.split("\n").forEach((text, nth) => {
      if (nth) content.push(linebreakReplacement.create(null, null, child.marks))
      if (text) content.push(child.type.schema.text(text, child.marks))
    })
  })
  return node.copy(Fragment.from(content))
}

// The JSON of a case, or null.
export function caseOf(kit, name, doc = documentFor(kit, name)) {
  if (!doc) return null
  const [select, make] = commands[name]
  const selection = select(doc), command = selection && make(kit)
  if (!command) return null
  const [args, apply, mended] = command, outcome = run(apply, state(doc, selection))
  // Few of the cases in which a command does nothing say something.
  if (!outcome || !outcome.result && random(4)) return null
  const without = mended ? run(mended, state(doc, selection))?.result : outcome.result
  const right = withBreaks(without || doc)
  const isDefect = !right.eq(outcome.result || doc)
  const {anchor, head} = selection
  const line = JSON.stringify({
    schema: kit.name, command: name, ...args, doc,
    ...(selection instanceof NodeSelection ? {node: selection.from}
      : selection instanceof CellSelection
        ? {cells: [selection.$anchorCell.pos, selection.$headCell.pos]} : {anchor, head}),
    result: isDefect ? right : outcome.result, ...isDefect && {isDefect},
  })
  return /\\ud[89a-f]/i.test(line) ? null : line
}
