// What is stored in the end, against the model: permutations and parities to the last bit. An effect that was lost,
// applied twice or to the wrong version shows here, even if no lookup happens to come across it.

import { partitionBytes, split } from '../../interop/reference/layout.js'
import { fromStored } from '../../support/wasm.js'
import type { Disk } from '../disk.js'
import { type CheckpointForm, decodeCheckpoint } from '../forms.js'
import { hexOf } from '../hex.js'
import { core, type Database } from './databases.js'

/** The whole hint that is stored, journal included. */
export async function storedHint(
  disk: Disk,
  { manifest, manifestBytes }: Database,
  hint: string,
): Promise<CheckpointForm> {
  const { checkpoint, entries } = await disk.store.readHint(Buffer.from(hint, 'hex'))
  const layout = core.layout(manifest.records, manifest.recordBytes, manifest.partitions, manifest.partitionRecords)
  const binding = core.blake3(manifestBytes)
  const client = fromStored(core, checkpoint, form => core.reopenClient(form, layout, manifest.commitments, binding))
  try {
    for (const entry of entries) client.replay(entry)
    return decodeCheckpoint(client.checkpoint(binding).take(), manifest)
  } finally {
    client.free()
    layout.free()
  }
}

/** h_j = ⊕_q DB_q[σ_q(j)] */
export function paritiesUnder(permutations: readonly (readonly number[])[], { manifest, blobs }: Database): Uint8Array {
  const partitions = split(manifest.contentHashes, 32).map(hash => split(blobs.get(hexOf(hash))!, manifest.recordBytes))
  const parities = new Uint8Array(partitionBytes(manifest))
  permutations.forEach((permutation, q) => {
    permutation.forEach((offset, j) => {
      partitions[q]![offset]!.forEach((byte, b) => {
        parities[j * manifest.recordBytes + b]! ^= byte
      })
    })
  })
  return parities
}
