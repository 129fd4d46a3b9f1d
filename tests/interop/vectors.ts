// What tests of the shared vectors share; docs/protocol.md, Test vectors, says what they mean. Bytes are lower-case hex.
// rust-core/core/tests/vectors.rs makes core.json and updates.json, wire.test.ts wire.json, packages/confidential's confidential.json.

import { readFileSync } from 'node:fs'
import { blake3 } from '@noble/hashes/blake3.js'
import { utf8ToBytes } from '@noble/hashes/utils.js'

/** An operation of any kind. */
export interface OperationVector {
  readonly op: string
  readonly key?: string
  readonly index?: number
  readonly value?: string
}

/** For who may have written the file just before. Others import it, and have its types. */
export function readVectors<T>(name: string): T {
  return JSON.parse(readFileSync(vectorsFile(name), 'utf8')) as T
}

export const vectorsFile = (name: string) => new URL(`vectors/${name}.json`, import.meta.url)

/** Bytes that anyone can make again: BLAKE3's output stream for a label. */
export function stream(label: string, bytes: number): Uint8Array {
  return blake3(utf8ToBytes(label), { dkLen: bytes })
}

/** Bytes in hex, with those from `at` replaced. */
export function put(bytes: string, at: number, by: string): string {
  return bytes.slice(0, 2 * at) + by + bytes.slice(2 * at + by.length)
}
