// Loaded into a server before its own code, with --expose-gc: asked over the channel to its parent, it tells the bytes that its
// heap holds once all that nothing points at has been collected. (Threads load it as well, and have no such channel.)

import { setImmediate as turn } from 'node:timers/promises'

process.on('message', async () => {
  globalThis.gc()
  await turn() // for what is done when something was collected
  globalThis.gc()
  process.send(process.memoryUsage().heapUsed)
})
