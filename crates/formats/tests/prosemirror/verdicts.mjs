// Prints random documents of Tiptap, valid ones and broken ones, and whether ProseMirror accepts
// them, one a line: node verdicts.mjs SEED COUNT.
import {Node, getSchema} from "@tiptap/core"
import Image from "@tiptap/extension-image"
import {TaskItem, TaskList} from "@tiptap/extension-list"
import StarterKit from "@tiptap/starter-kit"
import {Node as Document} from "prosemirror-model"
import {begin, one, random, some} from "./kit.mjs"

// The definitions of @tiptap/extension-table, which has no version for the other packages.
const cell = {
  content: "block+",
  isolating: true,
  addAttributes: () => ({
    colspan: {default: 1}, rowspan: {default: 1}, colwidth: {default: null}, align: {default: null},
  }),
}
const tables = [
  Node.create({name: "table", content: "tableRow+", group: "block", isolating: true}),
  Node.create({name: "tableRow", content: "(tableCell | tableHeader)*"}),
  Node.create({name: "tableCell", ...cell}),
  Node.create({name: "tableHeader", ...cell}),
]
const schema = getSchema([StarterKit, TaskList, TaskItem.configure({nested: true}), Image, ...tables])

// --- Valid documents ---

const words = ["a", "bc", "é", "🦀", "漢 ", "a\nb"]
function marks() {
  if (!random(5)) return [{type: "code"}]
  const all = ["link", "bold", "italic", "strike", "underline"].filter(() => !random(4))
  return all.map(type => type == "link" ? {type, attrs: {href: one(["/a", "https://b"])}} : {type})
}
function inline() {
  const set = marks()
  const given = set.length ? {marks: set} : {}
  return random(7) ? {type: "text", text: one(words), ...given} : {type: "hardBreak", ...given}
}
const node = (type, content, attrs) => ({type, ...(attrs && {attrs}), ...(content?.length && {content})})
const several = (least, more, make) => Array.from({length: least + random(more)}, make)
const blocks = (depth, least) => several(least, 3, () => block(depth))
const item = (type, depth, attrs) => () =>
  node(type, [node("paragraph", some(3, inline)), ...blocks(depth, 0)], attrs?.())
function block(depth) {
  switch (random(depth > 0 ? 13 : 5)) {
    case 0: return node("heading", some(3, inline), {level: 1 + random(6)})
    case 1: return node("codeBlock", random(3) ? [{type: "text", text: one(words)}] : [],
      {language: one([null, "rust"])})
    case 2: return node("horizontalRule")
    case 3: return node("image", null, {src: "a.png", alt: one([null, "x"]), title: null})
    case 5: case 6: return node("blockquote", blocks(depth - 1, 1))
    case 7: return node("bulletList", several(1, 2, item("listItem", depth - 1)))
    case 8: return node("orderedList", several(1, 2, item("listItem", depth - 1)),
      {start: random(3), type: one([null, "a"])})
    case 9: case 10: return node("taskList",
      several(1, 2, item("taskItem", depth - 1, () => ({checked: !random(2)}))))
    case 11: case 12: return node("table", several(1, 2, () => node("tableRow", several(0, 3, () =>
      node(one(["tableCell", "tableHeader"]), blocks(depth - 1, 1),
        {colspan: 1 + random(2), rowspan: 1, colwidth: one([null, [9]])})))))
    default: return node("paragraph", some(3, inline))
  }
}

// --- Broken documents ---

// The nodes below the top, each with its parent.
function below(parent, found = []) {
  (parent.content || []).forEach((child, nth) => {
    found.push([parent, nth, child])
    below(child, found)
  })
  return found
}
const types = [...Object.keys(schema.nodes).filter(type => type != "text"), "mystery"]
function breakUp(doc) {
  const found = below(doc)
  const [parent, nth, child] = one(found)
  switch (random(7)) {
    case 0: if (child.type != "text") child.type = one(types); break
    case 1: parent.content.splice(nth, 1); break
    case 2: parent.content.splice(nth, 1, ...(child.content || [])); break
    case 3: delete child.content; break
    case 4: {
      const [around, at] = one(found)
      around.content.splice(at, 0, structuredClone(child))
      break
    }
    case 5: child.content = [...(child.content || []), one([
      () => inline(), () => block(0), () => node(one(types))])()]
      if (child.type == "text") delete child.content
      break
    default: child.marks = [{type: one(["bold", "mystery"])}]
  }
}

function accepts(doc) {
  try {
    Document.fromJSON(schema, doc).check()
    return true
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return false
  }
}

const [seed, count] = process.argv.slice(2).map(Number)
begin(seed)
for (let nth = 0; nth < count; nth++) {
  let doc = {type: "doc", content: blocks(2, 1)}
  if (random(3)) for (let left = 1 + random(2); left > 0 && below(doc).length; left--) breakUp(doc)
  const valid = accepts(doc)
  // As an editor saves it.
  if (valid) doc = Document.fromJSON(schema, doc).toJSON()
  console.log(JSON.stringify({valid, doc}))
}
