// A worker thread that runs passes: answers each descriptor with itself.

import { parentPort, workerData } from 'node:worker_threads'
import { passRunner } from '@keyhush/wasm/worker'

const runPass = passRunner(workerData)
parentPort.on('message', descriptor => {
  runPass(descriptor)
  parentPort.postMessage(descriptor)
})
