// A whole directory, read and followed without WebAssembly: for filters.

import type { LayoutHandle } from '../core/base.js'
import { hasher } from './hashes.js'
import { Layout } from './layout.js'
import { Directory } from './table.js'

export { Directory, hasher }

/** A layout that `Directory` takes. Throws `layout`. */
export function layoutOf(...numbers: ConstructorParameters<typeof Layout>): LayoutHandle {
  return new Layout(...numbers) as Layout & LayoutHandle
}
