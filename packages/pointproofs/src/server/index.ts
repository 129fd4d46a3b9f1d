// For servers with databases that have Pointproofs, and for `keyhush ceremony`.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Manifest, partitionRows } from '@keyhush/protocol'
import type {
  DatasetProofs,
  ProofsPackage,
  Provable,
  ProvedDatabase,
  ProvingOptions,
  RowOpenings,
  StoredProofs,
} from '@keyhush/server/proofs'
import type { Core } from '@keyhush/wasm'
import * as commands from './ceremony.js'
import { Openings, recordsOf, zeroOpenings } from './openings.js'
import { commits, ProofsLoader, provedWith, writeProofs } from './proofs.js'
import { proveDatabase, readSetup, shapeOf } from './proving.js'

/** The commands `keyhush ceremony`. */
export const ceremony: ProofsPackage['ceremony'] = commands

/**
 * Proves a database that is being built.
 * @throws {BuildError} if this operator's contribution is not in the ceremony
 * @throws {CeremonyError} if its transcript does not hold
 * @example
 * const { fields } = await prove(core, database, { out: 'dataset', ceremony: 'ceremony.pirt' })
 */
export async function prove(core: Core, database: Provable, options: ProvingOptions): Promise<ProvedDatabase> {
  const { onProgress } = options
  const { partitions: total } = database.layout
  onProgress?.({ stage: 'checking the ceremony', done: 0, total: 1 })
  await nextTurn() // shows the progress before this thread is busy for seconds
  const setup = await readSetup(core, options)
  const progress = (done: number) => onProgress?.({ stage: 'proving', done, total })
  const proved = await proveDatabase(core, setup, shapeOf(database.layout), database, options, progress)
  return {
    fields: { ...setup.fields, rowsHash: core.blake3(proved.rowLists) },
    write: (writeBlob, writeProof) => writeProofs(core, proved, total, writeBlob, writeProof),
    forget: () => proved.forget(),
  }
}

/**
 * Reads a dataset's transcript, key and row lists. `check` reads the openings.
 * @throws {DatasetError} naming the file that is not what it should be
 * @example
 * const loading = await load(core, 'dataset', manifest)
 */
export async function load(core: Core, dir: string, manifest: Manifest): Promise<DatasetProofs> {
  return await ProofsLoader.begin(core, dir, manifest, manifest.pointproofs!)
}

/**
 * The same for a store, from its transcript.
 * @throws {DatasetError} if the transcript is not that of the manifest
 * @example
 * const loading = await resume(core, manifest, transcript, 'a.store')
 */
export async function resume(
  core: Core,
  manifest: Manifest,
  transcript: Uint8Array,
  location: string,
): Promise<StoredProofs> {
  const proved = await provedWith(core, manifest, transcript, location, location)
  proved.prover.warm()
  return {
    commits: (rowLists, q, partition) => commits(proved, manifest, rowLists, q, partition),
    emptyRows: () =>
      Array.from(
        { length: manifest.partitions * partitionRows(manifest) },
        (_, row): RowOpenings => ({ epoch: 0, bytes: zeroOpenings(recordsOf(manifest, row)) }),
      ),
    finish: (rows, rowLists) => new Openings(proved, manifest, rows, rowLists),
    free: () => proved.prover.free(),
  }
}
