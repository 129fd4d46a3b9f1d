// What lookups with one server need of the core, and the numbers that follow from a manifest.

import type { Manifest } from '@keyhush/protocol'
import type { Core, SingleCore } from '@keyhush/wasm/client'
import { UnsupportedError } from '../../base/errors.js'
import { coreCode, inCore } from '../../platform/core.js'
import { withLayout } from '../../platform/layout.js'

/** The build that has them, which `open()` loads for maps that may have such lookups. */
export function singleOf(core: Core): SingleCore {
  if ('newSingleBuilder' in core) return core as SingleCore
  throw new UnsupportedError('module', "the WebAssembly module given to open({ wasm }) has no lookups of mode 'single'")
}

/** Most queries of a request, and lookups that hints are made for unless the app says otherwise. Throws UnsupportedError where one server cannot answer. */
export function sizesOf(core: Core, manifest: Manifest): { readonly maxBatch: number; readonly lookups: number } {
  const single = singleOf(core)
  try {
    const sizes = withLayout(core, manifest, layout => inCore(core, () => single.singleBytes(layout)))
    const [, , maxBatch, lookups] = [...sizes] as [number, number, number, number]
    return { maxBatch: Math.min(maxBatch, manifest.maxBatch), lookups }
  } catch (error) {
    if (!(error instanceof UnsupportedError) || coreCode(error.cause) !== 'layout') throw error
    const message =
      "this database is too large for lookups with one server; open it with mode: 'local', or with two servers"
    throw new UnsupportedError('offer', message, { cause: error.cause })
  }
}

/** Whether hints for one epoch go on with the next: their stripes are the same. */
export function follows(core: Core, before: Manifest, next: Manifest): boolean {
  return withLayout(core, before, before =>
    withLayout(core, next, after => inCore(core, () => singleOf(core).singleFollows(before, after))),
  )
}
