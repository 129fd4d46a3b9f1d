// Databases with Pointproofs, and answers as an independent verifier on @noble/curves sees them.

import { copyFile, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  answerBytes,
  decodeAnswer,
  decodeManifest,
  encodeManifest,
  HEADER_BYTES,
  type Manifest,
  toHex,
} from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import { expect } from 'vitest'
import type { Epochs } from '../../../../server/dist/database/epochs.js'
import { answerQuery } from '../../../../server/dist/http/routes/answer.js'
import { pseudoRandom } from '../../../../server/test/helpers.js'
import { Ceremony, decodeKey, decodeRows, verify } from './reference.js'

/** A server's reply to a query, once it is proved. */
export async function replyTo(epochs: Epochs, query: Uint8Array): Promise<Uint8Array> {
  const { answer } = answerQuery(epochs, query, () => {})
  return answer instanceof Uint8Array ? answer : answer.encode(await answer.unproved.prove())
}

export interface CeremonyFiles {
  readonly transcript: string
  readonly mine: string
  readonly theirs: string
}

/** What two have contributed to, as operators have it: of the reference's, once and for all (ceremony.all.test.ts). */
export async function ceremonyIn(folder: string): Promise<CeremonyFiles> {
  const paths: Record<string, string> = {}
  for (const name of ['transcript', 'mine', 'theirs']) {
    paths[name] = join(folder, name)
    await copyFile(new URL(`../ceremony/${name}`, import.meta.url), paths[name])
  }
  return paths as unknown as CeremonyFiles
}

/** The transcript of this ceremony before the other’s contribution. */
export function earlyTranscript(): Uint8Array {
  const ceremony = new Ceremony(false)
  contributed(ceremony, 'Ada', 1)
  return ceremony.transcript()
}

/** The ceremony of the files that are committed. */
export function heldCeremony(): { transcript: Uint8Array; mine: string; theirs: string } {
  const ceremony = new Ceremony(false)
  const mine = `${contributed(ceremony, 'Ada', 1)}\n`
  const theirs = `${contributed(ceremony, 'Grace', 2)}\n`
  return { transcript: ceremony.transcript(), mine, theirs }
}

/** Contributes; the receipt. */
export function contributed(ceremony: Ceremony, name: string, entropy: number): string {
  ceremony.contribute(name, new Uint8Array(32).fill(entropy))
  return toHex(ceremony.chain)
}

export const manifestOf = async (dataset: string): Promise<Manifest> =>
  decodeManifest(await readFile(join(dataset, 'manifest.bin')))

export type KeyAndRows = Awaited<ReturnType<typeof keyAndRowsOf>>

/** What a client verifies with, from wherever blobs are to be had. */
export async function keyAndRowsOf(
  { pointproofs, partitions, partitionRecords, blockRecords, recordBytes }: Manifest,
  blob: (hash: Uint8Array) => Promise<Uint8Array>,
  key = decodeKeyOnce,
) {
  const shape = {
    partitions,
    partitionRecords: partitionRecords / blockRecords,
    recordBytes: recordBytes * blockRecords,
  }
  const rowLists = await blob(pointproofs!.rowsHash)
  expect(toHex(blake3(rowLists))).toBe(toHex(pointproofs!.rowsHash))
  return { key: key(await blob(pointproofs!.keyHash)), shape, rows: decodeRows(shape, rowLists) }
}

const keys = new Map<string, ReturnType<typeof decodeKey>>()

function decodeKeyOnce(bytes: Uint8Array): ReturnType<typeof decodeKey> {
  const hash = toHex(blake3(bytes))
  const key = keys.get(hash) ?? decodeKey(bytes)
  keys.set(hash, key)
  return key
}

export const keyAndRows = async (dataset: string) =>
  keyAndRowsOf(await manifestOf(dataset), hash => readFile(join(dataset, 'blobs', toHex(hash))))

/** Whether an answer to these offsets is genuine. */
export function isGenuine(
  manifest: Manifest,
  { key, shape, rows }: KeyAndRows,
  answer: Uint8Array,
  offsets: readonly number[],
): boolean {
  const body = decodeAnswer(manifest, offsets.length / manifest.partitions, answer, 'pointproofs')
  return verify(key, rows, shape, {
    manifest: blake3(encodeManifest(manifest)),
    header: answer.slice(0, HEADER_BYTES),
    offsets: [...offsets],
    records: body.slice(0, -48),
    proof: body.slice(-48),
  })
}

/** Genuine, and no longer so once a bit is another. */
export function expectVerified(
  manifest: Manifest,
  known: KeyAndRows,
  answer: Uint8Array,
  offset: number,
  count: number,
): void {
  expect(answer.length).toBe(answerBytes(manifest, count, 'pointproofs'))
  const offsets = Array(count * manifest.partitions).fill(offset)
  expect(isGenuine(manifest, known, answer, offsets)).toBe(true)
  const lie = Uint8Array.from(answer) // a Buffer would be cut without being copied
  lie[HEADER_BYTES]! ^= 1
  expect(isGenuine(manifest, known, lie, offsets)).toBe(false)
}

/** Numbers below `bound`, the same for a seed. */
export function numbers(seed: number): (bound: number) => number {
  const stream = new DataView(pseudoRandom(1 << 16, seed).buffer)
  let at = 0
  return bound => stream.getUint32((4 * at++) % (1 << 16), true) % bound
}
