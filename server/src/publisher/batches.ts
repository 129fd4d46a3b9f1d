// Batches as a publisher makes them: what is to be done, and the bytes that do it on a manifest.

import {
  type BatchEncoding,
  type BatchSignature,
  type BatchUse,
  decodeBatch,
  encodeBatch,
  signedBatchBytes,
} from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { ed25519 } from '@noble/curves/ed25519.js'
import type { KnownManifest } from '../base/known-manifest.js'
import type { KeyPair } from './files.js'
import type { RecordedBatch } from './record.js'

/** What a batch is to do. */
export interface Wanted {
  readonly does: RecordedBatch['does']
  /** a JSON object a line */
  readonly operations: Uint8Array
  readonly encoding: BatchEncoding
  /** of the epoch that it makes, in seconds since 1970; 0: never */
  readonly expires: number
}

/** The operation that gives the list a new expiry, alone in its batch. */
export const RENEWAL = new TextEncoder().encode('{"op":"renew"}\n')

/** The longest operation that stands alone in its batch. */
const LONGEST_ALONE = 1000

/** What these operations do. The servers refuse malformed ones. */
export function wantedOf(operations: Uint8Array, encoding: BatchEncoding, expires: number): Wanted {
  let op: unknown
  try {
    if (operations.length < LONGEST_ALONE)
      op = (JSON.parse(new TextDecoder().decode(operations)) as { op?: unknown })?.op
  } catch {} // several lines
  return { does: op === 'generation' || op === 'renew' ? op : 'change', operations, encoding, expires }
}

/** A new generation with room for so many records more. */
export function generationOf(headroom: number, expires: number): Wanted {
  const operations = new TextEncoder().encode(`${lineOf(headroom)}\n`)
  return { does: 'generation', operations, encoding: 'utf8', expires }
}

/** The operation of that. */
export function lineOf(headroom: number): string {
  return JSON.stringify({ op: 'generation', headroom })
}

/** Most records that a batch adds. */
export function addsOf({ operations }: Wanted): number {
  return new TextDecoder().decode(operations).match(/"op"\s*:\s*"add"/g)?.length ?? 0
}

/** What makes two batches the same work, whatever they are made on and whenever they expire: hex. */
export function digestOf({ blake3 }: Core, { encoding, operations }: Wanted): string {
  return Buffer.from(blake3(Buffer.concat([Buffer.from(`${encoding}\n`), operations]))).toString('hex')
}

/** The bytes of the batch on a manifest. */
export function bodyOn({ blake3 }: Core, { manifest, bytes }: KnownManifest, wanted: Wanted): Uint8Array<ArrayBuffer> {
  const { databaseId, generation, epoch } = manifest
  const { operations, encoding, expires } = wanted
  const previousManifest = blake3(bytes)
  return encodeBatch({ databaseId, generation, epoch: epoch + 1, expires, previousManifest, operations, encoding })
}

/** What signs a batch, or the request to check it. */
export function signatureOf(
  { blake3 }: Core,
  body: Uint8Array,
  { publicKey, secretKey }: KeyPair,
  use: BatchUse,
): BatchSignature {
  const { databaseId, previousManifest } = decodeBatch(body)
  const batchHash = blake3(body)
  const signature = ed25519.sign(signedBatchBytes({ databaseId, previousManifest, batchHash }, use), secretKey)
  return { publicKey, previousManifest, batchHash, signature }
}
