// Random selections in a document: carets, ranges, nodes, and cells of a table.
import {NodeSelection, Selection, TextSelection} from "prosemirror-state"
import {CellSelection, TableMap, cellAround} from "prosemirror-tables"
import {isWhole, one, random} from "./kit.mjs"

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
// A block that may not be selectable.
const block = list => doc => list.length ? NodeSelection.create(doc, one(list)) : null
export const selections = {
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
  before: doc => block(nodes(doc))(doc),
  // One beside another.
  second: doc => block(nodes(doc).filter(pos => doc.resolve(pos).nodeBefore))(doc),
  node(doc) {
    const list = nodes(doc).filter(pos => NodeSelection.isSelectable(doc.nodeAt(pos)))
    return list.length ? NodeSelection.create(doc, one(list)) : null
  },
}
// Selections in the first table, which is whole: of one cell, or of those between two.
export function table(doc) {
  let found = null
  doc.forEach((node, pos) => { if (node.type.name == "table") found = {node, start: pos + 1} })
  return found
}
export function cellsOf(doc) {
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
export const of = (...names) => doc => selections[one(names)](doc)
export const ranged = of("range", "range", "edges")

// A selection of cells in place of one of text from one cell to another, and null if the table is
// not whole. A selection that ends before the text of a cell is one up to the last cell before it
// that is not empty. The plugin of prosemirror-tables makes that a selection of the first block,
// and does not change one within the text of two cells.
export function overCells(selection) {
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
