// The page in headless Chromium. SEED repeats a run, TYPING_SECONDS sets how long tabs type at random.

import assert from "node:assert/strict"
import { after, before, describe, it } from "node:test"
import { endServers, launch, Server, Tab } from "./browser.mjs"
import { random, SEED } from "./random.mjs"
import { agree, killWhile, settled, stepUntil, typeAtRandom, typeInTurn, typeWords } from "./together.mjs"

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
  assert.match(await ann.page.textContent("#status"), /3 requests pending/)
  await bob.page.waitForSelector("#queue li")
  assert.match(await bob.page.textContent("#queue"), /^tab [0-9a-f]{4} edit, waiting for/)
  assert.equal(await bob.text(), "one two")
  server.release()
  await ann.settle()
  await ann.page.waitForFunction(() => !document.querySelector(".pending, .pending-deletion"))
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

it("what one user typed without moving the caret stays together", async () => {
  const server = await Server.start()
  const tabs = await open(server, 3)
  for (let round = 0; round < 4; round++) {
    await tabs[0].page.keyboard.press("Control+End")
    await tabs[0].page.keyboard.type("\nThe meeting is Monday")
    await settled(tabs)
    for (const tab of tabs) await tab.page.keyboard.press("Control+End")
    const words = await typeWords(server, tabs, SEED + round)
    const text = await settled(tabs)
    for (const word of words) assert.ok(text.includes(word), `SEED=${SEED + round}: ${word} is torn: ${text}`)
  }
  await agree(server, tabs)
})

it("a tab whose server is silent does not say that it is saved", async () => {
  const server = await Server.start()
  const [ann] = await open(server, 1)
  await ann.page.keyboard.type("one")
  await ann.settle()
  assert.equal(await ann.page.textContent("#status"), "saved")
  server.freeze(true)
  await ann.page.waitForSelector("#status.offline", { timeout: 15_000 })
  assert.equal(await ann.page.textContent("#status"), "offline, saved")
  await ann.page.keyboard.type(" two")
  server.freeze(false)
  await ann.settle()
  assert.equal(await ann.text(), "one two")
  await agree(server, [ann])
})

it("the browser asks before a tab with pending edits is closed", async () => {
  const server = await Server.start()
  const [ann, bob] = await open(server, 2)
  for (const tab of [ann, bob]) {
    await tab.page.keyboard.type("one ")
    await tab.settle()
  }
  await ann.offline(true)
  await ann.page.keyboard.type("two")
  const asked = new Promise(resolve => { ann.answer = dialog => resolve(dialog.type()) ?? dialog.dismiss() })
  await ann.page.close({ runBeforeUnload: true })
  assert.equal(await asked, "beforeunload")
  ann.answer = dialog => dialog.accept()
  await ann.offline(false)
  await bob.settle(await ann.settle())
  assert.match(await bob.text(), /two/)
  // Nothing is pending.
  bob.answer = () => assert.fail("the browser asks")
  const closed = bob.page.waitForEvent("close")
  await bob.page.close({ runBeforeUnload: true })
  await closed
  await bob.context.close()
  await agree(server, [ann])
})

/// Notes in each frame where a text of the page is displayed.
const noteTop = text => {
  const range = document.createRange()
  const walker = document.createTreeWalker(document.querySelector(".cm-content"), NodeFilter.SHOW_TEXT)
  window.tops = []
  // An observer of sizes is called when all callbacks of the frame have run, also that of the editor.
  const clock = document.body.appendChild(document.createElement("i"))
  clock.style = "position: fixed; height: 1px"
  new ResizeObserver(() => {
    walker.currentNode = walker.root
    while (walker.nextNode()) {
      if (!walker.currentNode.textContent.startsWith(text)) continue
      range.selectNode(walker.currentNode)
      tops.push(Math.round(range.getBoundingClientRect().top))
    }
  }).observe(clock)
  const tick = frame => {
    clock.style.width = `${1 + frame % 2}px`
    requestAnimationFrame(() => tick(frame + 1))
  }
  tick(0)
}

it("the view stays where it is while others type above", async () => {
  const server = await Server.start()
  const bob = await Tab.open(browser, server)
  const [ann, cem] = await Promise.all([1, 2].map(() => Tab.open(browser, server, { width: 700, height: 400 })))
  const lines = Array.from({ length: 100 }, (_, line) => `line ${line} `)
  await bob.page.evaluate(text => live.view.dispatch({ changes: { from: 0, insert: text } }), lines.join("\n"))
  const version = await bob.settle()
  await Promise.all([ann, cem].map(tab => tab.settle(version)))
  // Ann looks at her caret, and Cem elsewhere.
  for (const tab of [ann, cem]) await tab.evaluate(() => {
    const { view } = live
    view.dispatch({ selection: { anchor: view.state.doc.line(51).from }, scrollIntoView: true })
  })
  await Promise.all([ann, cem].map(tab => tab.page.waitForSelector(".caret", { state: "attached" })))
  // Each shows the caret of the other beside its own, whose place on the screen is still that of the text.
  for (const tab of [ann, cem]) assert.deepEqual(...await tab.evaluate(() => {
    const { view } = live
    const { from } = view.state.doc.line(51)
    const text = document.createRange()
    const { node, offset } = view.domAtPos(from + 1)
    text.setStart(node, offset)
    return [text.getBoundingClientRect(), view.coordsAtPos(from)].map(({ top, bottom }) => ({ top, bottom }))
  }))
  await cem.evaluate(() => { live.view.scrollDOM.scrollTop = 1500 })
  const shown = await cem.evaluate(() => {
    const { view } = live
    const block = view.lineBlockAtHeight(view.scrollDOM.scrollTop + 100)
    return view.state.doc.sliceString(block.from, block.to)
  })
  await ann.evaluate(noteTop, "line 50 ")
  await cem.evaluate(noteTop, shown)
  await bob.page.keyboard.press("Control+Home")
  // A slow machine draws fewer frames: go on until each tab has drawn enough of them to compare.
  const drawn = async () => Math.min(...await Promise.all([ann, cem].map(tab => tab.evaluate(() => tops.length))))
  let above = 0
  while (above < 20 || await drawn() <= 50) {
    await bob.page.keyboard.type("above")
    await bob.page.keyboard.press("Enter")
    above += 1
  }
  // In the view of Ann, too, above her caret.
  await bob.evaluate(line => live.view.dispatch({ selection: { anchor: live.view.state.doc.line(line).from } }), above + 48)
  for (let line = 0; line < 5; line++) await bob.page.keyboard.press("Enter")
  await settled([ann, bob, cem])
  for (const tab of [ann, cem]) {
    const tops = await tab.evaluate(() => tops)
    assert.ok(tops.length > 50, `${tops.length}`)
    assert.ok(Math.max(...tops) - Math.min(...tops) <= 1, `the line jumps: ${[...new Set(tops)]}`)
  }
  await agree(server, [bob, ann, cem], { typed: true })
})
