// The core's functions for lookups with one server, and the sizes that follow from a manifest.

import type { Manifest } from '@keyhush/protocol'
import type { Core, SingleCore } from '@keyhush/wasm/client'
import { UnsupportedError } from '../../base/errors.js'
import { coreCode, inCore } from '../../platform/core.js'
import { withLayout } from '../../platform/layout.js'

/** The build that has them. `open()` loads it for maps that may need it. Throws UnsupportedError for another one. */
export function singleOf(core: Core): SingleCore {
  if ('newSingleBuilder' in core) return core as SingleCore
  throw new UnsupportedError(
    'module',
    "wasm: expected single_bg.wasm for mode 'single', got another module; pass that file",
  )
}

/** Most queries of a request, and the default of `lookups`. Throws UnsupportedError if the database is too large for one server. */
export function sizesOf(core: Core, manifest: Manifest): { readonly maxQueries: number; readonly lookups: number } {
  const single = singleOf(core)
  try {
    const sizes = withLayout(core, manifest, layout => inCore(core, () => single.singleBytes(layout)))
    const [, , maxQueries, lookups] = [...sizes] as [number, number, number, number]
    return { maxQueries: Math.min(maxQueries, manifest.maxQueries), lookups }
  } catch (error) {
    if (!(error instanceof UnsupportedError) || coreCode(error.cause) !== 'layout') throw error
    const message =
      "expected a database that one server can answer, got a larger one; open it with mode: 'local', or with two servers"
    throw new UnsupportedError('offer', message, { cause: error.cause })
  }
}

/** Whether an update can lead hints to the next epoch: its stripes are the same. */
export function follows(core: Core, before: Manifest, next: Manifest): boolean {
  return withLayout(core, before, before =>
    withLayout(core, next, after => inCore(core, () => singleOf(core).singleFollows(before, after))),
  )
}
