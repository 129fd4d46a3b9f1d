// A batch's parts: what each shard gets of a batch, and what it makes of that. A coordinator is a publisher to its shards, with the operator's
// own key.

import {
  BATCH_SIGNATURE_HEADER,
  type Batch,
  type BatchUse,
  decodeBatch,
  decodeManifest,
  encodeBatch,
  encodeBatchSignature,
  equalBytes,
  type Manifest,
  parseEpochStatus,
  toHex,
} from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import type { KnownManifest } from '../base/known-manifest.js'
import { Pace } from '../base/pace.js'
import { Refusal } from '../base/refusal.js'
import { type Operations, readOperations } from '../database/operations.js'
import { RENEWAL, signatureOf } from '../publisher/batches.js'
import type { KeyPair } from '../publisher/files.js'
import { TIMEOUT_MILLISECONDS } from '../publisher/server.js'
import { type Fabric, manifestCall } from './fabric.js'

/** The shards of a generation, and how they are asked. */
export type ShardSet = Pick<Fabric, 'shards' | 'ask'>

/** What signs what they are sent. */
export interface Shards {
  readonly core: Core
  readonly fabric: ShardSet
  readonly key: KeyPair
}

/** A shard's lines of a batch. */
export interface ShardPart {
  readonly operations: Uint8Array
  /** their numbers in the batch */
  readonly lines: readonly number[]
  /** the last that adds; 0: none does */
  readonly lastAdd: number
}

/** What a shard has made of its part. */
export interface Made {
  readonly known: KnownManifest
  readonly changes: number
}

const WHICH = 'leave out the one whose hash is at the end of no `-manifest-` name in the record'
const DEADLINE_MILLISECONDS = 120_000
/** for a check: a publisher gets the reply of a coordinator that waits for a shard so long */
const CHECK_MILLISECONDS = TIMEOUT_MILLISECONDS / 2
const MOST_REPLY_BYTES = 4096
const LF = 0x0a
const ADD = 1

/** Each shard's own lines, unchanged; without any, a renewal. `read`: the batch's operations. */
export async function cut(
  core: Core,
  { directorySeed }: Manifest,
  { operations: text }: Batch,
  read: Operations,
  shards: number,
): Promise<ShardPart[]> {
  const owners = core.shardsOf(read.fingerprints, directorySeed, shards)
  const pace = new Pace()
  const each = async (visit: (owner: number, line: number, start: number, end: number) => void) => {
    for (let line = 0, start = 0; line < owners.length; line++) {
      const end = text.indexOf(LF, start) + 1
      visit(owners[line]!, line + 1, start, end)
      start = end
      if (pace.isOver) await pace.yield()
    }
  }
  const found = Array.from({ length: shards }, () => ({ bytes: 0, lines: [] as number[], lastAdd: 0 }))
  await each((owner, line, start, end) => {
    const part = found[owner]!
    part.bytes += end - start
    part.lines.push(line)
    if (read.kinds[line - 1] === ADD) part.lastAdd = line
  })
  const operations = found.map(({ bytes }) => new Uint8Array(bytes))
  const filled = new Float64Array(shards)
  await each((owner, _line, start, end) => {
    operations[owner]!.set(text.subarray(start, end), filled[owner])
    filled[owner]! += end - start
  })
  return found.map(({ lines, lastAdd }, i) => {
    return lines.length === 0
      ? { operations: RENEWAL, lines: [1], lastAdd }
      : { operations: operations[i]!, lines, lastAdd }
  })
}

/** The batch that a shard gets: the same from every process. */
export function partOn({ blake3 }: Core, { bytes, manifest }: KnownManifest, batch: Batch, { operations }: ShardPart) {
  const { databaseId, generation } = manifest
  return encodeBatch({ ...batch, databaseId, generation, previousManifest: blake3(bytes), operations })
}

/** What a shard's writer replies to a part. An expiry is the coordinator's to check. Throws a Refusal. */
export async function sendPart(
  { core, fabric, key }: Shards,
  shard: number,
  body: Uint8Array,
  use: BatchUse,
): Promise<unknown> {
  const header = encodeBatchSignature(signatureOf(core, body, key, use))
  const reply = await fabric.ask(shard, {
    ...{ path: `/v1/${use === 'check' ? 'checks' : 'epochs'}?late=1`, method: 'POST', body },
    ...{ headers: { [BATCH_SIGNATURE_HEADER]: header }, most: MOST_REPLY_BYTES },
    ...{ deadline: use === 'check' ? CHECK_MILLISECONDS : DEADLINE_MILLISECONDS, only: 'writer' },
  })
  return JSON.parse(Buffer.from(reply).toString())
}

/** Has a shard make the next epoch of a part. Throws unless that follows the manifest that the part names. */
export async function publishPart(shards: Shards, shard: number, body: Uint8Array): Promise<Made> {
  const { generation, epoch, previousManifest } = decodeBatch(body)
  const { manifest, changes } = parseEpochStatus(await sendPart(shards, shard, body, 'batch'))
  const known = await manifestAt(shards, shard, { generation, epoch })
  const isMade = toHex(shards.core.blake3(known.bytes)) === manifest && known.manifest.epoch === epoch
  if (isMade && equalBytes(known.manifest.previousManifest, previousManifest)) return { known, changes }
  throw new Error(`expected epoch ${epoch} on the manifest before, got another; build the shard anew`)
}

/**
 * Sends shards the batches that they lack, in order: shards that were built anew, or whose stores were put back. `made`: the hash of the batch
 * that made an epoch; undefined: of so long ago that the head's manifest alone says whether it was the right one. Throws a Refusal or
 * WireError.
 */
export async function catchUp(
  shards: Shards,
  bodies: readonly Uint8Array[],
  made: (epoch: number) => Promise<string | undefined>,
): Promise<void> {
  const { core, fabric } = shards
  const batches = bodies.map(body => ({ ...decodeBatch(body), hash: toHex(core.blake3(body)) }))
  for (const { hash, ...batch } of batches.sort((a, b) => a.epoch - b.epoch)) {
    const known = await made(batch.epoch)
    if (hash !== (known ?? hash)) continue
    const newest = await Promise.all(Array.from({ length: fabric.shards }, (_, shard) => manifestAt(shards, shard)))
    const lacks = (shard: number) => newest[shard]!.manifest.epoch === batch.epoch - 1
    if (!newest.some((_, shard) => lacks(shard))) continue
    const isOne = batches.every(other => other.epoch !== batch.epoch || other.hash === hash)
    const { manifest } = newest[0]!
    const read = await readOperations(core, manifest, batch)
    if ('headroom' in read) continue // shards are built with what it made
    const parts = await cut(core, manifest, batch, read, fabric.shards)
    if (known === undefined && !isOne)
      throw new Refusal('batch_conflict', `expected the batch that made epoch ${batch.epoch}, got two; ${WHICH}`)
    await Promise.all(
      parts.map((part, i) => (lacks(i) ? publishPart(shards, i, partOn(core, newest[i]!, batch, part)) : undefined)),
    )
  }
}

async function manifestAt(
  { fabric }: Shards,
  shard: number,
  of?: Parameters<typeof manifestCall>[0],
): Promise<KnownManifest> {
  const bytes = await fabric.ask(shard, { ...manifestCall(of), only: 'writer' })
  return { bytes, manifest: decodeManifest(bytes) }
}
