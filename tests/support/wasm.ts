// Both halves of the WebAssembly core over records in memory: what the SDK and a server do, without a network.

import type {
  ClientCore,
  ClientHandle,
  Core,
  DatabaseHandle,
  InstantCore,
  LayoutHandle,
  Proofs,
  ReceivedFormHandle,
  SingleCore,
  SingleHandle,
} from '@keyhush/wasm'
import { type Layout, partitionBytes, split } from '../interop/reference/layout.js'

export interface CommittedDatabase {
  readonly handle: DatabaseHandle
  readonly commitments: Uint8Array
  readonly contentHashes: Uint8Array
  /** one a partition */
  readonly partitions: readonly Uint8Array[]
}

export function layoutHandle(
  core: InstantCore,
  { records, recordBytes, partitions, partitionRecords, blockRecords }: Layout,
) {
  return core.layout(records, recordBytes, partitions, partitionRecords, blockRecords)
}

/** `records`: N·ℓ bytes. */
export function commitDatabase(core: Core, layout: Layout, records: Uint8Array, proofs?: Proofs): CommittedDatabase {
  const padded = new Uint8Array(layout.partitions * partitionBytes(layout))
  padded.set(records)
  const handle = core.newDatabase(layoutHandle(core, layout), proofs)
  memory(core, handle.recordsPointer(), padded.length).set(padded)
  for (let q = 0; q < layout.partitions; q++) handle.commit(q)
  return {
    handle,
    commitments: handle.commitments(),
    contentHashes: handle.contentHashes(),
    partitions: split(padded, partitionBytes(layout)),
  }
}

/** The offline phase. The caller frees the handle. */
export function makeHint(
  core: Core,
  layout: Layout,
  database: CommittedDatabase,
  entropy: Uint8Array,
  proofs: Proofs = 'merkle',
): ClientHandle {
  const { commitments, contentHashes, partitions } = database
  const builder = core.newHintBuilder(layoutHandle(core, layout), commitments, contentHashes, entropy, proofs)
  for (const [q, partition] of partitions.entries()) {
    builder.begin(0, q)
    memory(core, builder.lanePointer(0), partition.length).set(partition)
    builder.absorb(0, partition.length)
    if (!builder.fold(0)) throw new Error(`partition ${q} does not match its content hash`)
  }
  return builder.finish()
}

/** What `read` makes of a stored form. */
export function fromStored<T>(core: ClientCore, stored: Uint8Array, read: (form: ReceivedFormHandle) => T): T {
  const form = core.newReceivedForm(stored.length)
  try {
    form.take(stored)
    return read(form)
  } finally {
    form.free()
  }
}

/** Hints for one server from their stored form. */
export function reopenSingle(
  core: SingleCore,
  stored: Uint8Array,
  layout: LayoutHandle,
  binding: Uint8Array,
): SingleHandle {
  return fromStored(core, stored, form => {
    const reading = core.reopenSingle(form, layout, binding)
    while (reading.step(form));
    return reading.finish()
  })
}

/** The tags of a hint, u64 each, as they end its stored form. */
export function tagsOf(client: ClientHandle): Uint8Array {
  const stored = client.checkpoint(new Uint8Array(32)).take()
  const end = stored.length - 16 // checksum
  return stored.slice(end - client.tagBytes, end)
}

/** A view of `bytes` bytes of the core's memory; any call that allocates may move it. */
export function memory(core: Core, pointer: number, bytes: number): Uint8Array {
  return new Uint8Array(core.memory.buffer, pointer, bytes)
}
