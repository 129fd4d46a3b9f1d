// What a store's newest epoch is proved with: as it was stored, led on by the update lists since.

import { setImmediate as nextTask } from 'node:timers/promises'
import { equalBytes, partitionBytes, partitionRows, updatedRowLists } from '@keyhush/protocol'
import { DatasetError, type Dated, recordBytesView, type StoredProofs } from '@keyhush/server/proofs'
import type { Core } from '@keyhush/wasm'
import { type ChangedBlocks, changedBlocks } from './changed-blocks.js'
import { Openings, recordsOf, zeroOpenings } from './openings.js'
import { commits, provedWith } from './proofs.js'

/** Throws DatasetError if the rows do not commit to the records, or are not those that the manifests name. */
export async function resumeProofs(core: Core, stored: StoredProofs): Promise<Openings> {
  const { location, database, newest, transcript } = stored
  const proved = await provedWith(core, newest, transcript, location, location)
  let opened: Openings | undefined
  try {
    proved.prover.warm()
    const rowLists = rowListsOf(core, stored)
    const length = partitionBytes(newest)
    for (let q = 0; q < newest.partitions; q++) {
      const partition = recordBytesView(core, database, q * length, length)
      if (!commits(proved, newest, rowLists, q, partition)) {
        throw new DatasetError(location, `the rows of partition ${q} are not those of its records`)
      }
      await nextTask()
    }
    const rows = await rowsOf(stored)
    opened = new Openings(core, proved, newest, rows, rowLists)
    await catchUp(core, opened, stored)
    return opened
  } catch (error) {
    if (opened === undefined) proved.prover.free()
    else opened.free()
    throw error
  }
}

/** Of the newest epoch. */
function rowListsOf(core: Core, { location, newest, lists, rowLists: { epoch, bytes } }: StoredProofs): Uint8Array {
  let rowLists = bytes
  for (let next = epoch + 1; next <= newest.epoch; next++) {
    const { list, rows } = lists.get(next)!
    const changes = core.decodeUpdateList(list)
    const after = changes.after
    const layout = { ...newest, partitions: after.partitions }
    const indices = changes.indices()
    for (const handle of [changes, after]) handle.free()
    rowLists = updatedRowLists(rowLists, layout, indices, rows!)
  }
  if (equalBytes(core.blake3(rowLists), newest.pointproofs!.rowsHash)) return rowLists
  throw new DatasetError(location, 'its row lists are not those that the manifest names')
}

/** All rows' openings, as far as they have been folded. */
async function rowsOf({ location, newest, openings }: StoredProofs): Promise<Dated[]> {
  const count = newest.partitions * partitionRows(newest)
  const rows = Array.from(
    { length: count },
    (_, row): Dated => ({ epoch: 0, bytes: zeroOpenings(recordsOf(newest, row)) }),
  )
  for await (const [row, dated] of openings) {
    if (dated.epoch > newest.epoch) {
      throw new DatasetError(location, `what opens row ${row} is of an epoch that is not there`)
    }
    if (dated.bytes.length !== rows[row]?.bytes.length) {
      throw new DatasetError(location, `what opens row ${row} is of another length`)
    }
    rows[row] = dated
  }
  return rows
}

/** Gives rows the edits since their openings, and restores the row lists of the epoch before. */
async function catchUp(core: Core, openings: Openings, stored: StoredProofs): Promise<void> {
  const { location, database, newest, previous, lists } = stored
  const steps: { readonly epoch: number; readonly changed: ChangedBlocks }[] = []
  const later = new Map<number, Uint8Array>()
  const blockOf = openings.blocksOf(database)
  // Backwards, as a list says old ⊕ new; rows take the edits forwards.
  for (const [epoch, { list }] of [...lists].reverse()) {
    const changed = changedBlocks(core, newest, list, block => later.get(block) ?? blockOf(block))
    const bytes = changed.old.length / changed.blocks.length
    for (const [n, block] of changed.blocks.entries())
      later.set(block, changed.old.subarray(n * bytes, (n + 1) * bytes))
    steps.unshift({ epoch, changed })
  }
  for (const { epoch, changed } of steps) openings.missed(epoch, changed)
  const last = steps.at(-1)
  if (previous === undefined || last === undefined) return
  const hash = await openings.restoreBefore(previous.partitions, last.changed)
  if (!equalBytes(hash, previous.pointproofs!.rowsHash)) {
    throw new DatasetError(location, `the rows before the newest epoch are not those of epoch ${previous.epoch}`)
  }
}
