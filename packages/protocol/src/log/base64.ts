// Base64 (RFC 4648, section 4) in its one canonical form.

import { refuse } from './errors.js'

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

export function toBase64(bytes: Uint8Array): string {
  let text = ''
  for (let at = 0; at < bytes.length; at += 3) {
    const [a, b = 0, c = 0] = bytes.subarray(at, at + 3) as Iterable<number> as [number, number?, number?]
    for (const digit of [a >> 2, ((a & 3) << 4) | (b >> 4), ((b & 15) << 2) | (c >> 6), c & 63]) text += DIGITS[digit]
  }
  const padding = (3 - (bytes.length % 3)) % 3
  return text.slice(0, text.length - padding) + '='.repeat(padding)
}

/** Throws LogError for any other spelling of these bytes. `bytes`: how many there must be; undefined: any number. */
export function fromBase64(field: string, text: string, bytes?: number): Uint8Array {
  const digits = text.replace(/={1,2}$/, '')
  const read = new Uint8Array(Math.floor((digits.length * 3) / 4))
  for (let i = 0; i < digits.length; i++) {
    const digit = DIGITS.indexOf(digits[i]!)
    const [at, bit] = [Math.floor((i * 6) / 8), (i * 6) % 8]
    const pair = (digit << 10) >> bit // the digit's six bits, in the two bytes that they may lie in
    if (at < read.length) read[at]! |= pair >> 8
    if (at + 1 < read.length) read[at + 1]! |= pair & 255
  }
  if (toBase64(read) !== text) refuse(field, 'canonical base64', 'another text')
  if (bytes !== undefined && read.length !== bytes) refuse(field, `${bytes} bytes`, read.length)
  return read
}
