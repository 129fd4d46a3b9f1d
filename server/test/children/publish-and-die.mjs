// Publishes a batch into a store and kills itself, as kill -9 does, at a point of the transaction that is to keep it.
// node publish-and-die.mjs <store> <batch body> <point>

import { readFileSync } from 'node:fs'
import { LivingDatabase, openLmdb } from '../../dist/index.js'

const [dir, batch, point] = process.argv.slice(2)
const die = () => process.kill(process.pid, 'SIGKILL')

const storage = openLmdb(dir)
const living = await LivingDatabase.open(storage)
const transact = storage.transact.bind(storage)
storage.transact = async work => {
  if (point === 'before the transaction') die()
  const done = transact(transaction => {
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
if (point === 'before its epoch is told') die()
await new Promise(resolve => setTimeout(resolve, 1000))
