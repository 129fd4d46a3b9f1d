// Decodes the text of a value in a data file. Decoders are strict: a text that they accept has one meaning.

/** Encodings of values in csv, tsv and jsonl. */
export const VALUE_ENCODINGS = ['utf8', 'base64', 'hex'] as const
export type ValueEncoding = (typeof VALUE_ENCODINGS)[number]

/** The value's bytes, or why its text is refused. The caller has checked that the text is UTF-8. */
export function decodeValue(text: Uint8Array, encoding: ValueEncoding): Uint8Array | string {
  if (encoding === 'utf8') return text
  // Node skips characters that it cannot decode, so we encode again and compare.
  const written = Buffer.from(text.buffer, text.byteOffset, text.length).toString('latin1')
  const value = Buffer.from(written, encoding)
  if (encoding === 'hex') {
    return value.toString('hex') === written.toLowerCase()
      ? value
      : 'expected hex, two digits a byte and nothing else, got another value; see --value-encoding'
  }
  return value.toString('base64') === written
    ? value
    : 'expected base64 of the standard alphabet, padded with = and without spaces, got another value; see --value-encoding'
}
