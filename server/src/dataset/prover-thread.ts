// A thread that proves partitions while a dataset is built, or folds edits into the openings of rows while they are served: it
// is sent one at a time, and sends what it made of it back.

import { parentPort, workerData } from 'node:worker_threads'
import type { Shape } from '@pirouette/wasm/pointproofs'
import { loadProving } from '@pirouette/wasm/prover'

/** What a thread is started with. */
export interface ProverData {
  /** of a transcript that the thread which starts this one has verified */
  readonly setup: Uint8Array
  readonly shape: Shape
}

export type ProverTask =
  | {
      readonly q: number
      /** M·ℓ bytes */
      readonly partition: Uint8Array
    }
  | {
      /** of a row */
      readonly openings: Uint8Array
      readonly edits: Uint8Array
    }

const { setup, shape } = workerData as ProverData
const prover = (await loadProving()).prover(setup, shape)
parentPort!.on('message', (task: ProverTask) => {
  const proved = 'q' in task ? prover.prove(task.q, task.partition) : prover.fold(task.openings, task.edits)
  parentPort!.postMessage(proved, [proved.buffer as ArrayBuffer])
})
