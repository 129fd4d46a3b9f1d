// Opens the store of a database that changes, or creates it from a dataset.

import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { decodeManifest, equalBytes, hasOneServer, type Manifest, proofsOf } from '@keyhush/protocol'
import { BuildError, DatasetError, InUseError, readingFrom } from '../base/errors.js'
import { UpdatableDatabase, type UpdatableOptions } from '../database/updatable.js'
import { manifestPath } from '../dataset/directory.js'
import { loadDataset } from '../dataset/load.js'
import { openStorage, storageKind } from '../storage/kinds.js'
import type { Storage } from '../storage/storage.js'
import { withProgress } from './progress.js'

const PATIENCE_SECONDS = 60
const PAUSE_MILLISECONDS = 200

/**
 * `dataset`: to create an empty store from; `name`: under which the operator serves it. Throws BuildError if an empty store has no
 * dataset, DatasetError if the store holds another database.
 */
export async function openStore(
  dir: string,
  dataset: string | undefined,
  options: UpdatableOptions = {},
  name?: string,
): Promise<UpdatableDatabase> {
  const storage = await openStorageOf(dir, options.replica)
  try {
    return await openIn(storage, dataset, options, name)
  } catch (error) {
    await storage.close()
    throw error
  }
}

export async function openStorageOf(dir: string, replica = false): Promise<Storage> {
  if (replica && !storageKind(dir).isShared)
    throw new BuildError('--replica: expected --store postgres://…, got a store for one process', dir)
  return await onceFree(() => openStorage(dir, replica ? 'replica' : 'writer'))
}

/** Waits for a process that is draining and still has the store. */
export async function onceFree(open: () => Promise<Storage>): Promise<Storage> {
  const end = performance.now() + 1000 * PATIENCE_SECONDS
  for (let isTold = false; ; isTold = true) {
    try {
      return await open()
    } catch (error) {
      if (!(error instanceof InUseError) || performance.now() > end) throw error
      if (!isTold) process.stderr.write(`keyhush: ${error.message}; waiting up to ${PATIENCE_SECONDS} s for its end\n`)
      await sleep(PAUSE_MILLISECONDS)
    }
  }
}

async function openIn(
  storage: Storage,
  dataset: string | undefined,
  options: UpdatableOptions,
  name: string | undefined,
): Promise<UpdatableDatabase> {
  if (!(await UpdatableDatabase.existsIn(storage))) {
    if (options.replica)
      throw new BuildError('the store is empty; first start the process without --replica', storage.location)
    if (dataset === undefined) {
      const argument = name === undefined ? 'DIR' : `${name}=DIR`
      throw new BuildError(`the store is empty; give --dataset ${argument} to create it from`, storage.location)
    }
    const loaded = await withProgress(onProgress => loadDataset(dataset, onProgress))
    await UpdatableDatabase.create(storage, loaded)
    loaded.close()
  }
  const updatable = await withProgress(onProgress => UpdatableDatabase.open(storage, { ...options, onProgress }))
  if (dataset !== undefined) await checkDataset(dataset, storage.location, updatable.newest.manifest)
  return updatable
}

/** What the data and an option of `build` decide, and no batch changes. */
const DECIDED: readonly (readonly [option: string, (manifest: Manifest) => string])[] = [
  ['--format', ({ keyed }) => `records ${keyed ? 'with' : 'without'} keys`],
  ['--max-value-bytes', ({ valueBytes, variable }) => `values of ${variable ? 'up to ' : ''}${valueBytes} bytes`],
  ['--pack', ({ blockRecords }) => `${blockRecords} records a block`],
  ['--one-server', manifest => `${hasOneServer(manifest) ? 'a' : 'no'} public hint for lookups with one server`],
  ['--filter', ({ slotMarksHash }) => `${slotMarksHash === undefined ? 'no' : 'its'} slot marks`],
  ['--proofs', manifest => `proofs ${proofsOf(manifest).join(' and ')}`],
]

/** Throws DatasetError, which says what differs, if the store was begun from another dataset. */
async function checkDataset(dataset: string, location: string, stored: Manifest): Promise<void> {
  const file = manifestPath(dataset)
  const given = await readingFrom(file, async () => decodeManifest(await readFile(file)))
  const has = ({ slotMarksHash, ...of }: Manifest) => `${hasOneServer(of)} ${slotMarksHash !== undefined}`
  if (equalBytes(given.databaseId, stored.databaseId) && has(given) === has(stored)) return
  const difference =
    differingOptions(given, stored) ??
    'the data file has other contents (or --value-encoding, --headroom or --name differs)'
  throw new DatasetError(
    location,
    `it holds another database than ${dataset}: ${difference}. To continue, give the dataset that the store was created from, and publish the changes; to start again, name another store or delete this one`,
  )
}

/** The options of `build` that a dataset and a store differ by; undefined: their data differs, or they are equal. */
export function differingOptions(given: Manifest, stored: Manifest): string | undefined {
  const differing = DECIDED.filter(([, said]) => said(given) !== said(stored))
  if (differing.length === 0) return undefined
  return differing.map(([option, said]) => `it has ${said(stored)}, the dataset ${said(given)} (${option})`).join('; ')
}
