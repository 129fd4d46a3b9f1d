// The client half of the core's interface over either build's glue.

import type * as clientGlue from '../generated/client.js'
import type { ClientCore, DirectorySize, LayoutHandle, LocalHandle, Mode, ModeCosts, Plan } from './core.js'

/** The classes and functions that both builds export. */
type SharedGlue = Pick<
  typeof clientGlue,
  | 'LayoutHandle'
  | 'DirectoryHandle'
  | 'DirectoryShapeHandle'
  | 'HintBuilderHandle'
  | 'ClientHandle'
  | 'InstantQueryHandle'
  | 'LightAttemptHandle'
  | 'LocalHandle'
  | 'blake3'
  | 'chooseMode'
  | 'fingerprint'
  | 'plan'
  | 'planBlockRecords'
  | 'journalLimit'
  | 'lightProofs'
  | 'modeCosts'
  | 'suitableProofs'
>

/** The glue declares its parameters as its own classes; our interface declares what those classes have in public. */
export function own(layout: LayoutHandle): clientGlue.LayoutHandle {
  return layout as clientGlue.LayoutHandle
}

export function clientCore(glue: SharedGlue, memory: WebAssembly.Memory): ClientCore & { memory: WebAssembly.Memory } {
  return {
    memory,
    plan: workload => glue.plan(workload) as Plan,
    journalLimit: glue.journalLimit,
    suitableProofs: (layout, directoryBytes) => glue.suitableProofs(own(layout), directoryBytes),
    lightProofs: layout => glue.lightProofs(own(layout)),
    planBlockRecords: glue.planBlockRecords,
    planLayout: glue.LayoutHandle.plan,
    layout: (...numbers) => new glue.LayoutHandle(...numbers),
    blake3: glue.blake3,
    fingerprint: glue.fingerprint,
    decodeDirectory: glue.DirectoryHandle.decode,
    directoryShape: (...shape) => new glue.DirectoryShapeHandle(...shape),
    newInstantQuery: (layout, ...rest) => new glue.InstantQueryHandle(own(layout), ...rest),
    newLightAttempt: (layout, ...rest) => new glue.LightAttemptHandle(own(layout), ...rest),
    newHintBuilder: (layout, ...rest) => new glue.HintBuilderHandle(own(layout), ...rest),
    resumeHintBuilder: (partial, layout, ...rest) => glue.HintBuilderHandle.resume(partial, own(layout), ...rest),
    chooseMode: (layout, directory, { instant, light }, lookups) =>
      glue.chooseMode(own(layout), ...sizeOf(directory), instant, light, lookups) as Mode,
    modeCosts: (layout, directory, proofs, usage) =>
      glue.modeCosts(own(layout), ...sizeOf(directory), [...proofs], usage) as ModeCosts[],
    newLocal: (layout, ...rest) => new glue.LocalHandle(own(layout), ...rest) as LocalHandle,
    resumeLocal: (stored, layout, ...rest) => glue.LocalHandle.resume(stored, own(layout), ...rest) as LocalHandle,
    reopenClient: (checkpoint, layout, ...rest) => glue.ClientHandle.reopen(checkpoint, own(layout), ...rest),
  }
}

function sizeOf(directory: DirectorySize): [number, number, number] {
  const { directoryBytes, directoryBlockLog = 0, directoryBlockBytes = 0 } = directory
  return [directoryBytes, directoryBlockLog, directoryBlockBytes]
}
