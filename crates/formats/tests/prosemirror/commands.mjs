// Commands of an editor with random selections and arguments, as cases that doclock repeats with its
// operations. A command that does not apply has no result.
import {
  autoJoin, createParagraphNear, deleteSelection, exitCode, joinBackward, joinDown, joinForward,
  joinTextblockBackward, joinTextblockForward, joinUp, lift, liftEmptyBlock, newlineInCode,
  setBlockType, splitBlock, toggleMark, wrapIn,
} from "prosemirror-commands"
import {liftListItem, sinkListItem, splitListItem, wrapInList} from "prosemirror-schema-list"
import {EditorState, NodeSelection, Selection, TextSelection} from "prosemirror-state"
import {
  CellSelection, TableMap, __clipCells as clipCells, __insertCells as insertCells,
  __pastedCells as pastedCells, addColumnAfter, addColumnBefore, addRowAfter, addRowBefore,
  cellAround,
  deleteCellSelection, deleteColumn, deleteRow, deleteTable, fixTables, mergeCells,
  moveTableColumn, moveTableRow, setCellAttr, splitCell, splitCellWithType, tableNodeTypes,
  toggleHeader, toggleHeaderCell, toggleHeaderColumn, toggleHeaderRow,
} from "prosemirror-tables"
import {Fragment} from "prosemirror-model"
import {breakingSchemas, isWhole, kit, one, random} from "./kit.mjs"

// --- Selections ---

// The positions in texts, and those at the start and the end of one.
function places(doc) {
  const all = [], starts = [], ends = [], empty = []
  doc.descendants((node, pos) => {
    if (!node.isTextblock) return
    const size = node.content.size
    for (let at = 0; at <= size; at++) if (isWhole(doc, pos + 1 + at)) all.push(pos + 1 + at)
    starts.push(pos + 1)
    ends.push(pos + 1 + size)
    if (!size) empty.push(pos + 1)
  })
  return {all, starts, ends, empty}
}

function nodes(doc) {
  const all = []
  doc.descendants((node, pos) => { if (node.isBlock) all.push(pos) })
  return all
}

const caret = list => doc => list.length ? TextSelection.create(doc, one(list)) : null
const selections = {
  caret: doc => caret(places(doc).all)(doc),
  start: doc => caret(places(doc).starts)(doc),
  end: doc => caret(places(doc).ends)(doc),
  empty: doc => caret(places(doc).empty)(doc),
  range(doc) {
    const {all} = places(doc)
    if (!all.length) return null
    const nth = random(all.length), from = all[nth]
    const to = random(3) ? all[Math.min(all.length - 1, nth + random(8))] : one(all)
    return TextSelection.create(doc, from, to)
  },
  edges(doc) {
    const {starts, ends} = places(doc), both = [...starts, ...ends]
    return both.length ? TextSelection.create(doc, one(both), one(both)) : null
  },
  node(doc) {
    const list = nodes(doc).filter(pos => NodeSelection.isSelectable(doc.nodeAt(pos)))
    return list.length ? NodeSelection.create(doc, one(list)) : null
  },
}
// Selections in the first table, which is whole: of one cell, or of those between two.
function table(doc) {
  let found = null
  doc.forEach((node, pos) => { if (node.type.name == "table") found = {node, start: pos + 1} })
  return found
}
function cellsOf(doc) {
  const found = table(doc)
  return found ? [...new Set(TableMap.get(found.node).map)].map(pos => found.start + pos) : []
}
selections.cell = doc => {
  const cells = cellsOf(doc)
  return cells.length ? CellSelection.create(doc, one(cells)) : null
}
selections.cells = doc => {
  const cells = cellsOf(doc)
  return cells.length ? CellSelection.create(doc, one(cells), one(cells)) : null
}
selections.inCell = doc => {
  const all = places(doc).all.filter(pos => cellAround(doc.resolve(pos)))
  return all.length ? TextSelection.create(doc, one(all)) : null
}
// From a text in one to a text in another.
selections.across = doc => {
  const texts = pos => {
    const all = places(doc).all.filter(at => at > pos && at < pos + doc.nodeAt(pos).nodeSize)
    return all.length ? one(all) : null
  }
  const cells = cellsOf(doc), ends = cells.length ? [texts(one(cells)), texts(one(cells))] : []
  return ends[0] && ends[1] ? TextSelection.create(doc, ...ends) : null
}
// One with a span, if there is one.
selections.span = doc => {
  const cells = cellsOf(doc).filter(pos => {
    const {colspan, rowspan} = doc.nodeAt(pos).attrs
    return colspan > 1 || rowspan > 1
  })
  return cells.length ? CellSelection.create(doc, one(cells)) : selections.cell(doc)
}
const of = (...names) => doc => selections[one(names)](doc)
const ranged = of("range", "range", "edges")

// --- Commands ---

// A selection of cells in place of one of text from one cell to another, and null if the table is
// not whole. A selection that ends before the text of a cell is one up to the last cell before it
// that is not empty. The plugin of prosemirror-tables makes that a selection of the first block,
// and does not change one within the text of two cells.
function overCells(selection) {
  const around = $pos => {
    const found = []
    for (let depth = $pos.depth - 2; depth > 0; depth--) {
      if ($pos.node(depth).type.spec.tableRole == "table") {
        found.push([$pos.start(depth), $pos.before(depth + 2)])
      }
    }
    return found
  }
  if (!(selection instanceof TextSelection)) return selection
  const {$from, $to} = selection, last = new Map(around($to))
  for (const [start, cell] of around($from)) {
    if (!last.has(start)) continue
    if (last.get(start) == cell) return selection
    const doc = $from.doc, table = doc.resolve(start).parent
    if (TableMap.get(table).problems) return null
    const cells = []
    table.forEach((row, offset) => row.forEach((_, inRow) => cells.push(start + offset + 1 + inRow)))
    let nth = cells.indexOf(last.get(start))
    const {depth} = doc.resolve(cells[nth] + 1)
    if ($to.pos == $to.start(depth) + $to.depth - depth) {
      const isEmpty = ({firstChild, childCount}) =>
        childCount == 1 && firstChild.isTextblock && !firstChild.childCount
      do nth--
      while (cells[nth] != cell && isEmpty(doc.nodeAt(cells[nth])))
      if (cells[nth] == cell) {
        const end = doc.resolve(cell + doc.nodeAt(cell).nodeSize - 1)
        return TextSelection.between($from, Selection.near(end, -1).$to)
      }
    }
    return CellSelection.create(doc, cell, cells[nth])
  }
  return selection
}
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
// The type of an item, of lists and of blocks under both naming conventions.
const type = (schema, ...names) => names.map(name => schema.nodes[name]).find(Boolean)
const item = schema => type(schema, "list_item", "listItem")
const bullet = schema => type(schema, "bullet_list", "bulletList")
const ordered = schema => type(schema, "ordered_list", "orderedList")
const code = schema => type(schema, "code_block", "codeBlock")
const listed = command => [of("caret", "range", "edges", "empty"), ({schema}) =>
  item(schema) && [{item: item(schema).name}, command(item(schema))]]
const plainCommand = (select, command) => [select, () => [{}, command]]

// Commands on tables have documents of their own.
const inTable = (select, make) => {
  const command = [of(...select), kit => kit.schema.nodes.table ? make(kit) : null]
  command.tables = true
  return command
}
const plainTable = (select, command) => inTable(select, () => [{}, command])
// The rows or the columns of the first and the last selected cell.
function moves(axis, command) {
  return inTable(["cells"], () => [{}, (current, dispatch) => {
    const {$anchorCell, $headCell} = current.selection, {node, start} = table(current.doc)
    const line = $cell => TableMap.get(node).findCell($cell.pos - start)[axis]
    return command({from: line($anchorCell), to: line($headCell)})(current, dispatch)
  }])
}
// What a table is repaired to by the plugin of tables, which repairs as long as it changes anything.
function whole(doc) {
  for (let nth = 0; nth < 9; nth++) {
    const tr = fixTables(EditorState.create({doc}))
    if (!tr) return doc
    doc = tr.doc
  }
  return null
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
// What handlePaste of prosemirror-tables does with cells. The table is a document of its own: where
// it is not, insertCells puts what is left below the pasted cells where its position would be then.
const pasteCells = slice => ({doc, selection}, dispatch) => {
  const isOver = selection instanceof CellSelection
  const $cell = isOver ? selection.$anchorCell : cellAround(selection.$head)
  const table = $cell.node(-1), start = $cell.start(-1), map = TableMap.get(table)
  const rect = isOver ? map.rectBetween(selection.$anchorCell.pos - start, selection.$headCell.pos - start)
    : map.findCell($cell.pos - start)
  let cells = pastedCells(slice)
  if (isOver) cells = withWidths(clipCells(cells, rect.right - rect.left, rect.bottom - rect.top))
  insertCells(EditorState.create({doc: table}), pasted => {
    const {tr} = EditorState.create({doc})
    pasted.doc.check()
    const repaired = whole(tr.replaceWith(start - 1, start - 1 + table.nodeSize, pasted.doc).doc)
    if (repaired) dispatch({doc: repaired})
  }, 0, rect, cells)
  return true
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
// Each has the selections that it is run with, and makes its arguments and the command.
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
  paste: [of("caret", "start", "end", "empty", "range", "edges"), kit => {
    const source = kit.document(), selection = ranged(source)
    if (!selection || selection.empty) return null
    const {from, to} = selection, slice = source.slice(from, to, true)
    // Cells in a table are what handlePaste is for.
    const paste = edit((tr, start, end, {selection}) => {
      if (cellAround(selection.$head) && pastedCells(slice)) throw new Error("cells")
      tr.replaceSelection(slice)
    })
    return [{source: source.toJSON(), from, to}, withinCell(paste)]
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
  setBlockType: [of("caret", "range", "edges"), ({schema}) => {
    const [to, attrs] = one([
      [schema.nodes.heading, {level: 2}], [schema.nodes.paragraph, null], [code(schema), null],
    ])
    return [{type: to.name, attrs}, setBlockType(to, attrs)]
  }],
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
  splitListItem: listed(splitListItem),
  liftListItem: listed(liftListItem),
  sinkListItem: listed(sinkListItem),
  toggleMark: [ranged, kit => {
    const made = kit.randomMark()
    const options = {removeWhenPresent: false, includeWhitespace: true}
    return [mark(made), toggleMark(made.type, made.attrs, options)]
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
  moveTableRow: moves("top", moveTableRow),
  moveTableColumn: moves("left", moveTableColumn),
  fixTables: plainTable(["caret"], (current, dispatch) => {
    const doc = whole(current.doc)
    if (doc) dispatch({doc})
    return !!doc
  }),
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

// The JSON of a case, or null.
export function caseOf(kit, name, doc = documentFor(kit, name)) {
  if (!doc) return null
  const [select, make] = commands[name]
  const selection = select(doc), command = selection && make(kit)
  if (!command) return null
  const [args, apply] = command, outcome = run(apply, state(doc, selection))
  // Few of the cases in which a command does nothing say something.
  if (!outcome || !outcome.result && random(4)) return null
  const {anchor, head} = selection
  const line = JSON.stringify({
    schema: kit.name, command: name, ...args, doc,
    ...(selection instanceof NodeSelection ? {node: selection.from}
      : selection instanceof CellSelection
        ? {cells: [selection.$anchorCell.pos, selection.$headCell.pos]} : {anchor, head}),
    result: outcome.result,
  })
  return /\\ud[89a-f]/i.test(line) ? null : line
}
