// The core's form of rows of tags: a row follows its name of 16 bytes; a list of names has one after the other.

import { toHex } from '@keyhush/protocol'

const NAME_BYTES = 16

export function namesIn(bytes: Uint8Array): string[] {
  return Array.from({ length: bytes.length / NAME_BYTES }, (_, i) =>
    toHex(bytes.subarray(i * NAME_BYTES, (i + 1) * NAME_BYTES)),
  )
}

export function namedRow(row: Uint8Array): { readonly name: Uint8Array; readonly bytes: Uint8Array } {
  return { name: row.subarray(0, NAME_BYTES), bytes: row.subarray(NAME_BYTES) }
}
