// A worker thread: the core's kernels on the core's memory. It is told where a pass lies, and says when it has gone all
// steps of it. What it reads and writes is in memory alone.

import { parentPort, workerData } from 'node:worker_threads'
import { type KernelsOptions, startKernels } from '@pirouette/wasm/worker'

const kernels = startKernels(workerData as KernelsOptions)
parentPort!.on('message', (descriptor: number) => {
  kernels.runInstantPass(descriptor)
  parentPort!.postMessage(descriptor)
})
