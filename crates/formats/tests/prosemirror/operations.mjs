// Prints random documents with a selection, a command of an editor, and the document that it makes
// of them, one case a line: node operations.mjs SEED COUNT. A command that does not apply has no
// result. COUNT is the number of cases.
import {caseOf, commands, kits} from "./commands.mjs"
import {begin, one} from "./kit.mjs"

const [seed, count] = process.argv.slice(2).map(Number)
begin(seed)

const only = process.argv[4]?.split(",")
const names = Object.keys(commands).filter(name => !only || only.includes(name))
// As many cases of each command.
for (let made = 0; made < count; made++) {
  let line = null
  while (!line) line = caseOf(one(kits), names[made % names.length])
  console.log(line)
}
