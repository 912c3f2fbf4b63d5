// The WebSocket: one request in flight, and a new connection after each that ends.

const SLOWEST_RETRY = 4000
/// How many seconds a server may be silent. It shows its panel four times a second.
const SILENCE = 5
/// How many seconds it may take to answer the `hello`: it may look for another server for ten.
const PATIENCE = 15

export class Connection {
  /// `isOpen`: the server has answered the `hello`.
  isOpen = false
  #socket = null
  #inFlight = false
  #wait = 250
  #timer = null
  #silence = 0

  /// `tab.hello()` is the first message, `tab.receive(message)` takes each message of the server,
  /// `tab.request()` is the next request or null, and `tab.changed(why)` shows the state.
  constructor(tab) {
    this.tab = tab
    // The browser may keep a dead socket for minutes.
    addEventListener("offline", () => this.restart())
    addEventListener("online", () => this.open())
    setInterval(() => this.#listen(), 1000)
    this.open()
  }

  /// Gives up a server that is silent. It counts by a timer, so a page that sleeps counts nothing.
  #listen() {
    this.#silence++
    if (this.#silence > (this.isOpen ? SILENCE : PATIENCE)) this.restart()
  }

  open() {
    if (this.#socket) return
    clearTimeout(this.#timer)
    const socket = new WebSocket(`${location.origin.replace("http", "ws")}/live`)
    this.#socket = socket
    this.#silence = 0
    socket.onopen = () => socket.send(JSON.stringify(this.tab.hello()))
    socket.onmessage = ({ data }) => {
      if (socket === this.#socket) this.#receive(JSON.parse(data))
    }
    socket.onclose = ({ code, reason }) => this.#closed(socket, code, reason)
  }

  /// Ends this connection, and opens another.
  restart() {
    const socket = this.#socket
    if (!socket) return
    socket.close()
    this.#closed(socket, 1000, "")
  }

  /// Ends for good.
  stop() {
    this.open = () => {}
    this.restart()
  }

  #receive(message) {
    this.#silence = 0
    if (message.type === "welcome") [this.isOpen, this.#inFlight, this.#wait] = [true, false, 250]
    this.tab.receive(message)
    this.pump()
  }

  #closed(socket, code, reason) {
    if (socket !== this.#socket) return
    this.#socket = null
    this.isOpen = false
    this.tab.changed(code >= 4400 ? reason : null)
    // The same session or the same message would be refused again.
    if (code === 4409 || code === 4400) return this.tab.refused(code, reason)
    this.#timer = setTimeout(() => this.open(), this.#wait * (0.5 + Math.random()))
    this.#wait = Math.min(this.#wait * 2, SLOWEST_RETRY)
  }

  /// The answer to the request in flight has come. With `later`, the next is sent after a pause.
  answered(later = 0) {
    if (later) return setTimeout(() => this.answered() || this.pump(), later)
    this.#inFlight = false
  }

  /// Sends the next request, unless one is in flight.
  pump() {
    const request = this.isOpen && !this.#inFlight ? this.tab.request() : null
    if (!request) return
    this.#inFlight = true
    this.send(request)
  }

  send(message) {
    if (this.isOpen) this.#socket.send(JSON.stringify(message))
  }
}
