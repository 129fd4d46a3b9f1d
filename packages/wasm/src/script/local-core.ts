// The core for mode `local` without WebAssembly: instant lookups', and copies of databases. It has no stored forms.

import type { DirectoryHandle } from '../core/base.js'
import type { LocalCore, LocalHandle } from '../core/client.js'
import { scriptCore } from './core.js'
import { own } from './layout.js'
import { Local } from './local.js'
import { Directory } from './table.js'

export type { LocalCore } from '../core/client.js'

export const localCore: LocalCore = {
  ...scriptCore,
  decodeDirectory: (bytes, records) => Directory.decode(bytes, records >>> 0) as Directory & DirectoryHandle,
  newLocal: (layout, contentHashes, id) => new Local(own(layout), contentHashes, id) as Local & LocalHandle,
}
