// A worker thread that runs passes. It answers each descriptor by sending it back.

import { parentPort, workerData } from 'node:worker_threads'
import { passRunner } from '@keyhush/wasm/worker'

const runPass = passRunner(workerData)
parentPort.on('message', descriptor => {
  runPass(descriptor)
  parentPort.postMessage(descriptor)
})
