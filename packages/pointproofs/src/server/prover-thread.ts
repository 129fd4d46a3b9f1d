// A thread that proves partitions while a dataset is built, or folds edits into openings while they are served. It does one task at a
// time.

import { parentPort, workerData } from 'node:worker_threads'
import type { Shape } from '../api.js'
import { loadProving } from './module.js'

/** The data that a thread starts with. */
export interface ProverData {
  /** of a transcript that the main thread has verified */
  readonly setup: Uint8Array
}

export type ProverTask =
  | {
      readonly shape: Shape
      readonly q: number
      /** M·ℓ bytes */
      readonly partition: Uint8Array
    }
  | {
      /** of a row */
      readonly openings: Uint8Array
      readonly edits: Uint8Array
    }

const { setup } = workerData as ProverData
const any = (await loadProving()).prover(setup, { partitions: 1, partitionRecords: 1, recordBytes: 1 })

function proved({ shape, q, partition }: Extract<ProverTask, { q: number }>): Uint8Array {
  const prover = any.shaped(shape.partitions, shape.partitionRecords, shape.recordBytes)
  try {
    return prover.prove(q, partition)
  } finally {
    prover.free()
  }
}

parentPort!.on('message', (task: ProverTask) => {
  const made = 'q' in task ? proved(task) : any.fold(task.openings, task.edits)
  parentPort!.postMessage(made, [made.buffer as ArrayBuffer])
})
