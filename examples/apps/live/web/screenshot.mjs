// Takes the picture of the README: two tabs while an operator holds the lock.
// Usage: node screenshot.mjs FILE.png

import { launch, Server, Tab } from "./test/browser.mjs"

const [file] = process.argv.slice(2)
const size = { width: 700, height: 430 }
const browser = await launch()
const server = await Server.start()
const tabs = []
for (let count = 0; count < 3; count++) tabs.push(await Tab.open(browser, server, size))
const [ann, bob, cem] = tabs

await ann.page.keyboard.type("Shopping for Sunday\n\n- flour\n- eggs, ten of them\n- ")
const version = await ann.settle()
await bob.settle(version)
await cem.settle(version)
await bob.page.keyboard.press("Control+Home")
for (let up = 0; up < 2; up++) await bob.page.keyboard.press("ArrowDown")
await bob.page.keyboard.press("End")
await bob.page.keyboard.type(", two bags (½ kg)")
await ann.settle(await bob.settle())
await cem.page.keyboard.press("Control+Home")
for (let down = 0; down < 3; down++) await cem.page.keyboard.press("ArrowDown")
for (let right = 0; right < 8; right++) await cem.page.keyboard.press("ArrowRight")
for (let right = 0; right < 11; right++) await cem.page.keyboard.press("Shift+ArrowRight")
await ann.page.waitForSelector(".selected")
server.hold()
await ann.page.waitForSelector("#holder.held")
await ann.page.keyboard.type("apples")
await bob.page.keyboard.type(", rye")
await ann.page.waitForSelector("#queue li:nth-child(2)")
await bob.page.waitForSelector("#queue li:nth-child(2)")

const pictures = []
for (const tab of [ann, bob]) pictures.push((await tab.page.screenshot()).toString("base64"))
const both = await browser.newPage({ viewport: { width: 2 * size.width + 36, height: size.height + 24 } })
await both.setContent(`<body style="margin: 12px; display: flex; gap: 12px; background: #c9ced6">
  ${pictures.map(png => `<img src="data:image/png;base64,${png}">`).join("")}`)
await both.waitForFunction(() => [...document.images].every(image => image.complete))
await both.screenshot({ path: file })
await browser.close()
await server.end("SIGKILL")
