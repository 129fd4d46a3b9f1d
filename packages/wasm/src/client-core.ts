// The client half of the core's interface over either build's glue.

import type * as clientGlue from '../generated/client.js'
import type { ClientCore, LayoutHandle, Plan } from './core.js'

/** The classes and functions that both builds export. */
type SharedGlue = Pick<
  typeof clientGlue,
  'LayoutHandle' | 'DirectoryHandle' | 'HintBuilderHandle' | 'ClientHandle' | 'blake3' | 'fingerprint' | 'plan'
>

/** The glue declares its parameters as its own classes; our interface declares what those classes have in public. */
export function own(layout: LayoutHandle): clientGlue.LayoutHandle {
  return layout as clientGlue.LayoutHandle
}

export function clientCore(glue: SharedGlue, memory: WebAssembly.Memory): ClientCore {
  return {
    memory,
    plan: workload => glue.plan(workload) as Plan,
    planLayout: glue.LayoutHandle.plan,
    layout: (...numbers) => new glue.LayoutHandle(...numbers),
    blake3: glue.blake3,
    fingerprint: glue.fingerprint,
    decodeDirectory: glue.DirectoryHandle.decode,
    newHintBuilder: (layout, ...rest) => new glue.HintBuilderHandle(own(layout), ...rest),
    resumeHintBuilder: (partial, layout, ...rest) => glue.HintBuilderHandle.resume(partial, own(layout), ...rest),
    reopenClient: (checkpoint, layout, ...rest) => glue.ClientHandle.reopen(checkpoint, own(layout), ...rest),
  }
}
