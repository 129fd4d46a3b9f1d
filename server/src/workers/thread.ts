// A worker thread: the core's kernels on the core's memory. It is told which of them is to run and where its task lies, and
// says when it is done. What it reads and writes is in memory alone.

import { parentPort, workerData } from 'node:worker_threads'
import { type KernelsOptions, startKernels } from '@pirouette/wasm/worker'
import type { Task } from './threads.js'

const kernels = startKernels(workerData as KernelsOptions)
parentPort!.on('message', ({ kernel, descriptor }: Task) => {
  kernels[kernel](descriptor)
  parentPort!.postMessage(descriptor)
})
