// `/v1/info`: what one server offers. It is not compared between servers, so nothing that decides the meaning of an
// answer may be taken from it.

import { FORMAT, HASH_BYTES } from './constants.js'
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
  /** newest last */
  readonly epochs: readonly EpochInfo[]
  readonly offers: {
    readonly proofs: readonly string[]
    readonly updates: readonly string[]
    readonly push: boolean
  }
  /** uninterpreted in format 1 */
  readonly signatures: readonly unknown[]
}

const HASH_DIGITS = new RegExp(`^[0-9a-f]{${2 * HASH_BYTES}}$`)

/** Checks parsed JSON. Unknown members are ignored, so that servers may offer more. Throws WireError. */
export function parseInfo(json: unknown): Info {
  const info = object('info', json)
  if (info['format'] !== FORMAT) throw new WireError('version', `info format: expected ${FORMAT}`)
  const offers = object('info offers', info['offers'])
  return {
    format: FORMAT,
    software: string('info software', info['software']),
    epochs: array('info epochs', info['epochs']).map(parseEpoch),
    offers: {
      proofs: array('info offers.proofs', offers['proofs']).map(value => string('info offers.proofs', value)),
      updates: array('info offers.updates', offers['updates']).map(value => string('info offers.updates', value)),
      push: offers['push'] === true,
    },
    signatures: array('info signatures', info['signatures']),
  }
}

function parseEpoch(json: unknown): EpochInfo {
  const epoch = object('info epoch', json)
  const manifest = string('info epoch manifest', epoch['manifest'])
  if (!HASH_DIGITS.test(manifest)) wrong('info epoch manifest', '64 lower-case hex digits')
  return {
    generation: positive('info epoch generation', epoch['generation']),
    epoch: positive('info epoch number', epoch['epoch']),
    manifest,
  }
}

function wrong(field: string, expected: string): never {
  throw new WireError('malformed', `${field}: expected ${expected}`)
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
