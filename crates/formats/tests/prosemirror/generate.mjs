// Prints random documents with transactions of steps, and what ProseMirror makes of them, one case a
// line: node generate.mjs SEED COUNT. The result of a transaction is null if it fails, and then the
// next one begins with the document before it. COUNT is the number of steps.
import {collab, getVersion, receiveTransaction, sendableSteps} from "prosemirror-collab"
import {EditorState} from "prosemirror-state"
import {Step, Transform} from "prosemirror-transform"
import {begin, isWhole, kit, one, random, schemas} from "./kit.mjs"

const [seed, count] = process.argv.slice(2).map(Number)
begin(seed)

// The document after a step, or null.
function applied(schema, doc, json) {
  try {
    return Step.fromJSON(schema, json).apply(doc).doc
  } catch (error) {
    if (!(error instanceof Error)) throw error
    return null
  }
}

// A transaction of these steps, and the document after it. A step does not check the descendants of
// a slice; the schema of a store does.
function transaction(schema, doc, steps) {
  const json = steps.map(step => step.toJSON())
  let whole = !/\\ud[89a-f]/i.test(JSON.stringify(json)), result = doc
  for (const step of json) {
    const positions = [step, ...(step.steps || [])]
      .flatMap(({from, to, gapFrom, gapTo, pos}) => [from, to, gapFrom, gapTo, pos])
      .filter(at => at != null)
    whole &&= positions.every(at => isWhole(result, at))
    result &&= applied(schema, result, step)
    if (!result) break
  }
  try { result?.check() } catch (error) { result = null }
  return {steps: json, result, whole}
}

let made = 0
function print({name}, doc, transactions, of) {
  if (!transactions.length || !transactions.every(({whole}) => whole)) return
  const printed = transactions.map(({steps, result}) => ({steps, result: result ? result.toJSON() : null}))
  made += printed.reduce((sum, {steps}) => sum + steps.length, 0)
  console.log(JSON.stringify({schema: name, of, doc, transactions: printed}))
}

// A command, step by step and back again, or in one transaction.
function ofCommand(kit) {
  const doc = kit.document(), transform = new Transform(doc)
  const commands = 1 + random(3)
  for (let nth = 0; nth < commands; nth++) {
    try { kit.command(transform) } catch (error) { break }
  }
  const {steps, docs} = transform
  if (!steps.length) return
  const back = steps.map((step, nth) => step.invert(docs[nth])).reverse()
  const parts = random(2) ? [...steps, ...back].map(step => [step]) : [steps, back]
  let now = doc
  const transactions = parts.map(part => {
    const made = transaction(kit.schema, now, part)
    now = made.result || now
    return made
  })
  print(kit, doc, transactions, "command")
}

function ofWild(kit) {
  const doc = kit.document(), steps = [kit.wild(doc)]
  let now = applied(kit.schema, doc, steps[0].toJSON())
  while (now && random(3) == 0 && steps.length < 4) {
    steps.push(kit.wild(now))
    now = applied(kit.schema, now, steps.at(-1).toJSON())
  }
  print(kit, doc, [transaction(kit.schema, doc, steps)], "wild")
}

// Three editors type at once, and the authority accepts the steps of each version from one.
function ofSession(kit) {
  const doc = kit.document(), log = [], transactions = []
  let now = doc
  const editors = [0, 1, 2].map(clientID =>
    EditorState.create({doc, plugins: [collab({clientID})]}))
  // Whether the editor could. Some selections of a node have no place after the steps, and then
  // ProseMirror fails.
  const receive = nth => {
    const editor = editors[nth], news = log.slice(getVersion(editor))
    try {
      editors[nth] = editor.apply(
        receiveTransaction(editor, news.map(({step}) => step), news.map(({from}) => from)))
    } catch (error) {
      if (!(error instanceof Error)) throw error
      return false
    }
    return true
  }
  for (let turn = 0; turn < 24; turn++) {
    const nth = random(3)
    if (random(3)) {
      const {tr} = editors[nth]
      try {
        kit.command(tr)
        if (tr.docChanged) editors[nth] = editors[nth].apply(tr)
      } catch (error) {
        if (!(error instanceof Error)) throw error
      }
      continue
    }
    if (!receive(nth)) break
    const sent = sendableSteps(editors[nth])
    if (!sent) continue
    const made = transaction(kit.schema, now, sent.steps)
    transactions.push(made)
    if (!made.result) break
    now = made.result
    log.push(...sent.steps.map(step => ({step, from: sent.clientID})))
  }
  print(kit, doc, transactions, "session")
}

const kits = Object.keys(schemas).map(name => kit(name))
while (made < count) {
  const kit = one(kits)
  switch (random(16)) {
    case 0: ofSession(kit); break
    case 1: case 2: case 3: case 4: case 5: case 6: case 7: ofWild(kit); break
    default: ofCommand(kit)
  }
}
