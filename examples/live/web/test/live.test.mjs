// The page in headless Chromium. SEED repeats a run, TYPING_SECONDS sets how long tabs type at random.

import assert from "node:assert/strict"
import { after, before, describe, it } from "node:test"
import { endServers, launch, Server, Tab } from "./browser.mjs"
import { random, SEED, type } from "./random.mjs"

const SECONDS = Number(process.env.TYPING_SECONDS ?? 60)
console.log(`SEED=${SEED} TYPING_SECONDS=${SECONDS}`)

let browser
before(async () => { browser = await launch() })
after(async () => {
  await browser.close()
  await endServers()
})

/// Ends a test: all tabs have one text, which is that of the store and of its log.
async function agree(server, tabs, { typed = true } = {}) {
  const versions = await Promise.all(tabs.map(tab => tab.settle()))
  const version = Math.max(...versions)
  await Promise.all(tabs.map(tab => tab.settle(version)))
  const texts = await Promise.all(tabs.map(tab => tab.text()))
  for (const tab of tabs) await tab.seen()
  const looked = await Promise.all(tabs.map(tab => tab.evaluate(() => {
    const { frames, pending, rendered } = watched
    return { frames, pending, rendered }
  })))
  for (const tab of tabs) await tab.context.close()
  const report = await server.report()
  assert.equal(report.version, version)
  assert.equal(report.replayed, report.text)
  for (const text of texts) assert.equal(text, report.text)
  const keys = new Map()
  for (const key of report.keys) keys.set(key, (keys.get(key) ?? 0) + 1)
  let acknowledged = 0, digests = 0
  for (const tab of tabs) {
    for (const [version, digest] of tab.digests) {
      assert.equal(digest, report.digests[version - 1], `a tab showed the text of version ${version}`)
      digests++
    }
    for (const key of tab.acknowledged) {
      assert.equal(keys.get(key), 1, `the log has the acknowledged request ${key} once`)
      acknowledged++
    }
  }
  console.log(`${tabs.length} tabs: ${version} versions, ${acknowledged} acknowledged requests, ` +
    `${digests} displayed versions; frames ${JSON.stringify(looked)}`)
  assert.ok(digests > 0)
  assert.equal(acknowledged > 0, typed)
}

/// Types at random. Meanwhile tabs go offline and reload.
async function typeAtRandom(tabs, seconds, seed) {
  const below = random(seed)
  const end = Date.now() + seconds * 1000
  await Promise.all(tabs.map(async (tab, index) => {
    for (let round = 0; Date.now() < end; round++) {
      const millis = Math.min(2000 + below(3000), Math.max(500, end - Date.now()))
      const isOffline = below(3) === 0
      if (isOffline) await tab.offline(true)
      await tab.evaluate(type, { seed: seed + index * 1000 + round, millis, make: random.toString() })
      if (isOffline) await tab.offline(false)
      // A reload in the middle of the work: requests may be pending.
      if (below(3) === 0) await tab.reload()
    }
  }))
}

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
  let isTyping = true
  typing.finally(() => { isTyping = false })
  let kills = 0
  while (isTyping) {
    await new Promise(resolve => setTimeout(resolve, 500 + below(1500)))
    await server.end("SIGKILL")
    await server.restart()
    kills++
  }
  await typing
  console.log(`${kills} kills`)
  assert.ok(kills > 1)
  await agree(server, tabs)
})

it("each tab undoes its own typing, also after a reload and a restart", async () => {
  const server = await Server.start()
  const [ann, bob] = await open(server, 2)
  const text = async () => {
    const version = Math.max(await ann.settle(), await bob.settle())
    await Promise.all([ann.settle(version), bob.settle(version)])
    assert.equal(await ann.text(), await bob.text())
    return ann.text()
  }
  await ann.page.keyboard.type("one 🦀\ntwo")
  await text()
  await bob.page.keyboard.press("Control+End")
  await bob.page.keyboard.type(" three")
  assert.equal(await text(), "one 🦀\ntwo three")
  // Keys with a pause between them are entries of their own, and so are the commits of a history
  // that is restored.
  const until = async (step, expected) => {
    for (let steps = 0; await text() !== expected; steps++) {
      assert.ok(steps < 20, await text())
      await step()
    }
  }
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
