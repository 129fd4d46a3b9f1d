// `/v1/info`: which database and epochs one server answers, and what it offers. Clients compare the manifests' hashes between servers.

import { viewOf } from './bytes.js'
import { DATABASE_ID_BYTES, FORMAT, HASH_BYTES } from './constants.js'
import { WireError } from './errors.js'

/** One epoch a server can answer. */
export interface EpochInfo {
  readonly generation: number
  readonly epoch: number
  /** the manifest's hash, 64 lower-case hex digits */
  readonly manifest: string
}

export interface Info {
  readonly format: number
  readonly software: string
  /** the database's id in hex */
  readonly database: string
  /** newest last */
  readonly epochs: readonly EpochInfo[]
  readonly offers: {
    readonly proofs: readonly string[]
    /** update lists: the database can change */
    readonly updates: boolean
    readonly push: boolean
    /** downloads: partitions, directories and update lists, which every mode but `instant` needs */
    readonly blobs: boolean
    /** a rollback fence; missing: false */
    readonly fence: boolean
    /** instant lookups; missing: false */
    readonly instant: boolean
    /** queries of suite 3, for lookups with one server; missing: false */
    readonly single: boolean
    /** lookups of suite 9, with one server that keeps no state; missing: false */
    readonly oneServer: boolean
    /** epochs before the newest whose manifests and update lists are kept; missing: 0 */
    readonly history: number
  }
  readonly signatures: readonly SignatureInfo[]
}

/** A publisher's signature over the manifest of an epoch. */
export interface SignatureInfo extends ManifestSignature {
  /** the hash in hex of the proof that a log has the epoch (docs/protocol/witnesses.md); missing: there is none yet */
  readonly proof?: string
}

interface ManifestSignature {
  /** 32 bytes in hex */
  readonly publicKey: string
  readonly generation: number
  readonly epoch: number
  /** 64 bytes in hex */
  readonly signature: string
}

/** What is signed begins with these bytes; the manifest follows (docs/protocol.md, Signatures). */
const SIGNATURE_CONTEXT = 'keyhush 2026-11 manifest signature v1'

/** The bytes that a publisher signs for a manifest. */
export function signedBytes(manifest: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(SIGNATURE_CONTEXT.length + manifest.length)
  for (let i = 0; i < SIGNATURE_CONTEXT.length; i++) bytes[i] = SIGNATURE_CONTEXT.charCodeAt(i)
  bytes.set(manifest, SIGNATURE_CONTEXT.length)
  return bytes
}

/** A signature as `POST /v1/signatures` takes it. */
export interface PostedSignature extends ManifestSignature {
  /** the text of the proof */
  readonly proof?: string
  /** the publisher's over the proof's hash, 64 bytes in hex; there if the proof is */
  readonly proofSignature?: string
}

const PROOF_CONTEXT = 'keyhush 2026-11 proof signature v1'

/** Most bytes of a proof. */
export const LONGEST_PROOF_BYTES = 32 * 1024

/** The bytes that a publisher signs for a proof. `hash`: BLAKE3 of the proof. */
export function signedProofBytes(databaseId: Uint8Array, epoch: number, hash: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(PROOF_CONTEXT.length + DATABASE_ID_BYTES + 4 + HASH_BYTES)
  for (let i = 0; i < PROOF_CONTEXT.length; i++) bytes[i] = PROOF_CONTEXT.charCodeAt(i)
  bytes.set(databaseId, PROOF_CONTEXT.length)
  viewOf(bytes).setUint32(PROOF_CONTEXT.length + DATABASE_ID_BYTES, epoch, true)
  bytes.set(hash, bytes.length - HASH_BYTES)
  return bytes
}

/** Checks parsed JSON. Throws WireError. The caller verifies the signatures, and how long the proof is. */
export function parsePostedSignature(json: unknown): PostedSignature {
  const { proof, proofSignature } = object('signature', json)
  if (proof === undefined && proofSignature === undefined) return manifestSignature(json)
  return {
    ...manifestSignature(json),
    proof: string('signature proof', proof),
    proofSignature: hex('signature proofSignature', proofSignature, SIGNATURE_BYTES),
  }
}

/** Checks parsed JSON. Throws WireError. The caller verifies the signature. */
export function parseSignature(json: unknown): SignatureInfo {
  const { proof } = object('signature', json)
  const signature = manifestSignature(json)
  return proof === undefined ? signature : { ...signature, proof: hex('signature proof', proof, HASH_BYTES) }
}

function manifestSignature(json: unknown): ManifestSignature {
  const signature = object('signature', json)
  return {
    publicKey: hex('signature publicKey', signature['publicKey'], PUBLIC_KEY_BYTES),
    generation: positive('signature generation', signature['generation']),
    epoch: positive('signature epoch', signature['epoch']),
    signature: hex('signature', signature['signature'], SIGNATURE_BYTES),
  }
}

/** What became of an epoch: the reply to a batch, and `/v1/epochs/<E>`. */
export interface EpochStatus extends EpochInfo {
  /** the batch's hash in hex; empty if no batch made this epoch */
  readonly batch: string
  /** records that changed */
  readonly changes: number
}

/** Checks parsed JSON. Throws WireError. */
export function parseEpochStatus(json: unknown): EpochStatus {
  const status = object('epoch status', json)
  const batch = string('epoch status batch', status['batch'])
  return {
    ...parseEpoch(json),
    batch: batch === '' ? '' : hex('epoch status batch', batch, HASH_BYTES),
    changes: count('epoch status changes', status['changes']),
  }
}

const PUBLIC_KEY_BYTES = 32
const SIGNATURE_BYTES = 64

/** Checks parsed JSON. Unknown members are ignored, so that servers may offer more. Throws WireError. */
export function parseInfo(json: unknown): Info {
  const info = object('info', json)
  if (info['format'] !== FORMAT) throw new WireError('version', `info format: expected ${FORMAT}, got another`)
  const offers = object('info offers', info['offers'])
  return {
    format: FORMAT,
    software: string('info software', info['software']),
    database: hex('info database', info['database'], DATABASE_ID_BYTES),
    epochs: array('info epochs', info['epochs']).map(parseEpoch),
    offers: {
      proofs: array('info offers.proofs', offers['proofs']).map(value => string('info offers.proofs', value)),
      updates: offers['updates'] === true,
      push: offers['push'] === true,
      blobs: offers['blobs'] === true,
      fence: offers['fence'] === true,
      instant: offers['instant'] === true,
      single: offers['single'] === true,
      oneServer: offers['oneServer'] === true,
      history: offers['history'] === undefined ? 0 : count('info offers.history', offers['history']),
    },
    signatures: array('info signatures', info['signatures']).map(parseSignature),
  }
}

function parseEpoch(json: unknown): EpochInfo {
  const epoch = object('info epoch', json)
  return {
    generation: positive('info epoch generation', epoch['generation']),
    epoch: positive('info epoch number', epoch['epoch']),
    manifest: hex('info epoch manifest', epoch['manifest'], HASH_BYTES),
  }
}

function wrong(field: string, expected: string): never {
  throw new WireError('malformed', `${field}: expected ${expected}, got another value`)
}

function object(field: string, json: unknown): Record<string, unknown> {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) wrong(field, 'an object')
  return json as Record<string, unknown>
}

function array(field: string, json: unknown): unknown[] {
  if (!Array.isArray(json)) wrong(field, 'an array')
  return json
}

function string(field: string, json: unknown): string {
  if (typeof json !== 'string') wrong(field, 'a string')
  return json
}

function positive(field: string, json: unknown): number {
  if (typeof json !== 'number' || !Number.isInteger(json) || json < 1 || json > 0xffff_ffff) {
    wrong(field, 'an integer from 1 to 2^32 - 1')
  }
  return json
}

function count(field: string, json: unknown): number {
  if (typeof json !== 'number' || !Number.isInteger(json) || json < 0 || json > 0xffff_ffff) {
    wrong(field, 'an integer from 0 to 2^32 - 1')
  }
  return json
}

function hex(field: string, json: unknown, bytes: number): string {
  const digits = string(field, json)
  if (digits.length !== 2 * bytes || !/^[0-9a-f]*$/.test(digits)) wrong(field, `${2 * bytes} lower-case hex digits`)
  return digits
}
