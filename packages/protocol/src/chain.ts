// What leads from an epoch to the next one (docs/protocol.md, Manifest and Updates). An entry of its own: most apps only look up.

import { checkInteger, copyOf, equalBytes, viewOf } from './bytes.js'
import { POINTPROOFS_ENTRIES, UPDATE_ENTRY_HEADER_BYTES, UPDATE_LIST_HEADER_BYTES } from './constants.js'
import { malformed } from './errors.js'
import { type Fields, namesOf, type Values } from './fields.js'
import { CONSTANT, decodeFirst, exactly, HEADER, type Manifest, POINTPROOFS, withFlags } from './manifest.js'
import { hasRows } from './proofs.js'

/** Offsets in the header of an update list. */
const AT = { recordBytes: 28, entries: 32 } as const

/**
 * The manifests of a chain, one after the other as `/v1/manifests` gives them. Throws WireError if one is malformed or
 * does not continue the one before it: consecutive epochs, and within a generation everything that never changes. The
 * previous manifests' hashes are the caller's to check. More than `most` are not decoded.
 */
export function decodeManifests(
  bytes: Uint8Array,
  most = Number.POSITIVE_INFINITY,
): { readonly manifest: Manifest; readonly bytes: Uint8Array }[] {
  const chain: { readonly manifest: Manifest; readonly bytes: Uint8Array }[] = []
  for (let at = 0; at < bytes.length; ) {
    if (chain.length === most) malformed('chain', `at most ${most} manifests`, 'more')
    const { manifest, length } = decodeFirst(bytes.subarray(at))
    const previous = chain.at(-1)
    if (previous !== undefined) checkFollows(previous.manifest, manifest)
    chain.push({ manifest, bytes: copyOf(bytes, at, at + length) })
    at += length
  }
  return chain
}

/** Refuses a manifest that cannot be the next one after `previous` (docs/protocol.md, Manifest). */
export function checkFollows(previous: Manifest, next: Manifest): void {
  checkInteger('epoch', next.epoch, ...exactly(previous.epoch + 1))
  if (!equalBytes(previous.databaseId, next.databaseId)) malformed('database id', 'that of the epoch before', 'another')
  if (next.generation !== previous.generation) {
    checkInteger('generation', next.generation, ...exactly(previous.generation + 1))
    checkInteger('update list length', next.updateListBytes, ...exactly(0))
    checkBase(undefined, next)
    return
  }
  checkNext(HEADER, withFlags(previous), withFlags(next))
  if (next.updateListBytes === 0) malformed('update list length', 'a list within a generation', 0)
  if (previous.shards !== undefined) {
    checkInteger('partitions', next.partitions, ...exactly(previous.partitions))
    checkInteger('shards', next.shards!, ...exactly(previous.shards))
  }
  checkBase(previous, next)
  if (previous.pointproofs === undefined || next.pointproofs === undefined) return
  checkNext(POINTPROOFS, { ...previous.pointproofs, ...CONSTANT }, { ...next.pointproofs, ...CONSTANT })
  // What a pending request carries, a later one may.
  checkInteger('queries of a request in suite 6', mostProved(next), ...exactly(mostProved(previous)))
}

/** An epoch is its own base, or keeps that of the epoch before in its generation. The patch then grows by what has changed. */
function checkBase(previous: Manifest | undefined, { epoch, oneServer, updateListBytes, ...next }: Manifest): void {
  if (oneServer === undefined || oneServer.baseEpoch === epoch) return
  const { hintHash, baseEpoch, baseRecords, patchBytes } = previous?.oneServer ?? {}
  checkInteger('base epoch', oneServer.baseEpoch, ...exactly(baseEpoch ?? epoch))
  checkInteger('base records', oneServer.baseRecords, ...exactly(baseRecords!))
  if (!equalBytes(hintHash!, oneServer.hintHash)) malformed('hint hash', 'that of the same base before', 'another')
  const isExact = !hasRows(next) // of row lists nothing says how many entries stand before them
  const least = patchBytes! + (isExact ? updateListBytes - UPDATE_LIST_HEADER_BYTES : 0)
  checkInteger('patch length', oneServer.patchBytes, least, isExact ? least : Number.MAX_SAFE_INTEGER)
}

/** Most queries of a request in suite 6. */
function mostProved({ maxQueries, partitions }: Manifest): number {
  return Math.min(maxQueries, Math.max(1, Math.floor(POINTPROOFS_ENTRIES / partitions)))
}

/** Throws WireError for what an epoch may not change of the one before it in its generation. */
function checkNext<F extends Fields>(fields: F, previous: Values<F>, values: Values<F>): void {
  for (const key of namesOf(fields)) {
    const { name, next } = fields[key]!
    const [before, after]: unknown[] = [previous[key], values[key]]
    if (next === 'same' && typeof before === 'object') {
      if (!equalBytes(before as Uint8Array, after as Uint8Array)) malformed(name, 'those of the epoch before', 'others')
    } else if (next === 'same' ? before !== after : next !== undefined && Number(after) < Number(before)) {
      malformed(name, next === 'same' ? `${before} as before` : `at least ${before}`, `${after}`)
    }
  }
}

/**
 * The two parts of a list of suite 6: the list as in other suites, and the commitments of touched rows, 48 bytes each. If it is
 * malformed, all of it becomes the list, and the core refuses that.
 */
export function splitUpdateList(bytes: Uint8Array): { readonly list: Uint8Array; readonly rows: Uint8Array } {
  if (bytes.length < UPDATE_LIST_HEADER_BYTES) return { list: bytes, rows: bytes.subarray(bytes.length) }
  const view = viewOf(bytes)
  const [recordBytes, entries] = [view.getUint32(AT.recordBytes, true), view.getUint32(AT.entries, true)]
  const end = UPDATE_LIST_HEADER_BYTES + entries * (UPDATE_ENTRY_HEADER_BYTES + recordBytes)
  return { list: bytes.subarray(0, end), rows: bytes.subarray(end) }
}
