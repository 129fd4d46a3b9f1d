// A worker thread that runs kernels: answers each descriptor with itself.

import { parentPort, workerData } from 'node:worker_threads'
import { startKernels } from '@keyhush/wasm/worker'

const kernels = startKernels(workerData)
parentPort.on('message', ({ kernel, descriptor }) => {
  kernels[kernel](descriptor)
  parentPort.postMessage(descriptor)
})
