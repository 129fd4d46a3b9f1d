// docs/protocol.md, Hashes: one function a row of the table.

import { blake3 } from '@noble/hashes/blake3.js'
import { concatBytes, utf8ToBytes } from '@noble/hashes/utils.js'

const context = (name: string) => utf8ToBytes(`keyhush 2026-11 ${name} v1`)
const deriveKey = (name: string, material: Uint8Array) => blake3(material, { context: context(name) })
const derive = (name: string) => deriveKey(name, new Uint8Array())

const LEAF_KEY = derive('merkle leaf')
const NODE_KEY = derive('merkle node')

/** Plain BLAKE3: content hashes, manifest hashes, the names of blobs. */
export const hash = (bytes: Uint8Array) => blake3(bytes)

export const leaf = (record: Uint8Array) => blake3(record, { key: LEAF_KEY })

export const node = (left: Uint8Array, right: Uint8Array) => blake3(concatBytes(left, right), { key: NODE_KEY })

export const fingerprint = (key: Uint8Array) => deriveKey('key fingerprint', key).slice(0, 16)

/** `fingerprints` in ascending byte order. */
export const directorySeed = (fingerprints: readonly Uint8Array[]) =>
  deriveKey('directory seed', concatBytes(...fingerprints)).slice(0, 16)

/** What a lookup is drawn from: 32 bytes of entropy, the hint's secret, its version (u64) and the indices (u32 each). */
export const queryEntropy = (material: Uint8Array) => deriveKey('query entropy', material)

/** `form`: the pending lookup as it is stored, before its name. */
export const pendingName = (secret: Uint8Array, form: Uint8Array) =>
  blake3(form, { key: deriveKey('batch name', secret) })

/** `seed` is the operator's name for the database, or its first manifest with a zero id. */
export const databaseId = (seed: Uint8Array) => deriveKey('database id', seed).slice(0, 16)
