// Sessions of three clients of prosemirror-collab whose authority is doclock, which edits as well:
// node collab.mjs SEED SESSIONS ROUNDS. It prints requests, one a line, and reads an answer to each.
// The last request has the counts.
import {collab, getVersion, receiveTransaction, sendableSteps} from "prosemirror-collab"
import {EditorState} from "prosemirror-state"
import {Step} from "prosemirror-transform"
import {createInterface} from "node:readline"
import {caseOf, commands, kits} from "./commands.mjs"
import {begin, isSame, isWhole, one, random} from "./kit.mjs"

const [seed, sessions, rounds] = process.argv.slice(2).map(Number)
const answers = createInterface({input: process.stdin})[Symbol.asyncIterator]()
async function ask(request) {
  console.log(JSON.stringify(request))
  return JSON.parse((await answers.next()).value)
}

const counts = {
  rounds: 0, accepted: 0, old: 0, invalid: 0, reloads: 0, edits: 0, undone: 0, steps: 0, sent: 0,
  pulls: 0, unselected: 0,
}
const clients = ["ann", "bob", "cid"]
const names = Object.keys(commands).filter(name => !commands[name].tables)

// Half of a character has no place in the document.
const isWholeEdit = ({steps, docs, doc}) => !/\\ud[89a-f]/i.test(JSON.stringify(doc)) &&
  steps.every((step, nth) => ["from", "to", "gapFrom", "gapTo", "pos"]
    .every(name => step[name] == null || isWhole(docs[nth], step[name])))

// Why a session fails, with what it takes to repeat it.
class Failure extends Error {}

class Session {
  constructor(kit, nth) {
    this.kit = kit
    this.doc = kit.document()
    this.version = 0
    this.editors = clients.map((_, nth) => this.opened(nth))
    this.nth = nth
  }

  // An editor of the document of the authority.
  opened(nth) {
    const plugin = collab({version: this.version, clientID: clients[nth]})
    return EditorState.create({doc: this.doc, plugins: [plugin]})
  }

  // The document of the authority, to which ProseMirror applies all steps.
  async follow() {
    const {steps, ids} = await ask({pull: this.version})
    for (const json of steps) {
      const {doc, failed} = Step.fromJSON(this.kit.schema, json).apply(this.doc)
      if (failed) throw new Failure(`${failed}: ${JSON.stringify(json)} of ${this.doc}`)
      this.doc = doc
    }
    this.version += steps.length
    counts.sent += ids.filter(id => id == "doclock").length
  }

  edit(nth) {
    const {tr} = this.editors[nth]
    try {
      this.kit.command(tr)
      tr.doc.check()
      if (tr.docChanged && isWholeEdit(tr)) this.editors[nth] = this.editors[nth].apply(tr)
    } catch (error) {
      if (!(error instanceof Error)) throw error
    }
  }

  async pull(nth) {
    const {steps, ids} = await ask({pull: getVersion(this.editors[nth])})
    counts.pulls++
    const read = steps.map(json => Step.fromJSON(this.kit.schema, json))
    try {
      const received = receiveTransaction(this.editors[nth], read, ids)
      this.editors[nth] = this.editors[nth].apply(received)
    } catch (error) {
      // Some selections have no place after the steps, and then ProseMirror fails.
      if (!/selection/i.test(error.stack)) throw error
      counts.unselected++
      await this.reload(nth)
    }
  }

  async reload(nth) {
    counts.reloads++
    await this.follow()
    this.editors[nth] = this.opened(nth)
  }

  async push(nth) {
    const sent = sendableSteps(this.editors[nth])
    if (!sent) return
    const {version, clientID} = sent, steps = sent.steps.map(step => step.toJSON())
    const answer = await ask({push: {version, steps, clientID}})
    if (answer.accepted) {
      counts.accepted++
      counts.steps += steps.length
    } else if (answer.old) counts.old++
    else {
      // It is refused if the document would be invalid, which ProseMirror does not check.
      await this.follow()
      let doc = this.doc
      try {
        for (const step of sent.steps) doc = step.apply(doc).doc
        doc.check()
      } catch (error) {
        if (!(error instanceof Error)) throw error
        counts.invalid++
        return this.reload(nth)
      }
      throw new Failure(`refused: ${answer.refused}: ${JSON.stringify(steps)} of ${this.doc}`)
    }
  }

  async round() {
    const nth = random(clients.length)
    switch (random(10)) {
      case 0: case 1: case 2: return this.edit(nth)
      case 3: case 4: return this.push(nth)
      case 5: return this.pull(nth)
      case 6: await this.pull(nth); return this.push(nth)
      case 7: case 8: {
        await this.follow()
        const line = caseOf(this.kit, one(names), this.doc)
        if (line) counts.edits += (await ask({edit: JSON.parse(line), later: random(2) == 0})).commits
        return
      }
      default: counts.undone += (await ask({undo: random(3) > 0})).commits
    }
  }

  async run() {
    await ask({begin: this.kit.name, doc: this.doc})
    for (let round = 0; round < rounds; round++, counts.rounds++) await this.round()
    for (let nth = 0; nth < clients.length; nth++) {
      await this.pull(nth)
      await this.push(nth)
    }
    await this.follow()
    for (let nth = 0; nth < clients.length; nth++) {
      await this.pull(nth)
      const {doc} = this.editors[nth]
      if (sendableSteps(this.editors[nth])) throw new Failure(`${clients[nth]} has unsent steps`)
      if (!isSame(doc, this.doc)) throw new Failure(`${clients[nth]} has ${doc} instead of ${this.doc}`)
    }
    const doc = this.kit.schema.nodeFromJSON((await ask({doc: true})).doc)
    if (!isSame(doc, this.doc)) throw new Failure(`doclock has ${doc} instead of ${this.doc}`)
  }
}

let failure = null
for (let nth = 0; nth < sessions && !failure; nth++) {
  begin(seed + nth)
  try {
    await new Session(one(kits), nth).run()
  } catch (error) {
    failure = `session ${nth}, SEED=${seed + nth}: ${error instanceof Failure ? error.message : error.stack}`
  }
}
console.log(JSON.stringify({end: {...counts, failure}}))
process.exit(0)
