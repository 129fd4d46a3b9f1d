// What an auditor has found wrong, as files that anybody can check (docs/operations/audit.md). While they are there, the auditor says so again.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type SignatureInfo, toHex } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { ContradictionError } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import { FOR_ALL, makeShown, writeWhole } from '../base/whole-file.js'

export interface Evidence {
  readonly manifests: readonly KnownManifest[]
  readonly signatures: readonly SignatureInfo[]
  /** the list of the contradicted epoch */
  readonly list?: Uint8Array | undefined
}

/** Written last: with it the evidence is whole. */
const SUMMARY = 'contradiction.json'

/** Writes the files, and resolves to what is to be thrown. */
export async function contradiction(
  { blake3 }: Core,
  folder: string,
  found: string,
  { manifests, signatures, list }: Evidence,
): Promise<ContradictionError> {
  const files = new Map<string, Uint8Array>()
  for (const { manifest, bytes } of manifests) {
    files.set(`manifest-${manifest.epoch}-${toHex(blake3(bytes)).slice(0, 16)}.bin`, bytes)
  }
  if (list !== undefined) files.set(`list-${toHex(blake3(list)).slice(0, 16)}.bin`, list)
  await makeShown(folder)
  for (const [name, bytes] of files) await writeWhole(join(folder, name), bytes, FOR_ALL)
  const summary = { contradiction: found, files: [...files.keys()], signatures, found: new Date().toISOString() }
  await writeWhole(join(folder, SUMMARY), Buffer.from(`${JSON.stringify(summary, undefined, 2)}\n`), FOR_ALL)
  return new ContradictionError(found, folder)
}

/** Throws what was found before, if anything was. */
export async function checkFound(folder: string): Promise<void> {
  const text = await readFile(join(folder, SUMMARY), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
  if (text !== undefined) throw new ContradictionError(JSON.parse(text).contradiction, folder)
}
