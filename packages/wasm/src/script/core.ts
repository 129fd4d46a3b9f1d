// The core for instant lookups without WebAssembly: the same queries and verdicts as rust-core/core/src/instant, byte for byte.
//
// Its steps do not depend on what is asked (masks.ts). It overwrites entropy, seeds and queries after use. JavaScript promises
// neither: engines may take longer for some numbers, and move or copy buffers.

import type { LayoutHandle } from '../core/base.js'
import type { InstantCore } from '../core/instant.js'
import { DirectoryShape } from './directory.js'
import { blake3, fingerprint } from './hashes.js'
import { Layout, own } from './layout.js'
import { Query } from './query.js'

export type { InstantCore } from '../core/instant.js'

export const scriptCore: InstantCore = {
  kind: 'script',
  layout: (...numbers) => new Layout(...numbers) as Layout & LayoutHandle,
  blake3,
  fingerprint,
  directoryShape: (...shape) => new DirectoryShape(...shape),
  newInstantQuery: (layout, indices, entropy, servers = 2) => new Query(own(layout), indices, entropy, servers >>> 0),
}
