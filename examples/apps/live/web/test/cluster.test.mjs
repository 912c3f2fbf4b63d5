// The page on several servers, which share one document in PostgreSQL. Run this with
// scripts/with-postgres. SEED repeats a run, TYPING_SECONDS sets how long tabs type at random.

import assert from "node:assert/strict"
import { after, before, it } from "node:test"
import { Cluster, endServers, launch, Tab } from "./browser.mjs"
import { SEED } from "./random.mjs"
import { agree, killWhile, settled, stepUntil, typeAtRandom, typeInTurn } from "./together.mjs"

const SECONDS = Number(process.env.TYPING_SECONDS ?? 20)
console.log(`SEED=${SEED} TYPING_SECONDS=${SECONDS}`)

let browser
before(async () => { browser = await launch() })
after(async () => {
  await browser.close()
  await endServers()
})

/// Kills the owner, and waits until the other server goes on. Returns both. On a busy machine, the
/// owner may have lost its term before.
async function killOwner(cluster) {
  const [next, killed] = [...cluster.servers].sort((a, b) => a.epoch - b.epoch)
  const { epoch } = killed
  await killed.end("SIGKILL")
  await next.event("acquired", event => event.epoch > epoch)
  return { killed, next }
}

it("typing goes on while the owner is killed, and no edit is lost or repeated", async () => {
  const cluster = await Cluster.start("kills")
  const tabs = []
  for (const server of [...cluster.servers, ...cluster.servers]) tabs.push(await Tab.open(browser, server))
  const typing = typeAtRandom(tabs, SECONDS, SEED, { disturbs: false })
  await killWhile(typing, async () => {
    const { killed, next } = await killOwner(cluster)
    // The tabs of the other server go on, although the first one is still down.
    const tab = tabs[cluster.servers.indexOf(next)]
    const before = await tab.evaluate(() => live.copy.version)
    const goesOn = tab.page.waitForFunction(before => live.copy.version > before, before)
    // Without a key after the takeover, there is no version after it.
    goesOn.catch(() => {})
    await Promise.race([goesOn, typing])
    await killed.restart()
  })
  await agree(cluster, tabs)
})

it("a tab undoes its own typing on the server that went on", async () => {
  const cluster = await Cluster.start("undo")
  const [first, second] = cluster.servers
  const [ann, bob] = [await Tab.open(browser, first), await Tab.open(browser, second)]
  const text = await typeInTurn(ann, bob)
  assert.equal((await killOwner(cluster)).killed, first)
  await bob.ready()
  await bob.page.waitForFunction(address => document.getElementById("owner").textContent.startsWith(address),
    second.address)
  // The tab of the killed server types on, which is marked.
  await ann.page.keyboard.type("!")
  assert.match(await ann.page.textContent("#status"), /^offline, 1 request pending$/)
  await first.restart()
  assert.equal(await text(), "one 🦀\ntwo! three")
  await stepUntil(text, () => ann.page.keyboard.press("Control+z"), " three")
  await stepUntil(text, () => bob.page.keyboard.press("Control+z"), "")
  await stepUntil(text, () => ann.page.keyboard.press("Control+y"), "one 🦀\ntwo!")
  await agree(cluster, [ann, bob])
})

it("tabs leave a server that is paused, and it goes on as another one", async () => {
  const cluster = await Cluster.start("paused")
  const [first, second] = cluster.servers
  const [ann, bob] = [await Tab.open(browser, first), await Tab.open(browser, second)]
  await bob.page.keyboard.type("one")
  await settled([ann, bob])
  first.process.kill("SIGSTOP")
  await second.event("acquired")
  await bob.page.keyboard.type(" two")
  await bob.settle()
  await ann.page.keyboard.press("Control+Home")
  await ann.page.keyboard.type("zero ")
  first.process.kill("SIGCONT")
  assert.equal(await settled([ann, bob]), "zero one two")
  await agree(cluster, [ann, bob])
})

it("the document moves when its owner ends, and its tabs go on elsewhere", async () => {
  const cluster = await Cluster.start("signal")
  const [first, second] = cluster.servers
  const bob = await Tab.open(browser, second)
  await bob.page.keyboard.type("one")
  await bob.settle()
  const began = Date.now()
  await first.end("SIGTERM")
  await second.event("acquired")
  await bob.page.keyboard.type(" two")
  await bob.settle()
  console.log(`${Date.now() - began} ms from the signal to the next commit`)
  await agree(cluster, [bob])
})
