// A thread that does one task at a time. While a dataset is built, it proves partitions. While one is served, it proves answers, or folds
// edits into openings.

import { parentPort, workerData } from 'node:worker_threads'
import type { Shape } from '../api.js'
import { loadProving, type PointproofsProver } from './module.js'

/** The data that a thread starts with. */
export interface ProverData {
  /** of a transcript that the main thread has verified */
  readonly setup: Uint8Array
}

/** An answer's parts, as `proveEdited` takes them. */
export interface AnswerTask {
  readonly shape: Shape
  readonly manifestHash: Uint8Array
  readonly header: Uint8Array
  readonly offsets: Uint16Array
  readonly records: Uint8Array
  readonly openings: Uint8Array
  readonly entries: Uint32Array
  readonly edits: Uint8Array
}

export type ProverTask =
  | AnswerTask
  | {
      /** makes the tables for answers */
      readonly warm: true
    }
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

function shaped(
  { partitions, partitionRecords, recordBytes }: Shape,
  work: (prover: PointproofsProver) => Uint8Array,
): Uint8Array {
  const prover = any.shaped(partitions, partitionRecords, recordBytes)
  try {
    return work(prover)
  } finally {
    prover.free()
  }
}

function done(task: ProverTask): Uint8Array {
  if ('warm' in task) {
    any.warm()
    return new Uint8Array()
  }
  if ('q' in task) return shaped(task.shape, prover => prover.prove(task.q, task.partition))
  if (!('offsets' in task)) return any.fold(task.openings, task.edits)
  const { shape, manifestHash, header, offsets, records, openings, entries, edits } = task
  return shaped(shape, prover =>
    prover.proveEdited(shape.partitions, manifestHash, header, offsets, records, openings, entries, edits),
  )
}

parentPort!.on('message', (task: ProverTask) => {
  const made = done(task)
  parentPort!.postMessage(made, [made.buffer as ArrayBuffer])
})
