// Clients without a network: the WebAssembly core as the SDK drives it, and the reference, which can have any of the defects
// that a client must not have.

import { loadCore } from '@keyhush/wasm'
import type { Layout } from '../interop/reference/layout.js'
import { permutations, Words } from '../interop/reference/random.js'
import { applySwaps, type Defects, query } from '../interop/reference/scheme.js'
import { stream } from '../interop/vectors.js'
import { commitDatabase, makeHint } from '../support/wasm.js'

/** The two vectors of a lookup, as the servers see them. */
export interface Attempt {
  readonly retrieve: ArrayLike<number>
  readonly refresh: ArrayLike<number>
}

export interface Client {
  /** Looks up one record. The answers of the first `lost` attempts are lost. */
  lookUp(index: number, lost: number): Attempt[]
  close(): void
}

/** Begins a client with a new hint. All its randomness follows from `seed`. */
export type Subject = (seed: string) => Client

/** N = 256, Q = M = 16; the record at index i is the byte i. */
export const layout: Layout = { records: 256, recordBytes: 1, partitions: 16, partitionRecords: 16 }

export async function wasmSubject(): Promise<Subject> {
  const core = await loadCore()
  const records = Uint8Array.from({ length: layout.records }, (_, i) => i)
  const database = commitDatabase(core, layout, records)
  return seed => {
    const client = makeHint(core, layout, database, stream(seed, 32))
    let lookups = 0
    return {
      lookUp(index, lost) {
        client.query(Uint32Array.of(index), stream(`${seed}, lookup ${lookups++}`, 32))
        const attempts = Array.from({ length: lost + 1 }, () => ({
          retrieve: client.retrieveVectors(),
          refresh: client.refreshVectors(),
        }))
        const { retrieve, refresh } = attempts.at(-1)!
        if (!client.verify(0, database.handle.answer(retrieve))) throw new Error('an honest answer was refused')
        if (!client.verify(1, database.handle.answer(refresh))) throw new Error('an honest answer was refused')
        const [record] = client.recon()
        if (record !== index) throw new Error(`expected the record ${index}, got ${record}`)
        return attempts.map(({ retrieve, refresh }) => ({ retrieve: offsets(retrieve), refresh: offsets(refresh) }))
      },
      close: () => client.free(),
    }
  }
}

export interface SubjectDefects extends Defects {
  /** every client draws the same numbers */
  readonly constantSeed?: boolean
  /** an attempt after a lost answer is a new query for the same index */
  readonly freshRetry?: boolean
}

export function referenceSubject(defects: SubjectDefects = {}): Subject {
  return seed => {
    const entropy = stream(defects.constantSeed ? 'any seed' : seed, 64)
    const sigma = permutations(layout.partitions, layout.partitionRecords, entropy.subarray(0, 32))
    const words = new Words(entropy.subarray(32), 0)
    return {
      lookUp(index, lost) {
        const first = query(layout, sigma, index, words, defects)
        const attempts = [first]
        while (attempts.length <= lost) {
          attempts.push(defects.freshRetry ? query(layout, sigma, index, words, defects) : first)
        }
        applySwaps(sigma, attempts.at(-1)!, defects)
        return attempts
      },
      close() {},
    }
  }
}

function offsets(vectors: Uint8Array): Uint16Array {
  return new Uint16Array(vectors.buffer, vectors.byteOffset, layout.partitions)
}
