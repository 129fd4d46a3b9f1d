// The part of the core's interface for instant lookups, for any build's glue.

import type * as instantGlue from '../generated/instant.js'
import type { DirectoryShapeHandle, DirectorySize, InstantCore, LayoutHandle, Mode } from './core.js'

/** The classes and functions that all builds export. */
export type InstantGlue = Pick<
  typeof instantGlue,
  'LayoutHandle' | 'DirectoryShapeHandle' | 'InstantQueryHandle' | 'blake3' | 'chooseMode' | 'fingerprint'
>

/**
 * The glue's parameters have its own classes as types; our interface has those classes' public parts. In builds with hints
 * they also have sizes by kind of proof.
 */
function own(layout: LayoutHandle): instantGlue.LayoutHandle {
  return layout as unknown as instantGlue.LayoutHandle
}

export function instantCore(
  glue: InstantGlue,
  memory: WebAssembly.Memory,
): Required<InstantCore> & { memory: WebAssembly.Memory } {
  return {
    kind: 'wasm',
    memory,
    layout: (...numbers) => new glue.LayoutHandle(...numbers) as unknown as LayoutHandle,
    blake3: glue.blake3,
    fingerprint: glue.fingerprint,
    directoryShape: (...shape) => new glue.DirectoryShapeHandle(...shape) as unknown as DirectoryShapeHandle,
    newInstantQuery: (layout, indices, entropy, servers = 2) =>
      new glue.InstantQueryHandle(own(layout), indices, entropy, servers),
    chooseMode: (layout, directory, { instant, servers = 2 }, lookups) =>
      glue.chooseMode(own(layout), ...sizeOf(directory), instant, servers, lookups) as Mode,
  }
}

/** The directory's sizes as the glue's parameters. */
export function sizeOf(directory: DirectorySize): [number, number, number] {
  const { directoryBytes, directoryBlockLog = 0, directoryBlockBytes = 0 } = directory
  return [directoryBytes, directoryBlockLog, directoryBlockBytes]
}
