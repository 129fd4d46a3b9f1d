// Signs a checkpoint as an auditor, and kills itself (SIGKILL) before or after the write of it. The signature would be printed.
// node cosign-and-die.mjs <folder> <database id> <log's key> <file of the witness's key> <file of the request> <before or after>

import { readFile } from 'node:fs/promises'
import { LOG_KEY, parseNoteKey } from '@keyhush/protocol/log'
import { Cosigner } from '../../dist/audit/cosigner.js'
import { readKeyFile } from '../../dist/index.js'
import { openLmdb } from '../../dist/storage/lmdb.js'

const [folder, databaseId, line, keyFile, request, when] = process.argv.slice(2)
const storage = await openLmdb(folder)
const cosigner = await Cosigner.open({
  storage,
  databaseId: Buffer.from(databaseId, 'hex'),
  log: parseNoteKey(line, LOG_KEY),
  name: 'auditor.example/w',
  key: await readKeyFile(keyFile),
  look: async () => {},
})
const transact = storage.transact.bind(storage)
storage.transact = async (...transaction) => {
  if (when === 'before') process.kill(process.pid, 'SIGKILL')
  await transact(...transaction)
  process.kill(process.pid, 'SIGKILL')
}
const { text } = await cosigner.answer(await readFile(request, 'utf8'))
process.stdout.write(text)
