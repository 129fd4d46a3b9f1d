// What update lists change in blocks.

import type { Manifest } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'

/** What an epoch changed: blocks, ascending, and the bytes of each before and after. */
export interface ChangedBlocks {
  readonly blocks: Uint32Array
  readonly old: Uint8Array
  readonly now: Uint8Array
}

/** What a list (indices and old ⊕ new) changes in blocks; `block` gives one as it is after it, ℓ′ bytes. */
export function changedBlocks(
  core: Core,
  { recordBytes, blockRecords }: Pick<Manifest, 'recordBytes' | 'blockRecords'>,
  list: Uint8Array,
  block: (number: number) => Uint8Array,
): ChangedBlocks {
  const handle = core.decodeUpdateList(list)
  const [indices, differences] = [handle.indices(), handle.differences()]
  handle.free()
  const bytes = recordBytes * blockRecords
  const blocks = Uint32Array.from(new Set(Array.from(indices, index => Math.floor(index / blockRecords))))
  const places = new Map(Array.from(blocks, (number, n) => [number, n * bytes]))
  const now = new Uint8Array(blocks.length * bytes)
  for (const [number, at] of places) now.set(block(number), at)
  const old = now.slice()
  for (const [n, index] of indices.entries()) {
    const at = places.get(Math.floor(index / blockRecords))! + (index % blockRecords) * recordBytes
    for (let k = 0; k < recordBytes; k++) old[at + k]! ^= differences[n * recordBytes + k]!
  }
  return { blocks, old, now }
}
