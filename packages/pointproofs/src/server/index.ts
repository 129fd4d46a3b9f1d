// For servers with databases that have Pointproofs, and for `keyhush ceremony`.

import { setImmediate as nextTask } from 'node:timers/promises'
import type { Manifest } from '@keyhush/protocol'
import type {
  DatasetProofs,
  ProofsPackage,
  Provable,
  ProvedDatabase,
  ProvingOptions,
  RowProofs,
  StoredProofs,
} from '@keyhush/server/proofs'
import type { Core } from '@keyhush/wasm'
import * as commands from './ceremony.js'
import { ProofsLoader, writeProofs } from './proofs.js'
import { proveDatabase, readSetup, shapeOf } from './proving.js'
import { resumeProofs } from './stored.js'

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
  await nextTask() // shows the progress before this thread is busy for seconds
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
 * Holds what a store has to the records of its newest epoch.
 * @throws {DatasetError} if it is not what proves them
 * @example
 * const proofs = await resume(core, { location: 'a.store', database, newest, ...stored })
 */
export async function resume(core: Core, stored: StoredProofs): Promise<RowProofs> {
  return await resumeProofs(core, stored)
}
