// The client's part of the core's interface, for the glue of any build with hints.

import type * as clientGlue from '../generated/client.js'
import type { Advice, ClientCore, LayoutHandle, LocalHandle, ModeCosts, Plan, ReceivedFormHandle } from './core.js'
import { type InstantGlue, instantCore, sizeOf } from './instant-core.js'

/** The classes and functions that all builds with hints export. */
type SharedGlue = Pick<
  typeof clientGlue,
  | 'DirectoryHandle'
  | 'HintBuilderHandle'
  | 'ClientHandle'
  | 'LayoutHandle'
  | 'LocalHandle'
  | 'ReceivedFormHandle'
  | 'RoomHandle'
  | 'advise'
  | 'modeCosts'
  | 'plan'
  | 'suitableProofs'
  | 'journalLimit'
>

/** The glue's parameters have its own classes as types; our interface has those classes' public parts. */
export function own(layout: LayoutHandle): clientGlue.LayoutHandle {
  return layout as clientGlue.LayoutHandle
}

function form(stored: ReceivedFormHandle): clientGlue.ReceivedFormHandle {
  return stored as clientGlue.ReceivedFormHandle
}

export function clientCore(glue: SharedGlue, memory: WebAssembly.Memory): ClientCore & { memory: WebAssembly.Memory } {
  return {
    // The builds have the same classes. TypeScript distinguishes them by their private parts only.
    ...instantCore(glue as unknown as InstantGlue, memory),
    suitableProofs: (layout, directoryBytes) => glue.suitableProofs(own(layout), directoryBytes),
    modeCosts: (layout, directory, proofs, usage) =>
      glue.modeCosts(own(layout), ...sizeOf(directory), [...proofs], usage) as ModeCosts[],
    advise: (layout, directory, { instant, servers = 2 }, mayDownload, lookupsPerDay) =>
      glue.advise(own(layout), ...sizeOf(directory), instant, servers, mayDownload, lookupsPerDay) as Advice,
    plan: workload => glue.plan(workload) as Plan,
    journalLimit: glue.journalLimit,
    planLayout: glue.LayoutHandle.plan,
    decodeDirectory: glue.DirectoryHandle.decode as unknown as ClientCore['decodeDirectory'],
    newReceivedForm: bytes => new glue.ReceivedFormHandle(bytes),
    newRoom: bytes => new glue.RoomHandle(bytes),
    newHintBuilder: (layout, ...rest) => new glue.HintBuilderHandle(own(layout), ...rest),
    resumeHintBuilder: (partial, layout, ...rest) => glue.HintBuilderHandle.resume(form(partial), own(layout), ...rest),
    newLocal: (layout, ...rest) => new glue.LocalHandle(own(layout), ...rest) as LocalHandle,
    resumeLocal: (stored, layout, ...rest) =>
      glue.LocalHandle.resume(form(stored), own(layout), ...rest) as LocalHandle,
    reopenClient: (checkpoint, layout, ...rest) => glue.ClientHandle.reopen(form(checkpoint), own(layout), ...rest),
  }
}
