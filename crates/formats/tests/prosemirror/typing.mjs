// Typed text, with the input rules of prosemirror-inputrules and of Tiptap's StarterKit.
import {Editor} from "@tiptap/core"
import StarterKit from "@tiptap/starter-kit"
import {
  ellipsis, emDash, inputRules, smartQuotes, textblockTypeInputRule, undoInputRule,
  wrappingInputRule,
} from "prosemirror-inputrules"
import {EditorState, TextSelection} from "prosemirror-state"
import {one, random, some} from "./kit.mjs"

// Tiptap asks the browser for the names of keys.
globalThis.navigator ??= {platform: "", userAgent: ""}

const level = text => ({level: text.length}), inCodeMark = false
const pluginOf = schema => {
  const {nodes} = schema
  return inputRules({rules: [
    wrappingInputRule(/^\s*>\s$/, {nodeType: nodes.blockquote, inCodeMark}),
    ...nodes.bullet_list ? [
      wrappingInputRule(/^\s*([-+*])\s$/, {nodeType: nodes.bullet_list, inCodeMark}),
      wrappingInputRule(/^(\d+)\.\s$/, {
        nodeType: nodes.ordered_list, inCodeMark, getAttrs: match => ({order: +match[1]}),
        joinPredicate: (match, node) => node.childCount + node.attrs.order == +match[1],
      }),
    ] : [],
    textblockTypeInputRule(/^(#{1,6})\s$/, {
      nodeType: nodes.heading, inCodeMark, getAttrs: match => level(match[1]),
    }),
    textblockTypeInputRule(/^```([a-z]+)?\s$/, {nodeType: nodes.code_block, inCodeMark}),
    textblockTypeInputRule(/^~~~([a-z]+)?\s$/, {nodeType: nodes.code_block, inCodeMark}),
    emDash, ellipsis, ...smartQuotes,
  ]})
}

// A view without a page, for the plugins.
function viewOf({doc, selection}) {
  const plugin = pluginOf(doc.type.schema)
  const view = {
    composing: false,
    state: EditorState.create({doc, selection, plugins: [plugin]}),
    dispatch(tr) { view.state = view.state.apply(tr) },
  }
  return [view, [plugin]]
}

// An editor of Tiptap without a page, and without the plugins that add a paragraph at the end and links.
const editor = new Editor({
  element: null, content: {type: "doc", content: [{type: "paragraph"}]},
  extensions: [StarterKit.configure({trailingNode: false})],
})
const plugins = editor.extensionManager.plugins.filter(plugin => plugin.spec.isInputRules)
function tiptapOf({doc, selection: {anchor}}) {
  const own = editor.schema.nodeFromJSON(doc.toJSON())
  const selection = TextSelection.create(own, anchor)
  editor.view.updateState(EditorState.create({doc: own, selection, plugins}))
  return [editor.view, plugins]
}

// Types characters, up to the first rule that applies if `ends`. Returns whether one did.
function type([view, plugins], text, ends) {
  for (const char of text) {
    const {from, to} = view.state.selection
    const applies = plugins.some(it => it.props.handleTextInput.call(it, view, from, to, char))
    if (applies && ends) return true
    if (!applies) view.dispatch(view.state.tr.insertText(char, from, to))
  }
  return false
}

const blocks = ["# ", "### ", "####### ", "> ", " > ", "- ", "* ", "+ ", "1. ", "2. ", "3. ", "7. ",
  "``` ", "```rs ", "~~~ ", "--- ", "---", "___ ", "*** "]
const marks = ["**a**", "__a b__", "*a*", "_é_", "`a`", "``a``", "~~🦀~~", "**a*b**", "* a *", "** **",
  " **a**", " *b* c", "a**b**", "**a _b_** c", "`*a*`", " _a b_d", "*a**", "**\u00a0b**"]
const quotes = ["--", "---", "...", "\"a\"", "'a'", "it's", "(\"", "\"'a'\"", " \"", "[a]--", "a...b"]
const typed = () => one([
  () => one(blocks) + one(["", "", "a", "b--"]), () => one(marks), () => one(quotes),
  () => some(3, () => one([...blocks, ...marks, ...quotes, "a", " "])).join(""),
])() || "a"

const open = (kit, current) => kit.name == "tiptap" ? tiptapOf(current) : viewOf(current)

// Text is typed with the rules of the editor.
export const typing = kit => {
  const text = typed()
  return [{text}, (current, dispatch) => {
    const opened = open(kit, current)
    type(opened, text, false)
    dispatch(opened[0].state.tr)
    return true
  }]
}

// The first rule that applies is undone.
export const undoing = kit => {
  const text = typed()
  return [{text}, (current, dispatch) => {
    const opened = open(kit, current)
    if (!type(opened, text, true)) return false
    if (!undoInputRule(opened[0].state, opened[0].dispatch)) return false
    dispatch(opened[0].state.tr)
    return true
  }]
}
