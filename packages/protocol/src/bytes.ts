// Small helpers on bytes: comparison, hex, little-endian views and the checks every codec shares.

import { malformed, WireError } from './errors.js'

/** Whether two byte strings are equal. Not constant-time: only public bytes are compared with it. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}

/** Whether every byte from `start` up to `end` is zero. */
export function isZero(bytes: Uint8Array, start = 0, end = bytes.length): boolean {
  for (let i = start; i < end; i++) if (bytes[i] !== 0) return false
  return true
}

/** Lower-case hex, two digits a byte. */
export function toHex(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) text += byte.toString(16).padStart(2, '0')
  return text
}

/** Bytes of a lower-case hex string. Throws WireError for any other digit or an odd length. */
export function fromHex(text: string): Uint8Array {
  if (text.length % 2 !== 0) malformed('hex', 'an even number of digits', text.length)
  if (!/^[0-9a-f]*$/.test(text))
    throw new WireError('malformed', 'hex: expected only the digits 0-9 and a-f, got others')
  const bytes = new Uint8Array(text.length / 2)
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16)
  return bytes
}

/** A view of exactly these bytes, even if their buffer is larger. */
export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** A copy of bytes `from` to `to`. (`slice` of Node's Buffer is a view.) */
export function copyOf(bytes: Uint8Array, from: number, to = bytes.length): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes.subarray(from, to))
}

/** The four ASCII letters at the head of a message. */
export function writeMagic(bytes: Uint8Array, magic: string): void {
  for (let i = 0; i < 4; i++) bytes[i] = magic.charCodeAt(i)
}

/** Refuses bytes that do not begin with `magic`. */
export function checkMagic(bytes: Uint8Array, magic: string): void {
  for (let i = 0; i < 4; i++) if (bytes[i] !== magic.charCodeAt(i)) malformed('magic', magic, 'other bytes')
}

/** Refuses a value that is not an integer from `min` to `max`. */
export function checkInteger(field: string, value: number, min: number, max: number): void {
  if (!Number.isInteger(value) || value < min || value > max) {
    malformed(field, min === max ? `${min}` : `an integer from ${min} to ${max}`, value)
  }
}

/** Refuses bytes of another length. */
export function checkLength(field: string, bytes: Uint8Array, expected: number): void {
  if (bytes.length !== expected) malformed(field, `${expected} bytes`, `${bytes.length}`)
}
