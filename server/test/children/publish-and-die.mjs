// Publishes a batch into a store, and kills itself (SIGKILL) at a point of a transaction that keeps it, by default the first:
// node publish-and-die.mjs <store> <batch body> <point> [<transaction>]

import { readFileSync } from 'node:fs'
// Not all of index.js, which would take most of the time this is run for.
import { UpdatableDatabase } from '../../dist/database/updatable.js'
import { openLmdb } from '../../dist/storage/lmdb.js'

const [dir, batch, at, fatal = '1'] = process.argv.slice(2)
const die = () => process.kill(process.pid, 'SIGKILL')
let transactions = 0

const storage = await openLmdb(dir)
const living = await UpdatableDatabase.open(storage)
const transact = storage.transact.bind(storage)
storage.transact = async (keys, work) => {
  const point = ++transactions === Number(fatal) ? at : 'none'
  if (point === 'before the transaction') die()
  const done = transact(keys, transaction => {
    if (point === 'as it begins') die()
    const result = work(transaction)
    if (point === 'before its writes') die()
    // Writes follow when this returns, in the same turn; the commit is in a thread of its own.
    if (point === 'after its writes') process.nextTick(die)
    if (point === 'while it commits') setImmediate(die)
    if (point.startsWith('after ')) setTimeout(die, Number(point.split(' ')[1]))
    return result
  })
  const result = await done
  if (point === 'once it is done') die()
  return result
}
await living.publish(readFileSync(batch))
if (at === 'before its epoch is told') die()
// What goes on after a batch has its transactions too.
await new Promise(resolve => setTimeout(resolve, 10_000))
