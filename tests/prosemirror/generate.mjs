// Prints random documents, a step for each, and the result of ProseMirror, one case a line:
// node generate.mjs SEED COUNT. The result is null if the step fails.
import {Fragment, Schema, Slice} from "prosemirror-model"
import {schema as basic} from "prosemirror-schema-basic"
import {addListNodes} from "prosemirror-schema-list"
import {
  AddMarkStep, RemoveMarkStep, ReplaceStep, Step, Transform, findWrapping, liftTarget,
} from "prosemirror-transform"

const [seed, count] = process.argv.slice(2).map(Number)
const schema = new Schema({
  nodes: addListNodes(basic.spec.nodes, "paragraph block*", "block"),
  marks: basic.spec.marks,
})
const {nodes, marks} = schema

let state = seed >>> 0
function random(below) {
  state = (state + 0x6d2b79f5) >>> 0
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) % below
}
const one = list => list[random(list.length)]
const some = (most, make) => Array.from({length: random(most + 1)}, make)

const words = ["a", "bc", "é", "🦀", "漢 ", "\\\"", "d🦀e"]
function randomMark() {
  return one([
    () => marks.em.create(),
    () => marks.strong.create(),
    () => marks.code.create(),
    () => marks.link.create({href: one(["/a", "/b"])}),
  ])()
}
const markSet = () => some(2, randomMark).reduce((set, mark) => mark.addToSet(set), [])
function inline() {
  switch (random(8)) {
    case 0: return nodes.hard_break.create(null, null, markSet())
    case 1: return nodes.image.create({src: "a.png", alt: one([null, "x"])}, null, markSet())
    default: return schema.text(one(words), markSet())
  }
}
const text = () => Fragment.from(some(4, inline))
const paragraph = () => nodes.paragraph.create(null, text())
function block(depth) {
  switch (random(depth > 0 ? 10 : 6)) {
    case 0: return nodes.heading.create({level: 1 + random(3)}, text())
    case 1:
      return nodes.code_block.create(null, random(3) ? schema.text(one(["x", "x\ny", "🦀\n"])) : null)
    case 2: return nodes.horizontal_rule.create()
    case 6: case 7: return nodes.blockquote.create(null, blocks(depth - 1, 1))
    case 8: return nodes.bullet_list.create(null, items(depth - 1))
    case 9: return nodes.ordered_list.create({order: random(3)}, items(depth - 1))
    default: return paragraph()
  }
}
const blocks = (depth, least) =>
  Array.from({length: least + random(3)}, () => block(depth))
const items = depth => Array.from({length: 1 + random(2)}, () =>
  nodes.list_item.create(null, [paragraph(), ...blocks(depth, 0)]))
const document = () => nodes.doc.create(null, blocks(3, 1))

const position = doc => random(doc.content.size + 1)
function range(doc) {
  const from = position(doc)
  const to = random(2) ? position(doc) : Math.min(doc.content.size, from + random(5))
  return from < to ? [from, to] : [to, from]
}
function slice(doc) {
  const source = random(2) ? doc : document()
  return source.slice(...range(source))
}

// The steps of an editor's commands.
function commands(doc) {
  const transform = new Transform(doc)
  const [from, to] = range(doc)
  const $from = doc.resolve(from), around = $from.blockRange(doc.resolve(to))
  switch (random(10)) {
    case 0: transform.insert(from, one([() => schema.text(one(words), markSet()), inline, () => block(1)])()); break
    case 1: transform.delete(from, to); break
    case 2: transform.deleteRange(from, to); break
    case 3: transform.split(from, 1 + random(3)); break
    case 4: transform.join(from, 1 + random(2)); break
    case 5: transform.replaceRange(from, to, slice(doc)); break
    case 6: if (around) {
      const type = one([nodes.blockquote, nodes.bullet_list, nodes.ordered_list])
      const wrapping = findWrapping(around, type)
      if (wrapping) transform.wrap(around, wrapping)
    } break
    case 7: if (around && liftTarget(around) != null) transform.lift(around, liftTarget(around)); break
    case 8: transform.setBlockType(from, to, ...one([
      [nodes.heading, {level: 2}], [nodes.paragraph, null], [nodes.code_block, null],
    ])); break
    default:
      if (random(2)) transform.addMark(from, to, randomMark())
      else transform.removeMark(from, to, random(2) ? randomMark() : null)
  }
  return transform
}

// Steps that may not fit.
function wild(doc) {
  const [from, to] = range(doc)
  switch (random(4)) {
    case 0: return new AddMarkStep(from, to, randomMark())
    case 1: return new RemoveMarkStep(from, to, randomMark())
    case 2: return new ReplaceStep(from, to, random(3) ? slice(doc) : Slice.empty, random(4) == 0)
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
function depth(content, end) {
  const child = end ? content.lastChild : content.firstChild
  return child && !child.isLeaf ? 1 + depth(child.content, end) : 0
}

function applied(doc, json) {
  try {
    const {doc: result} = Step.fromJSON(schema, json).apply(doc)
    // A step does not check the descendants of a slice; the schema of a store does.
    result?.check()
    return result ? result.toJSON() : null
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return null
  }
}

// The document has no half of a surrogate pair, and no newline in text that is not code.
function isExpressible(json) {
  const text = JSON.stringify(json)
  if (/\\ud[89a-f]/i.test(text)) return false
  const visit = (node, code) => (code || !(node.text || "").includes("\n")) &&
    (node.content || []).every(child => visit(child, node.type == "code_block"))
  return visit(json, false)
}

// Half of a character has no place in the document.
function isWhole(doc, position) {
  const {textOffset, nodeAfter} = doc.resolve(position)
  const unit = textOffset ? nodeAfter.text.charCodeAt(0) : 0
  return unit < 0xdc00 || unit > 0xdfff
}

for (let made = 0; made < count;) {
  const doc = document()
  let cases = []
  if (random(2)) {
    let transform
    try { transform = commands(doc) } catch (error) { continue }
    cases = transform.steps.map((step, nth) => [transform.docs[nth], step])
    cases.push(...transform.steps.map((step, nth) => {
      const after = transform.docs[nth + 1] || transform.doc
      return [after, step.invert(transform.docs[nth])]
    }))
  } else {
    cases = [[doc, wild(doc)]]
  }
  for (const [before, step] of cases) {
    const json = step.toJSON(), result = applied(before, json)
    // A slice is checked as a document of its own: text at its top may be code.
    const parts = [before.toJSON(), ...(result ? [result] : [])]
    const inside = {content: (json.slice?.content || []).filter(node => node.type != "text")}
    if (!parts.every(isExpressible) || !isExpressible(inside)) continue
    if (/\\ud[89a-f]/i.test(JSON.stringify(json))) continue
    const positions = [json, ...(json.steps || [])]
      .flatMap(({from, to, gapFrom, gapTo}) => [from, to, gapFrom, gapTo])
      .filter(at => at != null)
    if (!positions.every(at => at > before.content.size || isWhole(before, at))) continue
    // Within a text, ProseMirror takes the rest of the text for a bound of a node.
    if (json.structure && positions.some(at => before.resolve(at).textOffset)) continue
    if (made++ < count) console.log(JSON.stringify({doc: before, step: json, result}))
  }
}
