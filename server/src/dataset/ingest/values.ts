// How a data file's text becomes a value's bytes. Every decoder is strict: what it accepts has one meaning.

/** How values are written in csv, tsv and jsonl. */
export const VALUE_ENCODINGS = ['utf8', 'base64', 'hex'] as const
export type ValueEncoding = (typeof VALUE_ENCODINGS)[number]

/** A value's bytes, or what is wrong with its text (UTF-8, checked before). */
export function decodeValue(text: Uint8Array, encoding: ValueEncoding): Uint8Array | string {
  if (encoding === 'utf8') return text
  // Node skips what it cannot read, so only text that encodes back to itself was read whole.
  const written = Buffer.from(text.buffer, text.byteOffset, text.length).toString('latin1')
  const value = Buffer.from(written, encoding)
  if (encoding === 'hex') {
    return value.toString('hex') === written.toLowerCase()
      ? value
      : 'the value is not hex: two digits a byte, nothing else'
  }
  return value.toString('base64') === written
    ? value
    : 'the value is not base64 of the standard alphabet, padded with = and without spaces'
}
