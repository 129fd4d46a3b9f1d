// The frames that the file store's files consist of. They tell bytes that were cut off, or have rotted, from those written.
//
//   kind (4 letters) · payload's length (u32) · version (u64) · CRC-32 of these · payload · CRC-32 of all of it
//
// Integers are little-endian. Both checksums begin with the hint's id, so a frame of another hint that is left on the disk
// does not pass. They are against accidents, not against an attacker who can write the disk.

import { crc32 } from 'node:zlib'
import { StateUnreadableError } from './store.js'

export type FrameKind = 'head' | 'pend' | 'entr' | 'part' | 'chec' | 'mani' | 'dire' | 'veri' | 'trow'

export interface Frame {
  readonly kind: FrameKind
  readonly version: number
  readonly payload: Uint8Array
}

const HEADER_BYTES = 20
const CHECKSUM_BYTES = 4

/** `hintId` is empty for the first frame of a journal, which names the hint. */
export function encodeFrame({ kind, version, payload }: Frame, hintId: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(HEADER_BYTES + payload.length + CHECKSUM_BYTES)
  const view = new DataView(bytes.buffer)
  bytes.set(new TextEncoder().encode(kind))
  view.setUint32(4, payload.length, true)
  view.setBigUint64(8, BigInt(version), true)
  const checksum = crc32(bytes.subarray(0, 16), crc32(hintId))
  view.setUint32(16, checksum, true)
  bytes.set(payload, HEADER_BYTES)
  view.setUint32(HEADER_BYTES + payload.length, crc32(payload, checksum), true)
  return bytes
}

/**
 * The frame that begins at `start`, and where the next one does; undefined if `bytes` end before it does. Throws
 * StateUnreadableError.
 */
export function decodeFrame(
  bytes: Uint8Array,
  start: number,
  hintId: Uint8Array,
): { readonly frame: Frame; readonly end: number } | undefined {
  if (bytes.length - start < HEADER_BYTES) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset + start, bytes.length - start)
  const checksum = crc32(bytes.subarray(start, start + 16), crc32(hintId))
  // Before the length is believed: a wrong one would pass for a file that was cut off.
  if (view.getUint32(16, true) !== checksum) throw new StateUnreadableError('a stored frame is torn or foreign')
  const payloadBytes = view.getUint32(4, true)
  const end = HEADER_BYTES + payloadBytes
  if (view.byteLength < end + CHECKSUM_BYTES) return undefined
  const payload = bytes.slice(start + HEADER_BYTES, start + end)
  if (view.getUint32(end, true) !== crc32(payload, checksum)) throw new StateUnreadableError('a stored frame is torn')
  const kind = new TextDecoder().decode(bytes.subarray(start, start + 4)) as FrameKind
  return { frame: { kind, version: Number(view.getBigUint64(8, true)), payload }, end: start + end + CHECKSUM_BYTES }
}
