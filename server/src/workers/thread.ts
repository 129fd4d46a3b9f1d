// A worker thread: computes instant passes in the core's memory. It has a lower priority than the main thread, which everybody waits for.
// Linux has priorities by thread; other systems have one for the process.

import { getPriority, setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { type PassOptions, passRunner } from '@keyhush/wasm/worker'

/** A third of what others get who want the same processor: enough for them to come first, and to get on beside them. */
const NICENESS = 5
if (process.platform === 'linux' && getPriority() < NICENESS) setPriority(NICENESS)

const runPass = passRunner(workerData as PassOptions)
parentPort!.on('message', (descriptor: number) => {
  runPass(descriptor)
  parentPort!.postMessage(descriptor)
})
