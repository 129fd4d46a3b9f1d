// A worker thread: instant passes on the core's memory. It is told where a pass lies, and says when it is done. What it reads
// and writes is in memory alone.
//
// It gives way to the thread that answers everything else, which has little to do and is waited for: where the two share a
// processor, that one has it at once. Linux counts priorities by thread; elsewhere they are the whole process's.

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
