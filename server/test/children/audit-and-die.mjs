// Audits once, and kills itself (SIGKILL) at an effect, which is a transaction of its store or a file of evidence: before it or after it.
// node audit-and-die.mjs <servers> <publisher's key in hex> <folder> <effect> <before or after>

import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { Audit } from '../../dist/audit/audit.js'
import { openLmdb } from '../../dist/storage/lmdb.js'

const [servers, key, folder, fatal, when] = process.argv.slice(2)
let effects = 0

async function effect(work) {
  const isFatal = ++effects === Number(fatal)
  if (isFatal && when === 'before') process.kill(process.pid, 'SIGKILL')
  const result = await work()
  if (isFatal) process.kill(process.pid, 'SIGKILL')
  return result
}

const rename = fs.rename
fs.rename = (...names) => effect(() => rename(...names))
syncBuiltinESMExports()
const storage = await openLmdb(folder)
const transact = storage.transact.bind(storage)
storage.transact = (...transaction) => effect(() => transact(...transaction))
const audit = await Audit.open({ servers: servers.split(','), publisherKey: Buffer.from(key, 'hex'), storage, folder })
await audit.look()
