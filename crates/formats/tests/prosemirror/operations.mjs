// Prints random documents with a selection, a command of an editor, and the document that it makes
// of them, one case a line: node operations.mjs SEED COUNT. A command that does not apply has no
// result. COUNT is the number of cases.
import {caseOf, commands, kits} from "./commands.mjs"
import {begin, one} from "./kit.mjs"

const [seed, count] = process.argv.slice(2).map(Number)
begin(seed)

const only = process.argv[4]?.split(",")
const names = Object.keys(commands).filter(name => !only || only.includes(name))
let made = 0
for (let tries = 0; made < count; tries++) {
  const kit = one(kits), line = caseOf(kit, names[tries % names.length])
  if (!line) continue
  made++
  console.log(line)
}
