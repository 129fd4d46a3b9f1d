// Keys as bytes. The SDK looks up exactly what the app passes: it does not trim, fold or normalise.

import { MAX_KEY_BYTES } from '@keyhush/protocol'
import { UsageError } from '../base/errors.js'

/** A key: text, of which the exact UTF-8 counts, or bytes. It has 1 to 4096 bytes. */
export type Key = string | Uint8Array

/** Your own normalisation of keys. It is called with text keys only. */
export type Normalize = (key: string) => string

const LONE_SURROGATE = /\p{Surrogate}/u

/** A key's bytes, in memory of their own: the caller may go on to change its array. Throws UsageError. */
export function keyBytes(key: Key, normalize?: Normalize): Uint8Array {
  const bytes = typeof key === 'string' ? encodeText(normalize ? normalize(key) : key) : copyBytes(key)
  if (bytes.length < 1 || bytes.length > MAX_KEY_BYTES) {
    throw new UsageError(`key: expected 1 to ${MAX_KEY_BYTES} bytes, got ${bytes.length}; check the key`)
  }
  return bytes
}

/** The keys of a call in memory of their own, and how many queries it makes. Throws UsageError. */
export function wantedOf(
  call: string,
  keys: Iterable<Key>,
  atLeast: number | undefined,
  normalize: Normalize | undefined,
): readonly [readonly Uint8Array[], number] {
  // A string is iterable, but is meant as one key.
  if (typeof keys === 'string' || typeof keys?.[Symbol.iterator] !== 'function') {
    throw new UsageError(`${call}: expected a list of keys, got another value; pass [key]`)
  }
  const wanted = Array.from(keys, key => keyBytes(key, normalize))
  const padTo = atLeast ?? wanted.length
  // More queries than padTo would show that there are more keys.
  if (Number.isInteger(padTo) && padTo >= wanted.length) return [wanted, padTo]
  throw new UsageError(
    `${call}: expected padTo to be an integer from the number of keys, got another; pass a larger one`,
  )
}

function encodeText(text: string): Uint8Array {
  if (typeof text !== 'string') throw new UsageError('normalize: expected text, got another value; return the key')
  // UTF-8 has no form for one; encoders write U+FFFD, and different keys would become one.
  if (LONE_SURROGATE.test(text))
    throw new UsageError('key: expected well-formed text, got a lone surrogate; pass bytes, or text.toWellFormed()')
  return new TextEncoder().encode(text)
}

function copyBytes(key: Uint8Array): Uint8Array {
  // By tag, not instanceof: a Uint8Array of another realm (an iframe, a vm) is as good.
  if (Object.prototype.toString.call(key) !== '[object Uint8Array]') {
    throw new UsageError('key: expected a string or a Uint8Array, got neither; convert it')
  }
  return Uint8Array.from(key)
}
