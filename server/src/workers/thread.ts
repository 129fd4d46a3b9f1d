// A worker thread: computes instant passes in the core's memory.

import { parentPort, workerData } from 'node:worker_threads'
import { type PassOptions, passRunner } from '@keyhush/wasm/worker'
import { lowerPriority } from '../base/priority.js'

lowerPriority()

const runPass = passRunner(workerData as PassOptions)
parentPort!.on('message', (descriptor: number) => {
  runPass(descriptor)
  parentPort!.postMessage(descriptor)
})
