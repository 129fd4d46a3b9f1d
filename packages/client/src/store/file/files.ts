// The files of the folder besides the journal: their names, and the frames each consists of.

import { toHex } from '@keyhush/protocol'
import { concatenated } from '../../base/bytes.js'
import type { Disk } from '../disk.js'
import { decodeFrame, encodeFrame, type FrameKind } from '../frames.js'
import type { StoredHead } from '../rules.js'
import { StateUnreadableError } from '../store.js'

/** The frames of each. */
const PARTS = {
  partial: ['part'],
  directory: ['dire'],
  checkpoint: ['chec', 'mani', 'dire'],
  verifier: ['veri'],
} as const satisfies Record<string, readonly FrameKind[]>

export type FileKind = keyof typeof PARTS

export const JOURNAL = 'journal'

export function valueName(hintId: Uint8Array, value: FileKind, version: number): string {
  return `${toHex(hintId)}.${value}.${version}`
}

export function rowName(hintId: Uint8Array, name: string): string {
  return `${toHex(hintId)}.row.${name}`
}

/** The files that a state consists of, rows apart. */
export function namesOf(head: StoredHead | undefined): string[] {
  if (head === undefined) return []
  if (head.condemned !== undefined) return [JOURNAL]
  const { record, stage, checkpointVersion } = head
  const values: FileKind[] = stage === 'partial' ? ['partial', 'directory'] : ['checkpoint']
  const names = values.map(value => valueName(record.hintId, value, checkpointVersion))
  return [JOURNAL, ...names, valueName(record.hintId, 'verifier', 0)]
}

export function encodeValue(
  hintId: Uint8Array,
  value: FileKind,
  version: number,
  payloads: readonly Uint8Array[],
): Uint8Array {
  return concatenated(PARTS[value].map((kind, i) => encodeFrame({ kind, version, payload: payloads[i]! }, hintId)))
}

/** The payloads of a value's file; `bytes` are undefined if there is none. Throws StateUnreadableError. */
export function decodeValue(
  hintId: Uint8Array,
  value: FileKind,
  version: number,
  bytes: Uint8Array | undefined,
): Uint8Array[] {
  const name = valueName(hintId, value, version)
  const unreadable = () => new StateUnreadableError(`the stored file ${name} is missing, torn or foreign`)
  if (bytes === undefined) throw unreadable()
  let end = 0
  const payloads = PARTS[value].map(kind => {
    const next = decodeFrame(bytes, end, hintId)
    if (next?.frame.kind !== kind || next.frame.version !== version) throw unreadable()
    end = next.end
    return next.frame.payload
  })
  if (end !== bytes.length) throw unreadable()
  return payloads
}

export function encodeRow(hintId: Uint8Array, row: Uint8Array): Uint8Array {
  return encodeFrame({ kind: 'trow', version: 0, payload: row }, hintId)
}

/** Throws StateUnreadableError. */
export function decodeRow(hintId: Uint8Array, bytes: Uint8Array): Uint8Array {
  const next = decodeFrame(bytes, 0, hintId)
  if (next?.frame.kind !== 'trow' || next.end !== bytes.length) {
    throw new StateUnreadableError('a stored row is torn or foreign')
  }
  return next.frame.payload
}

/** Writes a file that is not there yet. Its bytes are durable when the promise resolves, its name is not. */
export async function writeNew(disk: Disk, name: string, bytes: Uint8Array): Promise<void> {
  const file = await disk.create(name)
  try {
    await file.write(bytes)
    await file.sync()
  } finally {
    await file.close()
  }
}
