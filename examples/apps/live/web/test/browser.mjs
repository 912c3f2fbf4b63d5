// The server as a process, and tabs in Chromium.

import assert from "node:assert/strict"
import { execFileSync, spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { chromium } from "playwright-core"

const PROGRAM = process.env.PROGRAM
  ?? new URL("../../../../../target/release/doclock-live", import.meta.url).pathname

const servers = new Set()

/// Ends what a failed test has left.
export const endServers = () => Promise.all([...servers].map(server => server.end("SIGKILL")))

/// A server with a document in a file of its own.
export class Server {
  /// The events that a server of a cluster has printed.
  events = []

  /// `source`: the arguments that name the document.
  static async start(source = null) {
    const server = new Server()
    servers.add(server)
    if (!source) {
      server.folder = mkdtempSync(join(tmpdir(), "doclock-live-"))
      source = ["--store", join(server.folder, "live.doclock")]
    }
    server.source = source
    await server.restart("127.0.0.1:0")
    return server
  }

  async restart(address = this.address) {
    this.events = []
    this.process = spawn(PROGRAM, [...this.source, "--listen", address],
      { stdio: ["pipe", "pipe", "inherit"] })
    const lines = createInterface(this.process.stdout)
    this.url = await new Promise((resolve, reject) => {
      lines.on("line", line => {
        if (line.startsWith("http://")) resolve(line)
        else if (line.startsWith("{")) this.#note(JSON.parse(line))
      })
      this.process.once("exit", code => reject(new Error(`the server ended with ${code}`)))
    })
    this.address = new URL(this.url).host
  }

  #waiting = []
  #note(event) {
    this.events.push(event)
    for (const waiting of this.#waiting.splice(0)) waiting()
  }

  /// The epoch of the last term that it has acquired.
  get epoch() {
    const acquired = this.events.filter(event => event.type === "acquired")
    return acquired.at(-1)?.epoch ?? 0
  }

  /// Waits for an event of a type.
  async event(type, isWanted = () => true) {
    const end = Date.now() + 30_000
    for (;;) {
      const event = this.events.find(event => event.type === type && isWanted(event))
      if (event) return event
      assert.ok(Date.now() < end, `no event ${type} in 30 seconds, but ${JSON.stringify(this.events)}`)
      await Promise.race([
        new Promise(resolve => this.#waiting.push(resolve)),
        new Promise(resolve => setTimeout(resolve, 1000)),
      ])
    }
  }

  /// Stops to answer and closes no connection, until it is told to go on.
  freeze(is) {
    this.process.kill(is ? "SIGSTOP" : "SIGCONT")
  }

  async end(signal) {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return
    const ended = new Promise(resolve => this.process.once("exit", resolve))
    this.process.kill(signal)
    await ended
  }

  /// Holds the lock until it is released.
  hold() {
    this.process.stdin.write("hold 60\n")
  }

  release() {
    this.process.stdin.write("\n")
  }

  /// Ends, and returns what the document and its log have.
  async report() {
    await this.end("SIGINT")
    const output = execFileSync(PROGRAM, [...this.source, "--check"], { maxBuffer: 1 << 30 })
    if (this.folder) rmSync(this.folder, { recursive: true })
    return JSON.parse(output)
  }
}

/// Servers on different ports, which share one document in PostgreSQL.
export class Cluster {
  static async start(document, count = 2) {
    const { PGHOST, PGPORT, PGUSER, PGDATABASE } = process.env
    assert.ok(PGHOST, "there is no PostgreSQL: run this with scripts/with-postgres")
    const parameters = `host='${PGHOST}' port=${PGPORT} user='${PGUSER}' dbname='${PGDATABASE}'`
    const cluster = new Cluster()
    cluster.servers = []
    for (let nth = 0; nth < count; nth++) {
      cluster.servers.push(await Server.start(["--cluster", parameters, "--document", document]))
    }
    await cluster.servers[0].event("acquired")
    return cluster
  }

  /// Ends all, and returns what the document and its log have.
  async report() {
    const [first, ...others] = this.servers
    for (const server of others) await server.end("SIGINT")
    return first.report()
  }
}

export const launch = () => {
  const args = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"]
  // Playwright makes a new empty profile.
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args })
}

/// A tab in a browser window of its own, so that it alone goes offline.
export class Tab {
  /// Answers a question of the browser.
  answer = dialog => dialog.accept()

  /// The keys of the requests whose commits the tab has received.
  acknowledged = []

  static async open(browser, server, viewport = { width: 900, height: 3000 }) {
    const tab = new Tab()
    tab.context = await browser.newContext({ viewport })
    tab.page = await tab.context.newPage()
    tab.failures = []
    tab.page.on("pageerror", error => tab.failures.push(error.stack))
    tab.page.on("websocket", socket => tab.#record(socket))
    // The browser asks before it drops edits that are pending.
    tab.page.on("dialog", dialog => tab.answer(dialog))
    await tab.page.addInitScript(watch)
    await tab.page.goto(server.url)
    await tab.ready()
    return tab
  }

  #record(socket) {
    const sent = new Set()
    socket.on("framesent", ({ payload }) => sent.add(JSON.parse(payload).key))
    socket.on("framereceived", ({ payload }) => {
      const message = JSON.parse(payload)
      if (message.type === "commit" && message.key && sent.has(message.key)) {
        this.acknowledged.push(`${message.tab}/${message.key}`)
      }
    })
  }

  ready() {
    return this.page.waitForFunction(() => window.live?.connection.isOpen)
  }

  evaluate(code, argument) {
    return this.page.evaluate(code, argument)
  }

  text() {
    return this.evaluate(() => live.view.state.doc.toString())
  }

  async offline(is) {
    await this.context.setOffline(is)
    if (is) await this.page.waitForFunction(() => !live.connection.isOpen)
    else await this.ready()
  }

  async reload() {
    await this.seen()
    // Its server may have been killed in the middle of its answer, or may be starting again. A page
    // that is being replaced by that of the failure cannot be reloaded either.
    const passing = [
      "ERR_CONNECTION_REFUSED",
      "ERR_CONNECTION_RESET",
      "ERR_CONNECTION_CLOSED",
      "ERR_EMPTY_RESPONSE",
      "ERR_ABORTED",
      "Not attached to an active page",
    ]
    for (const end = Date.now() + 20_000; ;) {
      const failure = await this.page.reload().then(() => null, failure => failure)
      // The load of a page succeeds without its script.
      if (!failure && await this.evaluate(() => "live" in window).catch(() => false)) break
      const isPassing = !failure || passing.some(text => failure.message.includes(text))
      if (!isPassing || Date.now() > end) throw failure ?? new Error("the page has no script")
      await this.page.waitForTimeout(100)
    }
    await this.ready()
  }

  /// Waits until nothing is pending, and the tab has a version.
  async settle(version = 0) {
    await this.page.waitForFunction(version => {
      return live.connection.isOpen && live.copy.pending.length === 0 && live.copy.version >= version
    }, version, { timeout: 20_000 })
    return this.evaluate(() => live.copy.version)
  }

  /// Checks what the page has shown since the last call. Collects the digests of its versions.
  digests = new Map()
  async seen() {
    const { digests, failures } = await this.evaluate(() => watched.take())
    assert.deepEqual([...failures, ...this.failures], [])
    for (const [version, digest] of digests) {
      assert.equal(this.digests.get(version) ?? digest, digest, `version ${version} has one text`)
      this.digests.set(version, digest)
    }
  }
}

/// Runs in the page: looks at each frame that is displayed.
function watch() {
  const digest = text => {
    let digest = 0x811c9dc5
    for (let at = 0; at < text.length; at++) digest = Math.imul(digest ^ text.charCodeAt(at), 0x01000193)
    return digest >>> 0
  }
  const watched = window.watched = {
    digests: new Map(), failures: [], frames: 0, pending: 0, rendered: 0,
    take() {
      const { digests, failures } = watched
      const taken = { digests: [...digests], failures: [...failures] }
      digests.clear()
      failures.length = 0
      return taken
    },
  }
  /// The text that the page shows without a mark, read from the page itself.
  const unmarked = () => [...document.querySelectorAll(".cm-line")].map(line => {
    const copy = line.cloneNode(true)
    for (const mark of copy.querySelectorAll(".pending, .pending-deletion, .caret")) mark.remove()
    return copy.textContent
  })
  const look = () => {
    requestAnimationFrame(look)
    const { copy, view } = window.live ?? {}
    if (!copy || copy.version === 0) return
    watched.frames++
    const confirmed = copy.confirmed.sliceString(0, undefined, "\n")
    watched.digests.set(copy.version, digest(confirmed))
    if (view.viewport.from > 0 || view.viewport.to < view.state.doc.length) return
    watched.rendered++
    if (copy.changes.empty) {
      const shown = unmarked().join("\n")
      if (shown !== confirmed) watched.failures.push(`shows ${shown}, confirmed is ${confirmed}`)
      return
    }
    watched.pending++
    // What is inserted is marked, what is deleted is missing, with a mark at its place.
    const left = []
    let at = 0, deletions = 0
    copy.changes.iterChanges((from, to) => {
      left.push(confirmed.slice(at, from))
      at = to
      if (to > from) deletions++
    })
    left.push(confirmed.slice(at))
    const expected = left.join("").replaceAll("\n", "")
    // A pending line break is marked by nothing but its line.
    const shown = unmarked().join("")
    if (shown !== expected) watched.failures.push(`shows ${shown}, of ${expected}`)
    const marks = document.querySelectorAll(".pending-deletion").length
    if (marks !== deletions) watched.failures.push(`${marks} marks for ${deletions} deletions`)
  }
  requestAnimationFrame(look)
}
