// The page shows one text node. It sends its edits one after the other, each against the version
// that it has seen, and reads the document again when another window has committed.
const { invoke } = window.__TAURI__.core;
const own = window.__TAURI__.webviewWindow.getCurrentWebviewWindow();
const $ = (id) => document.getElementById(id);
const area = $("text");

// The last version that the page has seen, and its text.
let seen = { version: -1, text: "" };
// The end of the work that is under way.
let work = Promise.resolve();
// What the title shows of the lock and of the last error.
let [lock, failed] = ["", ""];

// Shows a message, or an error with its code.
function say(message, code = "") {
  $("message").textContent = message;
  $("message").className = code && "error";
  failed = code;
  showTitle();
}

const fail = (error) => say(error.message ?? String(error), error.code ?? "error");

// Runs one task after the other.
function run(task) {
  work = work.then(task).catch(fail);
}

const isLow = (unit) => unit >= 0xdc00 && unit < 0xe000;

// The one splice that makes `after` of `before`, in UTF-16 units. It cuts no surrogate pair.
function difference(before, after) {
  const shorter = Math.min(before.length, after.length);
  let start = 0, end = 0;
  while (start < shorter && before[start] === after[start]) start++;
  if (isLow(before.charCodeAt(start)) || isLow(after.charCodeAt(start))) start -= start > 0;
  while (end < shorter - start && before.at(-1 - end) === after.at(-1 - end)) end++;
  if (end > 0 && isLow(before.charCodeAt(before.length - end))) end--;
  return {
    start,
    end: before.length - end,
    inserted: after.slice(start, after.length - end),
  };
}

// Where a position of the text before a splice is behind it.
function moved(position, { start, end, inserted }) {
  if (position <= start) return position;
  return start + inserted.length + Math.max(0, position - end);
}

// Reads the document. Text that was typed and not sent stays, at its place in the new text.
async function read() {
  const latest = await invoke("document");
  if (latest.version <= seen.version) return;
  const typed = difference(seen.text, area.value);
  const others = difference(seen.text, latest.text);
  const [start, end] = [moved(typed.start, others), moved(typed.end, others)];
  const text = latest.text.slice(0, start) + typed.inserted + latest.text.slice(end);
  if (text !== area.value) {
    const after = difference(area.value, text);
    const caret = [area.selectionStart, area.selectionEnd].map((at) => moved(at, after));
    area.value = text;
    area.setSelectionRange(...caret);
  }
  seen = latest;
}

// Sends what was typed, until everything is sent.
async function send() {
  while (area.value !== seen.text) {
    const text = area.value;
    const { start, end, inserted } = difference(seen.text, text);
    const script = {
      unit: "utf16",
      operations: [
        { type: "ifUnchanged", payload: { version: seen.version } },
        { type: "replaceText", payload: { nodeId: "text", start, end, text: inserted } },
      ],
    };
    try {
      const { version } = await invoke("edit", { script: JSON.stringify(script) });
      seen = { ...seen, version, text };
    } catch (error) {
      if (error.cause?.code !== "versionConflict") throw error;
      await read();
    }
  }
}

// Calls a command that changes the document.
const change = (command, values) => run(async () => {
  await send();
  await invoke(command, values);
  await read();
});

area.addEventListener("input", () => {
  run(send);
  showTitle();
});
$("undo").addEventListener("click", () => change("undo"));
$("redo").addEventListener("click", () => change("redo"));
$("window").addEventListener("click", () => run(() => invoke("new_window")));
addEventListener("keydown", (event) => {
  const command = { z: "undo", y: "redo", n: "new_window" }[event.key];
  if (!event.ctrlKey || !command) return;
  event.preventDefault();
  change(command);
});

// The first step locks the document and counts, the second one replaces and unlocks it.
let begun = false;
function setBegun(value) {
  begun = value;
  $("next").textContent = begun ? "Replace" : "Lock and count";
  $("find").readOnly = begun;
  $("cancel").disabled = !begun;
}
$("replacement").addEventListener("submit", (event) => {
  event.preventDefault();
  const find = $("find").value;
  if (!begun) {
    run(async () => {
      await send();
      const { matches, holdLimit } = await invoke("begin_replacement", { find });
      setBegun(true);
      say(`${matches} matches. If another edit waits, the lock ends ${holdLimit} s after its start.`);
    });
    return;
  }
  // At once: an edit that is under way waits for this.
  endReplacement("end_replacement", { find, replacement: $("replace").value });
});
$("cancel").addEventListener("click", () => endReplacement("cancel_replacement"));

function endReplacement(command, values) {
  setBegun(false);
  invoke(command, values).then((done) => say(done ? "Replaced." : ""), fail);
}

const commits = [];
own.listen("commit", ({ payload }) => {
  commits.push(`version ${payload.version} of ${payload.owner}`);
  $("commits").textContent = commits.slice(-3).join("\n");
  run(read);
});
own.listen("closing", () => run(async () => {
  await send();
  await invoke("close_window");
}));

function showTitle() {
  const parts = [`${area.value.length} characters`, lock, failed].filter((part) => part);
  document.title = `${seen.name}, ${own.label}: ${parts.join(", ")}`;
}

async function showStatus() {
  const status = await invoke("status");
  $("state").textContent = `version ${seen.version}, on the disk: ${status.durableVersion}`;
  $("holder").textContent = status.holder ?? "free";
  $("queue").textContent = status.queue;
  $("revoked").textContent = status.lastRevoked ?? "none";
  lock = `${status.owner ? `locked by ${status.owner}` : "free"}, ${status.revoked} revoked`;
  showTitle();
  setTimeout(showStatus, 200);
}

run(read);
run(showStatus);
