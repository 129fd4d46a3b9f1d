// BLAKE3 with the contexts of docs/protocol.md, Hashes.

import { blake3 as hash } from '@noble/hashes/blake3.js'

const utf8 = (text: string) => new TextEncoder().encode(text)

const FINGERPRINT = 'keyhush 2026-11 key fingerprint v1'
const LEAF = 'keyhush 2026-11 merkle leaf v1'
const NODE = 'keyhush 2026-11 merkle node v1'

/** Bytes of a digest. */
export const DIGEST_BYTES = 32
/** Bytes of a fingerprint. */
export const FINGERPRINT_BYTES = 16

export function blake3(bytes: Uint8Array): Uint8Array {
  return hash(bytes)
}

/** BLAKE3 of bytes that come in parts. */
export function hasher(): { update(bytes: Uint8Array): unknown; digest(): Uint8Array } {
  return hash.create({})
}

export function fingerprint(key: Uint8Array): Uint8Array {
  return hash(key, { context: utf8(FINGERPRINT), dkLen: FINGERPRINT_BYTES })
}

/** A hash with a key that is derived from a context when it is first needed. */
function keyed(context: string): (bytes: Uint8Array) => Uint8Array {
  let key: Uint8Array | undefined
  return bytes => {
    key ??= hash(new Uint8Array(), { context: utf8(context) })
    return hash(bytes, { key })
  }
}

export const leaf = /* @__PURE__ */ keyed(LEAF)
export const node = /* @__PURE__ */ keyed(NODE)
