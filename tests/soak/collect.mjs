// Loaded into a server before its own code, with --expose-gc: on a message from its parent it collects garbage and replies with
// the bytes in use. (Threads load it as well, and have no channel to the parent.)

import { setImmediate as turn } from 'node:timers/promises'

process.on('message', async () => {
  globalThis.gc()
  await turn() // for what is done when something was collected
  globalThis.gc()
  process.send(process.memoryUsage().heapUsed)
})
