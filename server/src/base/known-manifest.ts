// A manifest, read, with the bytes that it was read from.

import type { Manifest } from '@keyhush/protocol'

export interface KnownManifest {
  readonly manifest: Manifest
  readonly bytes: Uint8Array
}
