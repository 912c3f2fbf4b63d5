// Reports in headless Chromium. REPORTS is the folder that the test `reports_for_a_browser` has
// filled. PICTURES is a folder for pictures of the pages.

import assert from "node:assert/strict"
import { join } from "node:path"
import { after, before, describe, it } from "node:test"
import { pathToFileURL } from "node:url"
import { chromium } from "playwright-core"

const { REPORTS, PICTURES, CHROMIUM = "/usr/bin/chromium" } = process.env
const SECONDS = 3

let browser
before(async () => {
  const args = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"]
  browser = await chromium.launch({ executablePath: CHROMIUM, args })
})
after(() => browser.close())

/// Opens a report, and checks at the end that it has loaded nothing and has reported no error.
async function open(name, check, { width = 1200, colorScheme = "light" } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme })
  const page = await context.newPage()
  const report = pathToFileURL(join(REPORTS, `${name}.html`)).href
  const requests = [], failures = []
  await page.route("**", route => {
    requests.push(route.request().url())
    return route.request().url() === report ? route.continue() : route.abort()
  })
  page.on("pageerror", error => failures.push(error.stack))
  page.on("console", message => failures.push(message.text()))
  page.on("dialog", dialog => {
    failures.push(`dialog ${dialog.message()}`)
    return dialog.dismiss()
  })
  await page.goto(report)
  await page.waitForFunction(() => performance.getEntriesByName("ready").length === 1)
  await check(page)
  assert.deepEqual(failures, [])
  assert.deepEqual(requests, [report])
  await context.close()
}

/// The texts of a table, by row.
const rows = (page, id) => page.$$eval(`#${id} tbody tr`, rows => {
  return rows.map(row => [...row.cells].map(cell => cell.textContent))
})

const text = (page, selector) => page.textContent(selector)
const range = page => text(page, "#range")

/// Presses keys in the timeline, and waits until a frame is drawn.
async function press(page, ...keys) {
  await page.focus("#timeline")
  for (const key of keys) await page.keyboard.press(key)
  await frame(page)
}

const frame = page => page.evaluate(() => {
  return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))
})

/// The fields of the selected request.
const detail = page => page.$$eval("#detail dl > div", fields => {
  return Object.fromEntries(fields.map(field => [...field.children].map(part => part.textContent)))
})

/// The colour of the timeline at a share of its time, in a track, at a share of the bar from above,
/// some pixels to the right. `none` where nothing is drawn.
const colorAt = (page, ...place) => page.evaluate(([share, track, height = .5, right = 0]) => {
  const x = NAMES + share * (canvas.clientWidth - NAMES) + right
  const y = AXIS + track * TRACK + (TRACK - BAR) / 2 + height * BAR
  const copy = new OffscreenCanvas(1, 1).getContext("2d")
  const [column, row] = [x, y].map(place => Math.floor(place * devicePixelRatio))
  copy.drawImage(canvas, column, row, 1, 1, 0, 0, 1, 1)
  const [...parts] = copy.getImageData(0, 0, 1, 1).data
  if (parts.pop() === 0) return "none"
  return `#${parts.map(part => part.toString(16).padStart(2, "0")).join("")}`
}, place)

const colorOf = (page, name) => page.evaluate(name => {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}, name)

describe("a report", () => {
  it("says what it covers", () => open("exact", async page => {
    assert.equal(await text(page, "#about"),
      "2026-11-25 08:23:04.000 UTC to 2026-11-25 08:23:04.100 UTC (100 ms)" +
      " · 9 requests of 4 owners · no request is forgotten")
    const outcomes = await page.$$eval("#outcomes li", items => items.map(item => item.textContent))
    assert.deepEqual(outcomes.map(outcome => outcome.trim()), ["Wwaiting 1", "Hholding 1",
      "released 2", "Rrevoked 1", "Eextended 1", "Ttimed out 1", "Ccancelled 1", "Ddeadlock 1"])
  }))

  it("counts the requests that are forgotten", () => open("simulated", async page => {
    assert.match(await text(page, "#about"), /2,000 requests of 5 owners · 1,200 earlier requests forgotten$/)
  }))

  it("lists the longest waits and holds with their call sites", () => open("exact", async page => {
    assert.deepEqual((await rows(page, "longest-waits")).slice(0, 3), [
      ["30 ms", "ben (keystroke)", "src/main.rs:13:13", "released"],
      ["20 ms", "cem", "src/main.rs:11:13", "timed out"],
      ["5 ms", "ben", "src/main.rs:17:13", "holding"],
    ])
    assert.deepEqual(await rows(page, "longest-holds"), [
      ["50 ms", "ann", "src/main.rs:15:13", "revoked"],
      ["40 ms", "ann (import)", "src/main.rs:12:13", "released"],
      ["5 ms", "ben (keystroke)", "src/main.rs:13:13", "released"],
      ["5 ms", "ben", "src/main.rs:17:13", "holding"],
    ])
  }))

  it("says who waited for whom", () => open("exact", async page => {
    assert.deepEqual((await rows(page, "pairs")).map(row => row.slice(0, 4)), [
      ["ben", "ann", "35 ms", "2"],
      ["cem", "ann", "22 ms", "2"],
      ["cem", "ben", "4 ms", "1"],
      ["ann", "ben", "3 ms", "1"],
      ["dora", "ann", "1 ms", "1"],
    ])
  }))

  it("has histograms, as pictures and as tables", () => open("exact", async page => {
    assert.equal(await page.getAttribute("#waits .bars", "aria-label"),
      "Histogram of waits: p50 3 ms, p95 30 ms, p99 30 ms, max 30 ms")
    assert.deepEqual(await rows(page, "holds"), [
      ["5 ms to 10 ms", "2"], ["10 ms to 20 ms", "0"], ["20 ms to 50 ms", "1"],
      ["50 ms to 100 ms", "1"],
    ])
    const bars = await page.$$eval("#holds .bars div", bars => bars.map(bar => bar.clientHeight))
    assert.ok(bars[0] > 100 && bars[1] === 0 && Math.abs(bars[0] - 2 * bars[2]) <= 2, `${bars}`)
  }))

  it("says that it has no requests", () => open("empty", async page => {
    assert.equal(await text(page, "#about"), "The recording has no requests.")
    assert.equal(await page.isVisible("main"), false)
  }))

  it("shows names as text", () => open("hostile", async page => {
    const names = (await rows(page, "longest-holds")).map(row => row[1])
    assert.deepEqual(names, [
      "\"};alert(1)//\\ (\"};alert(1)//\\)",
      "</script><script>alert(1)</script> (</script><script>alert(1)</script>)",
      "<!--<script> (<!--<script>)",
      "\\u{0}\\u{1f}\\u{a}\\u{2028} (\\u{0}\\u{1f}\\u{a}\\u{2028})",
      "\\u{202e}nna\\u{2066} (\\u{202e}nna\\u{2066})",
      "<img src=x onerror=alert(1)>&amp; (<img src=x onerror=alert(1)>&amp;)",
    ])
    await press(page, "Enter", "ArrowDown")
    assert.equal((await detail(page)).owner, "</script><script>alert(1)</script>")
    assert.equal(await page.locator("img").count(), 0)
  }))

  it("shows times that no lock has, and can be zoomed to them", () => open("nonsense", async page => {
    assert.match(await text(page, "#about"),
      /^an unknown date to an unknown date \(.*\) · 20 requests of 2 owners/)
    for (const end of ["Home", "End"]) {
      await press(page, "0", "Enter", "f", "0", ...Array(110).fill("+"), end, "Enter", "f", "-")
    }
  }))

  it("is refused to load anything by its own policy", async () => {
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.goto(pathToFileURL(join(REPORTS, "exact.html")).href)
    const refused = await page.evaluate(() => new Promise(done => {
      addEventListener("securitypolicyviolation", event => done(event.effectiveDirective))
      const image = new Image()
      image.addEventListener("error", () => setTimeout(done, 100, "nothing is refused"))
      image.src = "http://127.0.0.1:9/a.png"
    }))
    assert.equal(refused, "img-src")
    await context.close()
  })
})

describe("the timeline", () => {
  it("draws waits and holds of owners on their tracks", () => open("exact", async page => {
    const [released, revoked, holding, wait] = await Promise.all(
      ["--released", "--revoked", "--holding", "--wait"].map(name => colorOf(page, name)))
    // The tracks: ann, ben, ben (2), cem, cem (2), dora.
    assert.equal(await colorAt(page, .20, 0), released)
    assert.equal(await colorAt(page, .70, 0), revoked)
    assert.equal(await colorAt(page, .20, 1, .7), wait)
    // A wait is lower than a hold.
    assert.notEqual(await colorAt(page, .20, 1, .2), wait)
    assert.equal(await colorAt(page, .425, 1), released)
    assert.equal(await colorAt(page, .96, 1), holding)
    assert.equal(await colorAt(page, .25, 3, .7), wait)
    assert.equal(await colorAt(page, .70, 3, .7), "none")
  }))

  it("marks unusual ends with letters", () => open("exact", async page => {
    const marks = [[.95, 0, "--revoked"], [.32, 3, "--timed-out"], [.16, 4, "--cancelled"],
      [.47, 5, "--deadlock"]]
    for (const [share, track, name] of marks) {
      const across = height => Promise.all([-4, -2, -1, 0, 1, 2, 4].map(right => {
        return colorAt(page, share, track, height, right)
      }))
      const color = await colorOf(page, name)
      assert.ok((await across(.15)).every(at => at === color), name)
      assert.ok(!(await across(.5)).every(at => at === color), name)
    }
  }))

  it("draws an arrow from a releaser to the next holder", () => open("exact", async page => {
    const arrow = await colorOf(page, "--arrow")
    // Between the bars of ann and ben, where ann releases.
    const between = () => colorAt(page, .4, 0, 1.2)
    await press(page, "Enter", "ArrowDown")
    assert.equal((await detail(page))["handed the lock by"], "lock-1-1 of ann (import)")
    assert.equal(await between(), arrow)
    await press(page, ".")
    assert.notEqual(await between(), arrow)
    assert.notEqual(await between(), "none")
  }))

  it("is zoomed and panned by keys", () => open("exact", async page => {
    assert.equal(await range(page), "0 ms to 100 ms (100 ms)")
    await press(page, "+")
    assert.equal(await range(page), "16.67 ms to 83.33 ms (66.7 ms)")
    await press(page, "w")
    assert.equal(await range(page), "27.78 ms to 72.22 ms (44.4 ms)")
    await press(page, "Home")
    assert.equal(await range(page), "0 ms to 44.44 ms (44.4 ms)")
    await press(page, "ArrowRight", "d")
    assert.equal(await range(page), "17.78 ms to 62.22 ms (44.4 ms)")
    await press(page, "End")
    assert.equal(await range(page), "55.56 ms to 100 ms (44.4 ms)")
    await press(page, "ArrowRight")
    assert.equal(await range(page), "55.56 ms to 100 ms (44.4 ms)")
    await press(page, "ArrowLeft", "a", "-", "s")
    assert.equal(await range(page), "0 ms to 100 ms (100 ms)")
    for (let times = 0; times < 60; times++) await page.keyboard.press("+")
    await frame(page)
    assert.match(await range(page), /\(20 ns\)$/)
    await press(page, "0")
    assert.equal(await range(page), "0 ms to 100 ms (100 ms)")
  }))

  it("draws what is zoomed to", () => open("exact", async page => {
    const holding = await colorOf(page, "--holding")
    assert.notEqual(await colorAt(page, .75, 1), holding)
    await press(page, "+", "+", "+", "+", "+", "+", "End")
    assert.equal(await colorAt(page, .75, 1), holding)
  }))

  it("selects requests by keys", () => open("exact", async page => {
    await press(page, "Enter")
    // The nearest to 50 ms of the first track.
    const revoked = await detail(page)
    assert.equal(revoked.id, "lock-6-1")
    assert.equal(revoked["call site"], "src/main.rs:15:13")
    assert.equal(revoked.waited, "3 ms")
    assert.equal(revoked.held, "50 ms")
    assert.equal(revoked.outcome, "R revoked")
    assert.equal(revoked["held meanwhile"], "lock-2-1 of ben (keystroke) for 3 ms")
    assert.equal(revoked["handed the lock by"], "lock-2-1 of ben (keystroke)")
    assert.equal(revoked["handed the lock to"], "lock-7-1 of ben")
    await press(page, ",")
    assert.equal((await detail(page)).id, "lock-1-1")
    await press(page, ",")
    assert.equal((await detail(page)).id, "lock-1-1")
    await press(page, ".", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown")
    const deadlock = await detail(page)
    assert.deepEqual([deadlock.owner, deadlock.waited, deadlock.held, deadlock.outcome],
      ["dora", "1 ms, for nodes", "never", "D deadlock"])
    await press(page, "f")
    assert.equal(await range(page), "45 ms to 48 ms (3 ms)")
    await press(page, "Escape")
    assert.equal(await text(page, "#detail"), "No request is selected.")
  }))

  it("follows hand-offs by their links", () => open("exact", async page => {
    await press(page, "Enter")
    await page.click("text=lock-2-1 of ben >> nth=0")
    assert.equal((await detail(page)).label, "keystroke")
    await page.click("text=lock-1-1 of ann >> nth=0")
    assert.equal((await detail(page)).label, "import")
  }))

  it("is zoomed to a long wait by Tab and Enter in a table", () => open("exact", async page => {
    await page.focus("#timeline")
    let focused
    for (let tabs = 0; tabs < 20 && focused !== "20 ms"; tabs++) {
      await page.keyboard.press("Tab")
      focused = await page.evaluate(() => document.activeElement.textContent)
    }
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle)
    assert.equal(outline, "solid")
    await page.keyboard.press("Enter")
    await frame(page)
    assert.equal(await range(page), "0 ms to 60 ms (60 ms)")
    const { outcome, ...fields } = await detail(page)
    assert.equal(outcome, "T timed out")
    assert.equal(fields["held meanwhile"], "lock-1-1 of ann (import) for 20 ms")
    assert.equal(await page.evaluate(() => document.activeElement.id), "timeline")
  }))

  it("scrolls to the tracks of many owners", () => open("crowd", async page => {
    const top = () => page.evaluate(() => document.getElementById("timeline").scrollTop)
    await press(page, "Enter", ...new Array(250).fill("ArrowDown"))
    assert.equal((await detail(page)).owner, "owner-251")
    assert.ok(await top() > 250 * 22 - 600, `${await top()}`)
    await press(page, ...new Array(250).fill("ArrowUp"))
    assert.deepEqual([(await detail(page)).owner, await top()], ["owner-1", 0])
    assert.equal((await rows(page, "pairs")).length, 20)
    // Of 250 owners, and of the others as one.
    assert.match(await text(page, "#pairs .hint"), /These are the 20 of 251 pairs/)
  }))

  it("is used with a mouse", () => open("exact", async page => {
    const box = await page.locator("#canvas").boundingBox()
    const at = share => box.x + 150 + share * (box.width - 150)
    const ann = box.y + 24 + 11
    await page.mouse.move(at(.2), ann)
    assert.equal(await text(page, "#tip"), "ann (import): waited 0, held 40 ms, released")
    await page.mouse.click(at(.2), ann)
    assert.equal((await detail(page)).id, "lock-1-1")
    await page.keyboard.down("Control")
    await page.mouse.wheel(0, -462)
    await page.keyboard.up("Control")
    await frame(page)
    // Half of the range; 20 ms stays where it was.
    assert.match(await range(page), /^(9\.9|10)\d* ms to (60|59\.9)\d* ms/)
    const before = await range(page)
    await press(page, "Escape")
    await page.mouse.down()
    await page.mouse.move(at(.2) + 100, ann, { steps: 4 })
    await page.mouse.up()
    await frame(page)
    assert.notEqual(await range(page), before)
    // A drag selects nothing.
    assert.deepEqual(await detail(page), {})
    await page.click("#zoom-all")
    await frame(page)
    assert.equal(await range(page), "0 ms to 100 ms (100 ms)")
  }))
})

describe("the page", () => {
  it("changes its colours when the browser is dark", () => open("exact", async page => {
    const colors = async () => [await colorAt(page, .2, 0), await colorAt(page, .2, 1, .7),
      await page.evaluate(() => getComputedStyle(document.body).color)]
    const light = await colors()
    await page.emulateMedia({ colorScheme: "dark" })
    await frame(page)
    const dark = await colors()
    for (const index of light.keys()) assert.notEqual(dark[index], light[index])
    assert.equal(dark[0], await colorOf(page, "--released"))
  }))

  for (const colorScheme of ["light", "dark"]) {
    it(`has contrast where it is ${colorScheme}`, () => open("exact", async page => {
      const contrast = async (one, other) => {
        const [light, dark] = (await Promise.all([one, other].map(async name => {
          const color = await colorOf(page, name)
          const parts = [1, 3, 5].map(at => parseInt(color.slice(at, at + 2), 16) / 255)
          const [red, green, blue] = parts.map(part => {
            return part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4
          })
          return .2126 * red + .7152 * green + .0722 * blue
        }))).sort((one, other) => other - one)
        return (light + .05) / (dark + .05)
      }
      const outcomes = ["--holding", "--released", "--revoked", "--extended", "--timed-out",
        "--cancelled", "--deadlock"]
      const texts = ["--text", "--quiet", "--focus", ...outcomes]
      for (const name of texts) {
        const ratio = await contrast(name, "--card")
        assert.ok(ratio >= 4.5, `${name} has ${ratio}`)
      }
      assert.ok(await contrast("--quiet", "--page") >= 4.5)
      assert.ok(await contrast("--text", "--waiting") >= 4.5)
      assert.ok(await contrast("--wait-edge", "--card") >= 3)
    }, { colorScheme }))
  }

  it("has names for everything that can be focused", () => open("simulated", async page => {
    const nameless = await page.$$eval("button, [tabindex], canvas[role], table", elements => {
      const name = element => element.ariaLabel || element.textContent.trim()
      return elements.filter(element => !name(element)).map(element => element.outerHTML)
    })
    assert.deepEqual(nameless, [])
    const described = await page.getAttribute("#timeline", "aria-describedby")
    for (const id of described.split(" ")) assert.notEqual(await text(page, `#${id}`), "")
    const first = page.locator("#longest-waits button").first()
    assert.match(await first.getAttribute("aria-label"), /^4 ms, zoom to wait of /)
  }))

  for (const width of [800, 1200, 1600]) {
    it(`fits ${width} pixels`, () => open("simulated", async page => {
      await press(page, "Enter")
      const wide = await page.evaluate(() => document.documentElement.scrollWidth)
      assert.ok(wide <= width, `${wide}`)
    }, { width }))
  }
})

describe("a million requests", () => {
  it(`open in less than ${SECONDS} s`, async () => {
    const times = []
    for (let time = 0; time < 3; time++) {
      await open("million", async page => {
        const [{ startTime }] = JSON.parse(await page.evaluate(() => {
          return JSON.stringify(performance.getEntriesByName("ready"))
        }))
        times.push(startTime)
      })
    }
    times.sort((one, other) => one - other)
    const [, median] = times
    console.log(`a million requests: ${times.map(time => Math.round(time)).join(", ")} ms`)
    assert.ok(median < SECONDS * 1000, `${median} ms`)
  })

  it("are zoomed and selected", () => open("million", async page => {
    // Most are narrower than a pixel.
    assert.equal(await colorAt(page, .5, 0, .95), await colorOf(page, "--released"))
    assert.match(await text(page, "#about"), /1,000,000 requests of 5 owners/)
    const frames = await page.evaluate(async () => {
      const box = document.getElementById("timeline")
      const times = []
      for (let time = 0; time < 10; time++) {
        box.dispatchEvent(new KeyboardEvent("keydown", { key: "+" }))
        const from = performance.now()
        await new Promise(done => requestAnimationFrame(() => setTimeout(done)))
        times.push(Math.round(performance.now() - from))
      }
      return times
    })
    console.log(`frames while it is zoomed: ${frames.join(", ")} ms`)
    await press(page, "Enter")
    assert.match((await detail(page)).id, /^lock-\d+-1$/)
    await page.click("#longest-holds button >> nth=0")
    assert.equal((await detail(page)).held, "5 ms")
    await page.click("#longest-waits button >> nth=0")
    assert.match((await detail(page))["held meanwhile"], /^lock-\d+-1 of .* for [\d.]+ ms/)
  }))
})

it("is drawn", { skip: !PICTURES }, async () => {
  for (const colorScheme of ["light", "dark"]) {
    for (const [name, width] of [["exact", 800], ["simulated", 1200], ["million", 1600]]) {
      await open(name, async page => {
        const path = join(PICTURES, `${name}-${colorScheme}.png`)
        await page.screenshot({ path, fullPage: true })
      }, { width, colorScheme })
    }
    // The picture of the documentation.
    await open("simulated", async page => {
      await page.click("#longest-waits button >> nth=6")
      await press(page, "-", "-")
      await page.evaluate(() => scrollTo(0, 0))
      await page.screenshot({ path: join(PICTURES, `timeline-${colorScheme}.png`) })
    }, { colorScheme })
  }
})
