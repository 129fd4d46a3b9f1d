// What is derived from a key and its evaluation (docs/protocol/confidential.md, Keys and values).

import { CONFIDENTIAL_NAME, confidentialId, equalBytes, FINGERPRINT_BYTES, toHex } from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import { concatBytes } from '@noble/hashes/utils.js'

const FRESH_BYTES = 8
const LENGTH_BYTES = 2
const SALT_BYTES = 12

/** How much longer a sealed value is than the longest value. */
export const SEALED_BYTES = SALT_BYTES + FRESH_BYTES + LENGTH_BYTES

const derived = (what: string, bytes: Uint8Array, dkLen = 32) =>
  blake3(bytes, { context: new TextEncoder().encode(`keyhush 2026-12 confidential ${what} v1`), dkLen })

/** What is evaluated for a key: 32 bytes, whatever its length. */
export const inputOf = (key: Uint8Array): Uint8Array => derived('input', key)

/** The key in the list, of an evaluation of 64 bytes: `~` and 64 hexadecimal characters as bytes. */
export const listKeyOf = (evaluated: Uint8Array): Uint8Array =>
  new TextEncoder().encode(`~${toHex(derived('key', evaluated))}`)

/** The name that the database id is derived from: it names the evaluation key, so that no list under another key passes for this one. */
export const databaseNameOf = (evaluationKey: string, isPriced: boolean): string =>
  `${CONFIDENTIAL_NAME}${isPriced ? 'priced-' : ''}${evaluationKey}`

/** The database id: 16 bytes. */
export function databaseIdOf(evaluationKey: string, isPriced: boolean): Uint8Array {
  const context = new TextEncoder().encode('keyhush 2026-11 database id v1')
  const hash = blake3(new TextEncoder().encode(databaseNameOf(evaluationKey, isPriced)), { context })
  return confidentialId(hash.subarray(0, FINGERPRINT_BYTES))
}

/** `bytes` random bytes for one call, which do not repeat with the random source alone: they depend on all inputs too. */
export const hedged = (random: Uint8Array, inputs: Uint8Array, bytes: number): Uint8Array => {
  const both = concatBytes(random, inputs)
  const secret = derived('blinds', both, bytes)
  both.fill(0)
  return secret
}

/**
 * The value in a sealed one. Undefined: it was not sealed under this evaluation. Its salt is computed again, so that nobody bends a value
 * without the evaluation.
 */
export function opened(evaluated: Uint8Array, sealed: Uint8Array): Uint8Array<ArrayBuffer> | undefined {
  if (sealed.length < SEALED_BYTES) return undefined
  const key = derived('value', evaluated)
  try {
    const [salt, text] = [sealed.subarray(0, SALT_BYTES), sealed.slice(SALT_BYTES)]
    const mask = blake3(salt, { key, dkLen: text.length })
    for (let i = 0; i < text.length; i++) text[i]! ^= mask[i]!
    const salted = concatBytes(new TextEncoder().encode('salt'), text)
    const isRight = equalBytes(blake3(salted, { key }).subarray(0, SALT_BYTES), salt)
    const length = text[FRESH_BYTES]! | (text[FRESH_BYTES + 1]! << 8)
    const start = FRESH_BYTES + LENGTH_BYTES
    return isRight && start + length <= text.length ? new Uint8Array(text.subarray(start, start + length)) : undefined
  } finally {
    key.fill(0)
  }
}

const TAG_BYTES = 16

/** What is evaluated to unlock a priced value of a key: salt and input, so that a purchase opens one version. Undefined: it is too short. */
export function unlockingOf(key: Uint8Array, sealed: Uint8Array): Uint8Array | undefined {
  if (sealed.length < SALT_BYTES + LENGTH_BYTES + TAG_BYTES) return undefined
  return concatBytes(sealed.subarray(0, SALT_BYTES), inputOf(key))
}

/** The value in a priced one. Undefined: this is not its evaluation, as the tag shows. */
export function unlocked(evaluated: Uint8Array, sealed: Uint8Array): Uint8Array<ArrayBuffer> | undefined {
  const key = derived('priced', evaluated)
  try {
    const [salt, text] = [sealed.subarray(0, SALT_BYTES), sealed.slice(SALT_BYTES, -TAG_BYTES)]
    const mask = blake3(salt, { key, dkLen: text.length })
    for (let i = 0; i < text.length; i++) text[i]! ^= mask[i]!
    const tag = blake3(concatBytes(new TextEncoder().encode('tag'), text), { key }).subarray(0, TAG_BYTES)
    const end = LENGTH_BYTES + (text[0]! | (text[1]! << 8))
    const isRight = equalBytes(tag, sealed.subarray(-TAG_BYTES)) && end <= text.length
    return isRight ? new Uint8Array(text.subarray(LENGTH_BYTES, end)) : undefined
  } finally {
    key.fill(0)
  }
}
