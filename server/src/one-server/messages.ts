// What the thread of an epoch is told, and what it replies. Messages to it are answered in their order.

import type { InstantOf } from '@keyhush/protocol'

/** What the thread prepares: sent when it starts. */
export interface Begin {
  readonly databaseId: Uint8Array
  readonly generation: number
  readonly parts: readonly { readonly of: InstantOf; readonly records: number; readonly recordBytes: number }[]
  /** BLAKE3 of the public hint that a manifest names; undefined: it is to be made, and held to the builder's norm */
  readonly hintHash: Uint8Array | undefined
}

export type Told =
  /** the next bytes of a part */
  | { readonly put: Uint8Array; readonly of: InstantOf }
  /** all bytes are there */
  | { readonly prepare: true }
  | { readonly answer: Uint8Array; readonly of: InstantOf }

export type Replied =
  /** the public hints of all parts, one behind the other; undefined: these records do not have the hint with that hash */
  | { readonly hint: Uint8Array | undefined }
  | { readonly answers: Uint8Array }
  /** what the core refuses, by its code; the thread goes on */
  | { readonly refused: string; readonly message: string }
