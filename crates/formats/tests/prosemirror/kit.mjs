// The four schemas of the comparisons with ProseMirror, and random documents, selections, slices and
// steps under them.
import {getSchema} from "@tiptap/core"
import StarterKit from "@tiptap/starter-kit"
import {Fragment, Schema, Slice} from "prosemirror-model"
import {schema as plain} from "prosemirror-schema-basic"
import {addListNodes} from "prosemirror-schema-list"
import {tableNodes} from "prosemirror-tables"
import {
  AddMarkStep, AddNodeMarkStep, AttrStep, DocAttrStep, RemoveMarkStep, RemoveNodeMarkStep,
  ReplaceAroundStep, ReplaceStep, findWrapping, liftTarget,
} from "prosemirror-transform"

let state = 0
export function begin(seed) { state = seed >>> 0 }
export function random(below) {
  state = (state + 0x6d2b79f5) >>> 0
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) % below
}
export const one = list => list[random(list.length)]
export const some = (most, make) => Array.from({length: random(most + 1)}, make)

// --- Four schemas ---

const listed = addListNodes(plain.spec.nodes, "paragraph block*", "block")
const breaks = nodes => nodes.update("hard_break", {
  ...nodes.get("hard_break"), linebreakReplacement: true,
})
const breaking = breaks(listed)
// Marks that exclude others on one side or both, and a mark that accompanies itself.
const excluding = {
  ...plain.spec.marks.update("strong", {...plain.spec.marks.get("strong"), excludes: "strong em"})
    .update("code", {...plain.spec.marks.get("code"), excludes: "_"}).toObject(),
  note: {attrs: {id: {}}, excludes: ""},
}
export const schemas = {
  basic: new Schema({nodes: plain.spec.nodes, marks: plain.spec.marks}),
  list: new Schema({
    nodes: breaking
      .update("doc", {...breaking.get("doc"), attrs: {title: {default: null}}})
      .update("heading", {...breaking.get("heading"), marks: "em link note"}),
    marks: excluding,
  }),
  table: new Schema({
    nodes: listed.append(tableNodes({tableGroup: "block", cellContent: "block+", cellAttributes: {}})),
    marks: plain.spec.marks,
  }),
  tiptap: getSchema([StarterKit]),
}

// The same, where a newline of code becomes a hard break, as in the documents of doclock.
export const breakingSchemas = {
  ...schemas,
  basic: new Schema({nodes: breaks(plain.spec.nodes), marks: plain.spec.marks}),
  table: new Schema({nodes: breaks(schemas.table.spec.nodes), marks: plain.spec.marks}),
}

const allWords = [
  "a", "bc", "é", "🦀", "漢 ", "\\\"", "d🦀e", "a\nb", "\n", "x\n\ny", "\u2028", "\u2029\u0085",
]

const allCodes = ["x", "x\ny", "🦀\n", "\u2028"]

// The generators of one schema. Its types have one of two names.
export function kit(name, schema = schemas[name], words = allWords, codes = allCodes) {
  const {nodes, marks} = schema
  const hardBreak = nodes.hard_break || nodes.hardBreak
  const codeBlock = nodes.code_block || nodes.codeBlock
  const rule = nodes.horizontal_rule || nodes.horizontalRule
  const bullet = nodes.bullet_list || nodes.bulletList
  const ordered = nodes.ordered_list || nodes.orderedList
  const item = nodes.list_item || nodes.listItem
  const order = ordered && ("order" in ordered.spec.attrs ? "order" : "start")

  function randomMark() {
    const type = one(Object.values(marks))
    return type.create(
      type.name == "link" ? {href: one(["/a", "/b"])} : type.name == "note" ? {id: one(["1", "2"])} : null)
  }
  const markSet = () => some(2, randomMark).reduce((set, mark) => mark.addToSet(set), [])
  const allowed = (type, set) => type.allowedMarks(set)
  function inline(type) {
    const set = allowed(type, markSet())
    switch (random(8)) {
      case 0: return hardBreak.create(null, null, set)
      case 1: if (nodes.image) {
        return nodes.image.create({src: "a.png", alt: one([null, "x"])}, null, set)
      }
      default: return schema.text(one(words), set)
    }
  }
  const text = type => Fragment.from(some(4, () => inline(type)))
  const paragraph = () => nodes.paragraph.create(null, text(nodes.paragraph))
  const code = () =>
    codeBlock.create(null, random(3) ? schema.text(one(codes)) : null)
  function block(depth) {
    switch (random(depth > 0 ? 12 : 6)) {
      case 0: return nodes.heading.create({level: 1 + random(3)}, text(nodes.heading))
      case 1: return code()
      case 2: return rule.create()
      case 6: case 7: return nodes.blockquote.create(null, blocks(depth - 1, 1))
      case 8: if (bullet) return bullet.create(null, items(depth - 1))
      case 9: if (ordered) return ordered.create({[order]: random(3)}, items(depth - 1))
      case 10: if (nodes.table) return nodes.table.create(null, rows(depth - 1))
      default: return paragraph()
    }
  }
  const blocks = (depth, least) => Array.from({length: least + random(3)}, () => block(depth))
  const items = depth => Array.from({length: 1 + random(2)}, () =>
    item.create(null, [paragraph(), ...blocks(depth, 0)]))
  const rows = depth => Array.from({length: 1 + random(2)}, () =>
    nodes.table_row.create(null, Array.from({length: random(3)}, () =>
      one([nodes.table_cell, nodes.table_header])
        .create({colspan: 1 + random(2), colwidth: one([null, [9]])}, blocks(depth, 1)))))
  const document = () => nodes.doc.create(null, blocks(3, 1))
  // A table of random cells with spans, in a document.
  function tableDocument() {
    const width = 1 + random(6), height = 1 + random(5), taken = []
    const free = (row, col) => row < height && col < width && !taken[row * width + col]
    const header = random(4), widths = random(3) ? [] : some(width, () => one([40, 80]))
    const rows = []
    for (let row = 0; row < height; row++) {
      const cells = []
      for (let col = 0; col < width; col++) {
        if (!free(row, col)) continue
        let colspan = 1, rowspan = 1
        while (free(row, col + colspan) && !random(6)) colspan++
        while (width > 1 && row + rowspan < height && !random(6)) rowspan++
        for (let r = 0; r < rowspan; r++) for (let c = 0; c < colspan; c++) {
          taken[(row + r) * width + col + c] = true
        }
        const isHeader = header & 1 && !row || header & 2 && !col || !random(8)
        const own = Array.from({length: colspan}, (_, nth) => widths[col + nth] || 0)
        const type = isHeader ? nodes.table_header : nodes.table_cell
        const colwidth = own.some(width => width) ? own : null
        const content = random(3) ? blocks(random(3) ? 0 : 1, 1) : [nodes.paragraph.create()]
        cells.push(type.create({colspan, rowspan, colwidth}, content))
      }
      rows.push(nodes.table_row.create(null, cells))
    }
    const table = nodes.table.create(null, rows)
    return nodes.doc.create(null, [...blocks(0, 0), table, ...blocks(0, 0)])
  }

  function position(doc) {
    for (;;) {
      const at = random(doc.content.size + 1)
      if (isWhole(doc, at)) return at
    }
  }
  function range(doc) {
    const from = position(doc)
    let to = random(2) ? position(doc) : Math.min(doc.content.size, from + random(5))
    while (!isWhole(doc, to)) to++
    return from < to ? [from, to] : [to, from]
  }
  function slice(doc) {
    const source = random(2) ? doc : document()
    return source.slice(...range(source))
  }
  // A position before a node, and the node.
  function target(doc) {
    const targets = []
    doc.descendants((node, pos) => { if (!node.isText || !random(4)) targets.push([pos, node]) })
    return random(8) && targets.length ? one(targets) : [position(doc), null]
  }
  const values = {
    level: [1, 2, 3], order: [0, 7], start: [1, 7], type: [null, "a"], language: [null, "rust"],
    src: ["b.png"], alt: [null, "y"], title: [null, "t"], colspan: [1, 2], rowspan: [1, 2],
    colwidth: [null, [7]], missing: [null, 1],
  }
  function attr(doc) {
    const [pos, node] = target(doc)
    const own = Object.keys(node?.attrs || {}).filter(name => name in values)
    const name = own.length && random(5) ? one(own) : one(["missing", "level"])
    return new AttrStep(pos, name, one(values[name]))
  }
  const docAttr = () => {
    const name = one(["title", "missing"])
    return new DocAttrStep(name, one(values[name]))
  }
  function nodeMark(doc) {
    const [pos, node] = target(doc)
    return random(3) || !node?.marks.length ? new AddNodeMarkStep(pos, randomMark())
      : new RemoveNodeMarkStep(pos, random(3) ? one(node.marks) : randomMark())
  }

  // The steps of an editor's commands.
  function command(transform) {
    const {doc} = transform, [from, to] = range(doc)
    const $from = doc.resolve(from), around = $from.blockRange(doc.resolve(to))
    switch (random(16)) {
      case 0: transform.insert(from, one([
        () => schema.text(one(words), allowed($from.parent.type, markSet())),
        () => inline($from.parent.type), () => block(1),
      ])()); break
      case 1: transform.delete(from, to); break
      case 2: transform.deleteRange(from, to); break
      case 3: transform.split(from, 1 + random(3)); break
      case 4: transform.join(from, 1 + random(2)); break
      case 5: transform.replaceRange(from, to, slice(doc)); break
      case 6: if (around) {
        const type = one([nodes.blockquote, bullet, ordered].filter(Boolean))
        const wrapping = findWrapping(around, type)
        if (wrapping) transform.wrap(around, wrapping)
      } break
      case 7: if (around && liftTarget(around) != null) transform.lift(around, liftTarget(around)); break
      case 8: case 9: case 10: transform.setBlockType(from, to, ...one([
        [nodes.heading, {level: 2}], [nodes.paragraph, null], [codeBlock, null],
      ])); break
      case 11: {
        const [pos, node] = target(doc)
        if (node && !node.isText) transform.setNodeMarkup(pos, null, {...node.attrs})
      } break
      case 12: transform.step(attr(doc)); break
      case 13: transform.step(one([() => docAttr(), () => nodeMark(doc)])()); break
      default:
        if (random(3)) transform.addMark(from, to, randomMark())
        else transform.removeMark(from, to, random(2) ? randomMark() : null)
    }
  }

  // Steps that may not fit.
  function wild(doc) {
    const [from, to] = range(doc)
    switch (random(9)) {
      case 0: return new AddMarkStep(from, to, randomMark())
      case 1: return new RemoveMarkStep(from, to, randomMark())
      case 2: return new ReplaceStep(from, to, random(3) ? slice(doc) : Slice.empty, random(4) == 0)
      case 3: return attr(doc)
      case 4: return nodeMark(doc)
      case 5: return docAttr()
      // Bounds of nodes that are replaced, from places within texts as well.
      case 6: return new ReplaceStep(from, Math.min(doc.content.size, from + random(4)), Slice.empty, true)
      case 7: {
        const [start, end] = range(doc), at = [from, to, start, end].sort((one, other) => one - other)
        const open = one([nodes.blockquote.create(), nodes.paragraph.create()])
        return new ReplaceAroundStep(
          at[0], at[3], at[1], at[2], random(4) ? Slice.empty : new Slice(Fragment.from(open), 0, 0),
          random(2), random(2) == 0)
      }
      default: {
        // Of the depths of the range itself, so that it often fits.
        const $from = doc.resolve(from), $to = doc.resolve(to)
        const other = document(), [start, end] = range(other)
        const content = other.slice(start, end).content
        const opened = Math.min($from.depth, depth(content, 0)), closed = opened + $to.depth - $from.depth
        if (closed < 0 || closed > depth(content, 1)) return new ReplaceStep(from, to, slice(doc))
        return new ReplaceStep(from, to, new Slice(content, opened, closed))
      }
    }
  }
  return {name, schema, document, tableDocument, command, wild, range, slice, randomMark, words, allowed, markSet, block, inline}
}
function depth(content, end) {
  const child = end ? content.lastChild : content.firstChild
  return child && !child.isLeaf ? 1 + depth(child.content, end) : 0
}

// Half of a character has no place in the document.
export function isWhole(doc, position) {
  if (position > doc.content.size) return true
  const {textOffset, nodeAfter} = doc.resolve(position)
  const unit = textOffset ? nodeAfter.text.charCodeAt(0) : 0
  return unit < 0xdc00 || unit > 0xdfff
}

// Marks of one type on one text have no order in a document of doclock.
export const isSame = (one, other) => unordered(one).eq(unordered(other))
function unordered(node) {
  const text = mark => JSON.stringify(mark)
  const marks = [...node.marks].sort((one, other) =>
    one.type.rank - other.type.rank || (text(one) < text(other) ? -1 : 1))
  if (node.isText) return node.mark(marks)
  const content = []
  node.forEach(child => content.push(unordered(child)))
  return node.copy(Fragment.fromArray(content)).mark(marks)
}
