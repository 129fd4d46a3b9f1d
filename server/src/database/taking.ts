// Epochs that others have made are taken up. Everything that a manifest says of its records and directory is computed anew, from the
// records of the epoch before and the update list.

import { setImmediate as nextTask } from 'node:timers/promises'
import {
  decodeRecord,
  equalBytes,
  FINGERPRINT_BYTES,
  isZero,
  type Manifest,
  updateEntries,
  WireError,
  writeRecord,
} from '@keyhush/protocol'
import type { CoreError, ServerDirectoryHandle } from '@keyhush/wasm'
import { OperatorError } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import { blocksOf, directoryFields, hasFields } from '../dataset/blocks.js'
import { storedFingerprints } from '../dataset/places.js'
import { namesMarks, slotMarksOf } from '../dataset/slot-marks.js'
import { emptyDatabase, layoutOf, recordBytesView } from '../dataset/view.js'
import { Generation } from './generation.js'
import { wrongPartition } from './loading.js'
import { type NextEpoch, nextOfList } from './next-epoch.js'

/** A manifest says something else than its list makes of the epoch before. Memory is of no use afterwards. */
export class MisfitError extends OperatorError {
  override readonly name = 'MisfitError'
}

/** What the core throws for a list; and where memory does not suffice, which is nobody's lie. */
const OF_THE_LIST: ReadonlySet<unknown> = new Set(['update', 'refused'])
const OF_MEMORY: ReadonlySet<unknown> = new Set(['layout', 'directory'])

/**
 * Writes the next epoch, to which the list leads. `begun` is called when the newest epoch becomes the core's previous one.
 * Throws MisfitError.
 */
export async function takeList(
  generation: Generation,
  { manifest }: KnownManifest,
  list: Uint8Array,
  begun: () => void,
): Promise<NextEpoch['made']> {
  const { core, blocks } = generation
  return await fitting(async () => {
    const after = layoutOf(core, manifest)
    const drafted = await nextOfList(generation, list, after).finally(() => after.free())
    await drafted.write(begun)
    const { handle, bytes = new Uint8Array(), hash } = drafted.made.directory ?? {}
    checkPartitions(generation, manifest)
    if (!hasFields(manifest, directoryFields(core, handle, bytes, blocks, hash))) {
      throw new MisfitError(`expected the directory of epoch ${manifest.epoch}, got another`)
    }
    await checkMarks(generation, manifest)
    return drafted.made
  })
}

/**
 * Checks that each entry of a list is what it says, for clients that follow one key believe it: a key is added once, edited where it
 * is, deleted with its value. Call it before `takeList`, and then `checkAdded` with what this returns. Throws MisfitError.
 */
export async function checkEntries(
  { core, database, directory }: Generation,
  before: Manifest,
  list: Uint8Array,
): Promise<ReadonlyMap<number, Uint8Array>> {
  const { records, recordBytes, keyed } = before
  const stored = () => recordBytesView(core, database, 0, records * recordBytes)
  const [all, added, deleted] = [stored(), new Map<number, Uint8Array>(), new Set<number>()]
  return await fitting(() => {
    for (const { index, kind, delta } of updateEntries(list, recordBytes)) {
      const old = all.subarray(index * recordBytes, (index + 1) * recordBytes) // of no bytes behind the last record
      const record = delta.map((byte, i) => byte ^ (old[i] ?? 0))
      decodeRecord(before, record)
      const isNew = keyed ? isZero(old) : old.length === 0
      const isGone = keyed && isZero(record)
      const isSame = !keyed || isZero(delta, 0, FINGERPRINT_BYTES)
      const fits = { add: isNew && !isGone, edit: !isNew && !isGone && isSame, delete: !isNew && isGone }
      if (!fits[kind]) throw new MisfitError(`expected an update list that says what it does, got a false ${kind}`)
      if (keyed && kind === 'add') added.set(index, record.subarray(0, FINGERPRINT_BYTES))
      if (kind === 'delete') deleted.add(index)
    }
    const places = placesOf(added, records, directory)
    const now = stored() // the core's memory may have moved
    for (const [i, print] of [...added.values()].entries()) {
      const place = places[i]!
      const there = now.subarray(place * recordBytes, place * recordBytes + FINGERPRINT_BYTES)
      if (equalBytes(there, print) && !deleted.has(place))
        throw new MisfitError('expected an update list that adds new keys, got one that was there')
    }
    return added
  })
}

/** Checks that the directory leads to the keys that a list has added. Throws MisfitError. */
export function checkAdded(added: ReadonlyMap<number, Uint8Array>, records: number, { directory }: Generation): void {
  const places = placesOf(added, records, directory)
  if ([...added.keys()].every((index, i) => places[i] === index)) return
  throw new MisfitError('expected an update list that adds each key once, got one twice')
}

/**
 * The next generation, which has the same records in another layout. It needs no download: what a layout makes of records is fixed.
 * Throws MisfitError.
 */
export async function takeGeneration(
  { core, database: old }: Generation,
  before: Manifest,
  { manifest }: KnownManifest,
): Promise<{ readonly generation: Generation; readonly directoryBytes: Uint8Array }> {
  return await fitting(async () => {
    const { records, recordBytes, keyed } = before
    const prints = keyed ? storedFingerprints(core, old, before) : new Uint8Array()
    const printOf = (i: number) => prints.subarray(FINGERPRINT_BYTES * i, FINGERPRINT_BYTES * (i + 1))
    const kept = Array.from({ length: records }, (_, i) => i).filter(i => !keyed || !isZero(printOf(i)))
    if (kept.length !== manifest.records || keyed !== manifest.keyed)
      throw new MisfitError(`expected a generation of ${kept.length} records, got ${manifest.records}`)
    const database = emptyDatabase(core, manifest)
    let directory: ServerDirectoryHandle | undefined
    try {
      const keys = Buffer.concat(kept.map(printOf))
      directory = keyed ? core.buildDirectory(keys, manifest.partitions * manifest.partitionRecords) : undefined
      const places = directory?.indices(keys, manifest.records)
      const from = recordBytesView(core, old, 0, records * recordBytes)
      const into = recordBytesView(core, database, 0, manifest.records * manifest.recordBytes)
      for (const [i, index] of kept.entries()) {
        const { fingerprint, value } = decodeRecord(
          before,
          from.subarray(index * recordBytes, (index + 1) * recordBytes),
        )
        writeRecord(manifest, into, (places?.[i] ?? index) * manifest.recordBytes, fingerprint, value)
      }
      for (let q = 0; q < manifest.partitions; q++) {
        database.commit(q)
        await nextTask()
      }
      const blocks = blocksOf(manifest, directory)
      const generation = new Generation(core, { database, directory, blocks })
      const directoryBytes = directory?.encode() ?? new Uint8Array()
      checkPartitions(generation, manifest)
      if (!hasFields(manifest, directoryFields(core, directory, directoryBytes, blocks))) {
        throw new MisfitError(`expected the directory of generation ${manifest.generation}, got another`)
      }
      if (before.slotMarksHash !== undefined) generation.slotMarks = await slotMarksOf(generation)
      await checkMarks(generation, manifest)
      return { generation, directoryBytes }
    } catch (error) {
      directory?.free()
      database.free()
      throw error
    }
  })
}

function checkPartitions({ database }: Generation, manifest: Manifest): void {
  for (let q = 0; q < manifest.partitions; q++) {
    const wrong = wrongPartition(database, manifest, q)
    if (wrong !== undefined) throw new MisfitError(wrong)
  }
}

async function checkMarks({ core, slotMarks }: Generation, manifest: Manifest): Promise<void> {
  if (await namesMarks(core, manifest, slotMarks)) return
  throw new MisfitError(`expected the slot marks of epoch ${manifest.epoch}, got others`)
}

/** Where a directory leads from these fingerprints. */
function placesOf(
  added: ReadonlyMap<number, Uint8Array>,
  records: number,
  directory: ServerDirectoryHandle | undefined,
): Uint32Array {
  return directory?.indices(Buffer.concat([...added.values()]), records) ?? new Uint32Array()
}

async function fitting<T>(work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const { code, message } = error as CoreError
    if (error instanceof WireError || OF_THE_LIST.has(code)) throw new MisfitError(message)
    throw OF_MEMORY.has(code) ? new OperatorError(`expected memory for the next epoch, got none: ${message}`) : error
  }
}
