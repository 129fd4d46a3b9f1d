// Runs `keyhush split …`, and kills itself (SIGKILL) before its nth change of the disk: node split-and-die.mjs <n> <arguments>. Prints the
// number of changes if it comes to its end.

import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

const [fatal, ...args] = process.argv.slice(2)
let changes = 0
for (const name of ['mkdirSync', 'openSync', 'writeSync', 'renameSync', 'rmSync']) {
  const change = fs[name]
  fs[name] = (...of) => {
    if (++changes === Number(fatal)) process.kill(process.pid, 'SIGKILL')
    return change(...of)
  }
}
syncBuiltinESMExports()
const { split } = await import('../../dist/commands/split.js')
const [shape, out, ...files] = args
await split(files, { shape, out })
process.stdout.write(`changes: ${changes}\n`)
