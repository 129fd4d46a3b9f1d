// Databases with Pointproofs, and answers as an independent verifier on @noble/curves sees them.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { blake3 } from '@noble/hashes/blake3.js'
import {
  answerBytes,
  decodeAnswer,
  decodeManifest,
  encodeManifest,
  HEADER_BYTES,
  type Manifest,
  toHex,
} from '@pirouette/protocol'
import { loadProving } from '@pirouette/wasm/prover'
import { expect } from 'vitest'
import { decodeKey, decodeRows, verify } from '../../tests/interop/reference/pointproofs.js'

const fresh = new Uint8Array(32).fill(9)

export interface CeremonyFiles {
  readonly transcript: string
  readonly mine: string
  readonly theirs: string
  /** before the other's contribution */
  readonly early: string
}

/** Two contribute; then files as operators have them. */
export async function ceremonyIn(folder: string, development: boolean, seed: number): Promise<CeremonyFiles> {
  const { beginCeremony, ceremony } = await loadProving()
  const contribute = (transcript: Uint8Array, name: string, entropy: number) => {
    const before = ceremony(transcript, fresh)
    const contributed = before.contribute(name, new Uint8Array(32).fill(entropy))
    before.free()
    return [contributed.slice(0, -32), `${toHex(contributed.slice(-32))}\n`] as const
  }
  const [first, mine] = contribute(beginCeremony(development), 'Ada', seed)
  const [second, theirs] = contribute(first, 'Grace', seed + 1)
  const named = { transcript: second, mine, theirs, early: first } as const
  const paths: Record<string, string> = {}
  for (const [name, content] of Object.entries(named)) {
    paths[name] = join(folder, `${name} ${seed}`)
    await writeFile(paths[name], content)
  }
  return paths as unknown as CeremonyFiles
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
  const lie = answer.slice()
  lie[HEADER_BYTES]! ^= 1
  expect(isGenuine(manifest, known, lie, offsets)).toBe(false)
}
