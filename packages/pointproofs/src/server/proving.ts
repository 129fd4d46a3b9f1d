// Proves a database (docs/protocol.md, Pointproofs): computes its row lists and the openings of all records, in threads, in about four
// milliseconds a record and core. Finished partitions are kept in a folder beside the dataset, so an interrupted build goes on. The
// result follows from the records and the transcript alone.

import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { equalBytes, type Manifest, POINTPROOFS_ROW_RECORDS, rowListsBytes, toHex } from '@keyhush/protocol'
import { BuildError } from '@keyhush/server/proofs'
import type { Core } from '@keyhush/wasm'
import type { Shape } from '../api.js'
import { OPENING_BYTES } from './module.js'
import { NativeProver } from './native-prover.js'
import { ProverThread } from './prover-threads.js'
import { type Setup, setupOf } from './setup.js'
import { readReceipt } from './transcript.js'

/** Rows that make a thread worth it: it first makes tables, which takes as long as some rows. */
const ROWS_A_THREAD = 4

/** The files of a ceremony's transcript and of this operator's receipt. */
export interface CeremonyFiles {
  readonly ceremony: string
  /** default: the transcript's name and `.receipt` */
  readonly receipt?: string | undefined
}

/** Row lists, one behind the other, and openings of a partition. */
export interface ProvedDatabase {
  readonly setup: Setup
  readonly rowLists: Uint8Array
  /** 96 bytes a record */
  openings(q: number): Promise<Uint8Array>
  /** removes the folder that was kept for an interrupted build */
  forget(): Promise<void>
}

/**
 * Reads a transcript with this operator's contribution. Throws CeremonyError if it is not valid, and BuildError without the
 * contribution: all others together could then know how to forge.
 */
export async function readSetup(core: Core, { ceremony: file, receipt }: CeremonyFiles): Promise<Setup> {
  const receiptFile = receipt ?? `${file}.receipt`
  const mine = await readReceipt(receiptFile)
  const setup = await setupOf(core, file, await readFile(file))
  if (!setup.ceremony.has(mine)) {
    const reason = `the contribution of ${receiptFile} is not in it: whoever made it could forge; do not use it`
    throw new BuildError(reason, file)
  }
  return setup
}

/** The shape of a layout: a record of proofs is a block. */
export function shapeOf(
  layout: Pick<Manifest, 'partitions' | 'partitionRecords' | 'blockRecords' | 'recordBytes'>,
): Shape {
  const { partitions, partitionRecords, blockRecords, recordBytes } = layout
  return { partitions, partitionRecords: partitionRecords / blockRecords, recordBytes: recordBytes * blockRecords }
}

/**
 * Proves all partitions. `partition` gives a copy. `out`: the dataset, which names the folder beside it. `command`: proves in place of
 * our own threads.
 */
export async function proveDatabase(
  core: Core,
  setup: Setup,
  shape: Shape,
  from: { readonly contentHash: (q: number) => Uint8Array; readonly partition: (q: number) => Uint8Array },
  { out, command }: { readonly out: string; readonly command?: string | undefined },
  onProgress: (done: number) => void,
): Promise<ProvedDatabase> {
  const folder = `${resolve(out)}.proving`
  await mkdir(folder, { recursive: true })
  const { partitions, partitionRecords } = shape
  const rowBytes = rowListsBytes({ ...shape, blockRecords: 1 }) / partitions
  const bytes = rowBytes + partitionRecords * OPENING_BYTES
  // The name follows from everything that the result depends on.
  const pathOf = (q: number) => {
    const numbers = Buffer.from([q, partitions, partitionRecords, shape.recordBytes].join())
    return join(folder, toHex(core.blake3(Buffer.concat([setup.fields.keyHash, from.contentHash(q), numbers]))))
  }
  const rowLists = new Uint8Array(partitions * rowBytes)
  const missing: number[] = []
  for (let q = 0; q < partitions; q++) {
    const kept = await readSealed(core, pathOf(q), bytes)
    if (kept === undefined) missing.push(q)
    else rowLists.set(kept.subarray(0, rowBytes), q * rowBytes)
  }
  let done = partitions - missing.length
  onProgress(done)
  const prove = async () => {
    let thread: ProverThread | NativeProver | undefined
    try {
      for (let q = missing.shift(); q !== undefined; q = missing.shift()) {
        thread ??=
          command === undefined
            ? ProverThread.take(setup.proving)
            : new NativeProver(command, setup.proving, shape, bytes)
        const proved = await thread.do({ shape, q, partition: from.partition(q) })
        rowLists.set(proved.subarray(0, rowBytes), q * rowBytes)
        await writeSealed(core, pathOf(q), proved)
        onProgress(++done)
      }
      thread?.giveBack()
    } catch (error) {
      missing.length = 0
      await thread?.end()
      throw error
    }
  }
  const rows = missing.length * Math.ceil(partitionRecords / POINTPROOFS_ROW_RECORDS)
  const threads = Math.min(availableParallelism(), Math.ceil(rows / ROWS_A_THREAD))
  const results = await Promise.allSettled(Array.from({ length: threads }, prove))
  for (const result of results) if (result.status === 'rejected') throw result.reason
  return {
    setup,
    rowLists,
    async openings(q) {
      const proved = await readSealed(core, pathOf(q), bytes)
      if (proved === undefined)
        throw new BuildError('expected the partitions proved so far, got changed files; build again', folder)
      return proved.subarray(rowBytes)
    },
    forget: () => rm(folder, { recursive: true, force: true }),
  }
}

const HASH_BYTES = 32

/** The bytes behind their BLAKE3; undefined if the file is missing or not whole. */
export async function readSealed(core: Core, path: string, bytes: number): Promise<Uint8Array | undefined> {
  const sealed = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return new Uint8Array()
    throw error
  })
  if (sealed.length !== HASH_BYTES + bytes) return undefined
  const content = sealed.subarray(HASH_BYTES)
  return equalBytes(core.blake3(content), sealed.subarray(0, HASH_BYTES)) ? content : undefined
}

export function sealed(core: Core, content: Uint8Array): Uint8Array {
  return Buffer.concat([core.blake3(content), content])
}

async function writeSealed(core: Core, path: string, content: Uint8Array): Promise<void> {
  const part = `${path}.${process.pid}.part`
  await writeFile(part, sealed(core, content))
  await rename(part, path)
}
