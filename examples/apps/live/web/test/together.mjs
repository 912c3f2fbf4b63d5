// What tabs do together: they type, and end with one text.

import assert from "node:assert/strict"
import { random, type } from "./random.mjs"

/// Waits until all tabs have one version, and returns its text.
export async function settled(tabs) {
  const version = Math.max(...await Promise.all(tabs.map(tab => tab.settle())))
  await Promise.all(tabs.map(tab => tab.settle(version)))
  const [text, ...others] = await Promise.all(tabs.map(tab => tab.text()))
  for (const other of others) assert.equal(other, text)
  return text
}

/// Two tabs type, one after the other. Returns what reads the text of both.
export async function typeInTurn(ann, bob) {
  const text = () => settled([ann, bob])
  await ann.page.keyboard.type("one 🦀\ntwo")
  await text()
  await bob.page.keyboard.press("Control+End")
  await bob.page.keyboard.type(" three")
  assert.equal(await text(), "one 🦀\ntwo three")
  return text
}

/// Undoes or redoes until the text is as expected. Keys with a pause between them are entries of
/// their own, and so are the commits of a history that is restored.
export async function stepUntil(text, step, expected) {
  for (let steps = 0; await text() !== expected; steps++) {
    assert.ok(steps < 20, await text())
    await step()
  }
}

/// Tabs type one word each at nearly one place, over a selection or not, without moving the caret.
/// Each begins before it sees what the others type. Some are offline. Returns the words.
export async function typeWords(server, tabs, seed) {
  const below = random(seed)
  const words = tabs.map((_, index) => String.fromCharCode(65 + index).repeat(4 + below(8)))
  const plans = tabs.map(() => ({
    left: below(3), selected: below(2) * below(8), isOffline: below(3) === 0, delay: below(60),
  }))
  server.hold()
  await tabs[0].page.waitForSelector("#holder.held")
  await Promise.all(tabs.map(async (tab, index) => {
    const { left, selected, isOffline } = plans[index]
    for (let step = 0; step < left; step++) await tab.page.keyboard.press("ArrowLeft")
    for (let step = 0; step < selected; step++) await tab.page.keyboard.press("Shift+ArrowLeft")
    if (isOffline) await tab.offline(true)
    await tab.page.keyboard.type(words[index][0])
  }))
  server.release()
  await Promise.all(tabs.map(async (tab, index) => {
    const { delay, isOffline } = plans[index]
    await tab.page.keyboard.type(words[index].slice(1), { delay })
    if (isOffline) await tab.offline(false)
  }))
  return words
}

/// Kills a server again and again while tabs type.
export async function killWhile(typing, kill) {
  let isTyping = true
  typing.finally(() => { isTyping = false })
  let kills = 0
  while (isTyping) {
    await kill()
    kills++
  }
  await typing
  console.log(`${kills} kills`)
  assert.ok(kills > 1)
}

/// Ends a test: all tabs have one text, which is that of the store and of its log.
export async function agree(server, tabs, { typed = true } = {}) {
  const text = await settled(tabs)
  const version = await tabs[0].evaluate(() => live.copy.version)
  for (const tab of tabs) await tab.seen()
  const looked = await Promise.all(tabs.map(tab => tab.evaluate(() => {
    const { frames, pending, rendered } = watched
    return { frames, pending, rendered }
  })))
  for (const tab of tabs) await tab.context.close()
  const report = await server.report()
  assert.equal(report.version, version)
  assert.equal(report.replayed, report.text)
  assert.equal(text, report.text)
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

/// Types at random. Meanwhile tabs go offline and reload, unless their servers may be down.
export async function typeAtRandom(tabs, seconds, seed, { disturbs = true } = {}) {
  const below = random(seed)
  const end = Date.now() + seconds * 1000
  await Promise.all(tabs.map(async (tab, index) => {
    for (let round = 0; Date.now() < end; round++) {
      const millis = Math.min(2000 + below(3000), Math.max(500, end - Date.now()))
      const isOffline = disturbs && below(3) === 0
      if (isOffline) await tab.offline(true)
      await tab.evaluate(type, { seed: seed + index * 1000 + round, millis, make: random.toString() })
      if (isOffline) await tab.offline(false)
      // A reload in the middle of the work: requests may be pending.
      if (disturbs && below(3) === 0) await tab.reload()
    }
  }))
}
