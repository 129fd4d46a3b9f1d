// Compares a client's state in memory and on disk with the right one, to the last bit, whether or not lookups read it.

import { decodeManifest } from '@keyhush/protocol'
import { fingerprint, hash } from '../../interop/reference/hash.js'
import { encodeRecord } from '../../interop/reference/record.js'
import { answer } from '../../interop/reference/single.js'
import { fromStored, layoutHandle, reopenSingle } from '../../support/wasm.js'
import type { Disk } from '../disk.js'
import { storedHint } from '../inspect.js'
import { type Head, hexOf } from '../ledger.js'
import { core, type Tab } from './client.js'
import { bytesOf } from './databases.js'
import type { Version } from './model.js'

/** A whole hint is stored, of this epoch, and its parities are those of these records under its permutations. */
export async function assertStored(disk: Disk, version: Version, manifestBytes: Uint8Array): Promise<void> {
  const { head } = disk
  if (head?.stage !== 'whole' || head.condemned) throw new Error('no hint is stored')
  if (head.manifest !== hexOf(manifestBytes)) throw new Error(`the stored hint is of another epoch`)
  if (head.pending !== undefined) throw new Error('a lookup is still pending')
  const manifest = decodeManifest(manifestBytes)
  const { scheme } = (await disk.store.read())!.record
  if (scheme === 'local') return await assertStoredWhole(disk, head.hint, version, manifestBytes)
  if (scheme === 'single') return await assertStoredSingle(disk, head, version, manifestBytes)
  const stored = await storedHint(core, disk, head.hint, manifestBytes)
  if (hexOf(stored.hintId) !== head.hint || stored.version !== head.version) throw new Error('another hint is stored')
  if (manifest.keyed && hexOf(hash(stored.directory)) !== hexOf(manifest.directoryHash)) {
    throw new Error('the stored directory is not the one that a new client is given')
  }
  const { partitionRecords, recordBytes, blockRecords } = manifest
  const parities = new Uint8Array(partitionRecords * recordBytes)
  const seen = new Set<number>()
  stored.permutations.forEach((permutation, q) => {
    permutation.forEach((offset, j) => {
      for (let slot = 0; slot < blockRecords; slot++) {
        const index = q * partitionRecords + offset * blockRecords + slot
        seen.add(index)
        const [record, at] = [recordAt(version, index, manifest), (j * blockRecords + slot) * recordBytes]
        for (let b = 0; b < recordBytes; b++) parities[at + b]! ^= record[b]!
      }
    })
  })
  if (seen.size !== manifest.partitions * partitionRecords) throw new Error('what is stored is no permutation')
  if (hexOf(parities) !== hexOf(stored.parities)) throw new Error('the stored parities are wrong')
}

/** Every record that is stored is the one of this epoch. */
async function assertStoredWhole({ store }: Disk, hint: string, version: Version, newest: Uint8Array): Promise<void> {
  const { checkpoint, manifest: bytes, entries } = await store.readHint(Buffer.from(hint, 'hex'))
  const [then, now] = [decodeManifest(bytes), decodeManifest(newest)]
  const layout = layoutHandle(core, then)
  const local = fromStored(core, checkpoint, form =>
    core.resumeLocal(form, layout, then.contentHashes, core.blake3(bytes)),
  )
  try {
    for (const entry of entries) local.replay(entry)
    for (let q: number | undefined = 0; q !== undefined; ) q = local.arrive(now.contentHashes, q)
    const all = local.records(Uint32Array.from({ length: now.records }, (_, index) => index))
    for (let index = 0; index < now.records; index++) {
      const record = all.subarray(index * now.recordBytes, (index + 1) * now.recordBytes)
      if (hexOf(record) !== hexOf(recordAt(version, index, now))) throw new Error('a stored record is wrong')
    }
  } finally {
    local.free()
    layout.free()
  }
}

/** Hints for one server are stored, of this epoch, and a server with these records answers them rightly. */
async function assertStoredSingle({ store }: Disk, head: Head, version: Version, newest: Uint8Array): Promise<void> {
  const hintId = Buffer.from(head.hint, 'hex')
  const stored = await store.readHint(hintId)
  const { checkpoint, manifest: bytes, entries } = stored
  const [then, now] = [decodeManifest(bytes), decodeManifest(newest)]
  const layout = layoutHandle(core, then)
  const hints = reopenSingle(core, checkpoint, layout, core.blake3(bytes))
  try {
    for (const entry of entries) hints.replay(entry)
    if (hexOf(hints.hintId) !== head.hint || hints.version !== head.version) throw new Error('other hints are stored')
    const recordsOf = (q: number) =>
      Array.from({ length: now.partitionRecords }, (_, m) => recordAt(version, q * now.partitionRecords + m, now))
    const partitions = Array.from({ length: now.partitions }, (_, q) => Buffer.concat(recordsOf(q)))
    for (const index of [0, now.records >> 1, now.records - 1].slice(0, hints.left)) {
      hints.query(Uint32Array.of(index), new Uint8Array(32)) // of a copy, which is thrown away
      const wanted = hints.wants()
      if (wanted.length > 0) hints.hold(await store.readRow(hintId, hexOf(wanted), stored.version))
      if (!hints.verify(answer(now, partitions, hints.request()))) throw new Error('the stored tags are wrong')
      if (hexOf(hints.recon()) !== hexOf(recordAt(version, index, now)))
        throw new Error('the stored parities are wrong')
    }
  } finally {
    hints.free()
    layout.free()
  }
}

/** Checks that tabs have the same directory, byte for byte. (That of an earlier hint may be there until the tab's next call.) */
export function assertDirectory(tab: Tab, fresh: Tab): void {
  const [own, other] = [tab, fresh].map(({ directories }) => [...directories].map(each => hexOf(each.encode())).at(-1))
  // Hints that run out are made beside others.
  if (tab.directories.size > (tab.map?.mode === 'single' ? 3 : 2))
    throw new Error(`${tab.name} keeps ${tab.directories.size} directories`)
  if (own !== other) throw new Error(`${tab.name} and a new client have different directories`)
}

function recordAt(
  version: Version,
  index: number,
  shape: { recordBytes: number; valueBytes: number; keyed: boolean; variable: boolean },
): Uint8Array {
  const slot = version.slots[index]
  if (slot === undefined) return new Uint8Array(shape.recordBytes)
  const print = slot.key === undefined ? new Uint8Array() : fingerprint(bytesOf(slot.key))
  return encodeRecord(shape, { fingerprint: print, value: slot.value })
}
