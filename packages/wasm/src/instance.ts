// One WebAssembly instance at a time, shared by everything in this realm, behind the `Core` interface.
//
// wasm-bindgen's glue keeps the instance in a module variable; handles remember which instance they belong to and
// refuse to run on another. After a trap the instance's memory cannot be trusted, so it is replaced, never reused.

import * as glue from '../generated/pirouette.js'
import type { Core, LayoutHandle } from './core.js'

/** Supplies the compiled module, once. */
export type ModuleSource = () => Promise<WebAssembly.Module>

let loading: Promise<WebAssembly.Module> | undefined
let current: Core | undefined

/** The running core, started from `source` if none is. */
export async function loadCoreFrom(source: ModuleSource): Promise<Core> {
  loading ??= source()
  try {
    const module = await loading
    current ??= started(module)
    return current
  } catch (error) {
    loading = undefined // a failed download or compilation may succeed next time
    throw error
  }
}

/** After a trap: abandons `core`'s instance and starts another for the next `loadCore()`. */
export function discardCore(core: Core): void {
  if (core !== current) return
  glue.__wbg_reset_state()
  current = undefined
}

function started(module: WebAssembly.Module): Core {
  const { memory } = glue.initSync({ module }) // no more than this instance's exports if one runs already
  // The glue declares its parameters as its own classes; our interface declares what those classes have in public.
  const own = (layout: LayoutHandle) => layout as glue.LayoutHandle
  return {
    memory,
    planLayout: glue.LayoutHandle.plan,
    layout: (...numbers) => new glue.LayoutHandle(...numbers),
    blake3: glue.blake3,
    fingerprint: glue.fingerprint,
    fingerprints: glue.fingerprints,
    databaseId: glue.databaseId,
    buildDirectory: glue.DirectoryHandle.build,
    decodeDirectory: glue.DirectoryHandle.decode,
    newHintBuilder: (layout, ...rest) => new glue.HintBuilderHandle(own(layout), ...rest),
    resumeHintBuilder: (partial, layout, ...rest) => glue.HintBuilderHandle.resume(partial, own(layout), ...rest),
    reopenClient: (checkpoint, layout, ...rest) => glue.ClientHandle.reopen(checkpoint, own(layout), ...rest),
    newDatabase: layout => new glue.DatabaseHandle(own(layout)),
    hazmatPermutations: (layout, entropy) => glue.hazmatPermutations(own(layout), entropy),
  }
}
