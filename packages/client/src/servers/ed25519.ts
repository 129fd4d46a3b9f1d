// Verifies an Ed25519 signature (docs/protocol.md, Signatures): by the platform if it can, else in JavaScript, which takes a phone ten
// times as long. Both give the same verdict.

import { mayBePublicKey, mayBeSignature } from '@keyhush/protocol'
import type { Subtle } from '../platform/environment.js'
import { loadPart } from '../platform/parts.js'

/** `subtle`: the platform's cryptography; undefined: there is none, as in pages over plain http. Throws UnsupportedError if a file is missing. */
export async function verifies(
  signature: Uint8Array,
  message: Uint8Array,
  publicKey: Uint8Array,
  subtle: Subtle | undefined,
): Promise<boolean> {
  if (!mayBePublicKey(publicKey) || !mayBeSignature(signature)) return false
  return (
    (subtle && (await platformVerdict(signature, message, publicKey, subtle))) ??
    (await loadPart(loadCurves)).verifies(signature, message, publicKey)
  )
}

/** undefined: the platform has no Ed25519, or refuses this key. */
async function platformVerdict(
  signature: Uint8Array,
  message: Uint8Array,
  publicKey: Uint8Array,
  subtle: Subtle,
): Promise<boolean | undefined> {
  try {
    const key = await subtle.importKey('raw', publicKey.slice(), 'Ed25519', false, ['verify'])
    return await subtle.verify('Ed25519', key, signature.slice(), message.slice())
  } catch {
    return undefined
  }
}

/** 10 kB that most maps do without. */
function loadCurves() {
  return import('./curves.js')
}
