// Applies steps that doclock sends, one case a line of the input: their documents have to be those of
// doclock, and so those of the inverted steps. Prints the cases that fail.
import {createInterface} from "node:readline"
import {Step} from "prosemirror-transform"
import {breakingSchemas, isSame} from "./kit.mjs"

// The document after the steps, and that after the inverted ones.
function applied(schema, json, steps) {
  let doc = schema.nodeFromJSON(json)
  const back = []
  for (const step of steps.map(step => Step.fromJSON(schema, step))) {
    back.unshift(step.invert(doc))
    const {doc: next, failed} = step.apply(doc)
    if (failed) throw new Error(failed)
    doc = next
  }
  let before = doc
  for (const step of back) before = step.apply(before).doc
  return [doc, before]
}

let count = 0
for await (const line of createInterface({input: process.stdin})) {
  const sent = JSON.parse(line), schema = breakingSchemas[sent.schema]
  for (const [from, steps, to] of [
    [sent.before, sent.steps, sent.after], [sent.after, sent.back, sent.before],
  ]) {
    let problem = null
    try {
      const [doc, back] = applied(schema, from, steps)
      if (!isSame(doc, schema.nodeFromJSON(to))) problem = `leads to ${doc}`
      if (!isSame(back, schema.nodeFromJSON(from))) problem = `leads back to ${back}`
    } catch (error) {
      problem = String(error)
    }
    if (problem) console.log(`${problem}: ${JSON.stringify({schema: sent.schema, from, steps, to})}`)
    count += steps.length
  }
}
console.log(`applied ${count} steps`)
