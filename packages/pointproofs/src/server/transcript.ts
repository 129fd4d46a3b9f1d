// A ceremony's transcript and an operator's receipt, as files (docs/protocol.md, Ceremony).

import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { fromHex } from '@keyhush/protocol'
import type { Ceremony } from '../api.js'
import { CeremonyError } from './errors.js'
import { loadProving } from './module.js'

const ENTROPY_BYTES = 32

/** Reads and verifies a transcript; to be freed. Throws CeremonyError. */
export async function readCeremony(file: string): Promise<Ceremony> {
  return await verifiedCeremony(file, await readFile(file))
}

/** Verifies a transcript's bytes. The error names `file`. */
export async function verifiedCeremony(file: string, transcript: Uint8Array): Promise<Ceremony> {
  const { ceremony } = await loadProving()
  try {
    return ceremony(transcript, randomBytes(ENTROPY_BYTES))
  } catch (error) {
    throw refusedBy(file, error)
  }
}

/** Turns what the module refuses into a CeremonyError. A trap stays what it is. */
export function refusedBy(file: string, error: unknown): unknown {
  return error instanceof Error && 'code' in error ? new CeremonyError(`${file}: ${error.message}`) : error
}

/** Throws CeremonyError. */
export async function readReceipt(file: string): Promise<Uint8Array> {
  const [, digits] = /^([0-9a-f]{64})\s*$/.exec(await readFile(file, 'utf8')) ?? []
  if (digits === undefined) throw new CeremonyError(`${file}: expected a receipt, 64 hex digits`)
  return fromHex(digits)
}
