// A thread that proves partitions while a dataset is built: it is sent one at a time, and sends what it made of it back.

import { parentPort, workerData } from 'node:worker_threads'
import type { Shape } from '@pirouette/wasm/pointproofs'
import { loadProving } from '@pirouette/wasm/prover'

/** What a thread is started with. */
export interface ProverData {
  /** of a transcript that the thread which starts this one has verified */
  readonly setup: Uint8Array
  readonly shape: Shape
}

export interface ProverTask {
  readonly q: number
  /** M·ℓ bytes */
  readonly partition: Uint8Array
}

const { setup, shape } = workerData as ProverData
const prover = (await loadProving()).prover(setup, shape)
parentPort!.on('message', ({ q, partition }: ProverTask) => {
  const proved = prover.prove(q, partition)
  parentPort!.postMessage(proved, [proved.buffer as ArrayBuffer])
})
