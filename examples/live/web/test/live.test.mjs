// The page in headless Chromium. SEED repeats a run, TYPING_SECONDS sets how long tabs type at random.

import assert from "node:assert/strict"
import { after, before, describe, it } from "node:test"
import { endServers, launch, Server, Tab } from "./browser.mjs"
import { random, SEED } from "./random.mjs"
import { agree, killWhile, stepUntil, typeAtRandom, typeInTurn } from "./together.mjs"

const SECONDS = Number(process.env.TYPING_SECONDS ?? 60)
console.log(`SEED=${SEED} TYPING_SECONDS=${SECONDS}`)

let browser
before(async () => { browser = await launch() })
after(async () => {
  await browser.close()
  await endServers()
})

const open = (server, count) => {
  return Promise.all(Array.from({ length: count }, () => Tab.open(browser, server)))
}

describe("at the same time", { concurrency: true }, () => {
  for (const count of [2, 8]) {
    it(`${count} tabs that type at random end with the text of the store`, async () => {
      const server = await Server.start()
      const tabs = await open(server, count)
      await typeAtRandom(tabs, SECONDS, SEED + count)
      await agree(server, tabs)
    })
  }
})

it("a server that is killed loses no acknowledged edit and repeats none", async () => {
  const server = await Server.start()
  const tabs = await open(server, 3)
  const below = random(SEED)
  const typing = typeAtRandom(tabs, SECONDS / 4, SEED)
  await killWhile(typing, async () => {
    await new Promise(resolve => setTimeout(resolve, 500 + below(1500)))
    await server.end("SIGKILL")
    await server.restart()
  })
  await agree(server, tabs)
})

it("each tab undoes its own typing, also after a reload and a restart", async () => {
  const server = await Server.start()
  const [ann, bob] = await open(server, 2)
  const text = await typeInTurn(ann, bob)
  const until = (step, expected) => stepUntil(text, step, expected)
  await until(() => ann.page.keyboard.press("Control+z"), " three")
  await ann.reload()
  await until(() => ann.page.keyboard.press("Control+y"), "one 🦀\ntwo three")
  await server.end("SIGKILL")
  await server.restart()
  await Promise.all([ann, bob].map(tab => tab.ready()))
  await until(() => bob.page.click("#undo"), "one 🦀\ntwo")
  await agree(server, [ann, bob])
})

it("a tab shows the caret and the selection of another", async () => {
  const server = await Server.start()
  const [ann, bob] = await open(server, 2)
  await ann.page.keyboard.type("Hello World")
  const caret = await bob.page.waitForSelector(".caret", { state: "attached" })
  assert.match(await caret.textContent(), /^tab [0-9a-f]{4}$/)
  const before = () => bob.evaluate(() => {
    const range = document.createRange()
    range.setStart(document.querySelector(".cm-line"), 0)
    range.setEndBefore(document.querySelector(".caret"))
    return range.toString()
  })
  await ann.settle()
  await bob.page.waitForFunction(() => live.view.state.doc.toString() === "Hello World")
  assert.equal(await before(), "Hello World")
  await ann.page.keyboard.press("Shift+Control+ArrowLeft")
  const selected = await bob.page.waitForSelector(".selected")
  assert.equal(await selected.textContent(), "World")
  await ann.context.close()
  await bob.page.waitForFunction(() => !document.querySelector(".caret"))
  await agree(server, [bob], { typed: false })
})

it("an edit is marked as pending while the lock is held, and the panel names the holder", async () => {
  const server = await Server.start()
  const [ann, bob] = await open(server, 2)
  await ann.page.keyboard.type("one two")
  await ann.settle()
  server.hold()
  await bob.page.waitForSelector("#holder.held")
  assert.match(await bob.page.textContent("#holder"), /^held by operator \(hold\) for .*src\/main\.rs:/)
  await ann.page.keyboard.type(" three")
  await ann.page.keyboard.press("Enter")
  await ann.page.keyboard.press("Control+Home")
  await ann.page.keyboard.press("Delete")
  assert.equal(await ann.page.textContent(".pending"), " three↵")
  assert.equal(await ann.page.locator(".pending-deletion").count(), 1)
  assert.match(await ann.page.textContent("#status"), /2 requests pending/)
  await bob.page.waitForSelector("#queue li")
  assert.match(await bob.page.textContent("#queue"), /^tab [0-9a-f]{4} edit, waiting for/)
  assert.equal(await bob.text(), "one two")
  server.release()
  await ann.page.waitForFunction(() => !document.querySelector(".pending"))
  assert.equal(await ann.page.textContent("#status"), "saved")
  assert.equal(await ann.text(), "ne two three\n")
  await agree(server, [ann, bob])
})

it("a reload keeps the edits that are pending", async () => {
  const server = await Server.start()
  const [ann] = await open(server, 1)
  await ann.page.keyboard.type("one")
  await ann.settle()
  server.hold()
  await ann.page.waitForSelector("#holder.held")
  await ann.page.keyboard.type(" two")
  await ann.reload()
  assert.equal(await ann.text(), "one two")
  assert.equal(await ann.page.textContent(".pending"), " two")
  server.release()
  await ann.settle()
  assert.equal(await ann.text(), "one two")
  await agree(server, [ann])
})

it("a tab that was offline sends its edits, which are rebased", async () => {
  const server = await Server.start()
  const [ann, bob] = await open(server, 2)
  await ann.page.keyboard.type("middle")
  await bob.settle(await ann.settle())
  await bob.offline(true)
  await bob.page.keyboard.press("Control+End")
  await bob.page.keyboard.type(" end")
  assert.match(await bob.page.textContent("#status"), /^offline, 1 request pending$/)
  await ann.page.keyboard.press("Control+Home")
  await ann.page.keyboard.type("start ")
  await ann.settle()
  await bob.offline(false)
  const version = await bob.settle()
  await ann.settle(version)
  assert.equal(await ann.text(), "start middle end")
  await agree(server, [ann, bob])
})
