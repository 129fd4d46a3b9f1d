// Bases and patches of databases that change, for lookups with one server: right by an independent computation, and the same at every copy,
// after every start, and from an export.

import { join } from 'node:path'
import {
  contentHash,
  decodeManifest,
  encodeManifest,
  equalBytes,
  isZero,
  type Manifest,
  partitionBytes,
  toHex,
} from '@keyhush/protocol'
import { type Core, loadCore } from '@keyhush/wasm'
import { blake3 } from '@noble/hashes/blake3.js'
import { beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { PUBLISHER } from '../../tests/support/publishing.js'
import { buildInto, temporaryFolder } from '../../tests/support/servers.js'
import { Chance } from '../../tests/world/chance.js'
import { MisfitError } from '../dist/database/taking.js'
import { loadDataset, MemoryStorage, UpdatableDatabase, type UpdatableOptions } from '../dist/index.js'
import { Prepared } from '../dist/one-server/prepared.js'
import { exportDataset } from '../dist/publisher/export.js'
import { createIn, listening, pseudoRandom, temporaryDirectory } from './helpers.js'
import { batchOn, bodyOf, opened, RememberingStorage, signatureOf } from './updatable-helpers.js'

const EXPIRES = 4_000_000_000
const [RECORDS, RECORD_BYTES] = [300, 24]
const KINDS = ['keyless', 'keyed'] as const
type Kind = (typeof KINDS)[number]

/** For all tests: a hint takes a second to make. */
const built = new Map<Kind, string>()
let core: Core
beforeAll(async () => {
  core = await loadCore()
  const lines = Array.from({ length: 60 }, (_, i) => `key ${i},value ${i}\n`)
  const data = {
    keyless: { format: 'bin', content: pseudoRandom(RECORDS * RECORD_BYTES), recordBytes: RECORD_BYTES },
    keyed: { format: 'csv', content: `key,value\n${lines.join('')}`, maxValueBytes: 20, headroom: 60 },
  } as const
  const folders = await Promise.all(KINDS.map(temporaryFolder))
  for (const [i, kind] of KINDS.entries()) {
    built.set(kind, await buildInto(folders[i]!.path, { ...data[kind], oneServer: true, expires: EXPIRES }))
  }
  return async () => void (await Promise.all(folders.map(folder => folder.remove())))
})

const begun = async (kind: Kind) => await createIn(new RememberingStorage(), built.get(kind)!)
/** A copy that answers nothing: what it makes is the same. */
const copyIn = (storage: MemoryStorage, options: UpdatableOptions = {}) =>
  opened(storage, { oneServer: false, history: 2, ...options })
const publish = (updatable: UpdatableDatabase, operations: readonly object[]) =>
  updatable.publish(batchOn(updatable, operations, { encoding: 'hex', expires: EXPIRES }))
const hex = (bytes: Uint8Array) => toHex(bytes)

/** All records of the newest epoch, by its partitions. */
async function recordsOf(updatable: UpdatableDatabase): Promise<Uint8Array> {
  const { manifest } = updatable.newest
  const parts: Uint8Array[] = []
  for (let q = 0; q < manifest.partitions; q++) parts.push(await bodyOf(updatable, contentHash(manifest, q)))
  expect(parts.every(part => part.length === partitionBytes(manifest))).toBe(true)
  return Buffer.concat(parts).subarray(0, manifest.records * manifest.recordBytes)
}

/** The entries of a patch by the records before and after. */
function entriesBetween(before: Uint8Array, after: Uint8Array, { keyed, recordBytes }: Manifest): Buffer {
  const entries: { kind: number; bytes: Buffer }[] = []
  for (let index = 0; index * recordBytes < after.length; index++) {
    const [old, now] = [before, after].map(all => all.subarray(index * recordBytes, (index + 1) * recordBytes))
    if (equalBytes(old!, now!)) continue
    const kind = keyed && isZero(now!) ? 3 : old!.length === 0 || (keyed && isZero(old!)) ? 1 : 2
    const bytes = Buffer.alloc(5 + recordBytes)
    bytes.writeUInt32LE(index)
    bytes[4] = kind
    bytes.set(kind === 3 ? old!.subarray(0, 16) : now!, 5)
    entries.push({ kind, bytes })
  }
  const deletes = entries.filter(({ kind }) => kind === 3)
  return Buffer.concat([...deletes, ...entries.filter(({ kind }) => kind !== 3)].map(({ bytes }) => bytes))
}

/** The records to which a patch leads, from others. */
function patched(records: Uint8Array, patch: Uint8Array, { recordBytes, records: count }: Manifest): Buffer {
  const all = Buffer.alloc(count * recordBytes)
  all.set(records)
  const bytes = Buffer.from(patch)
  for (let at = 0; at < bytes.length; at += 5 + recordBytes) {
    const record = bytes[at + 4] === 3 ? Buffer.alloc(recordBytes) : bytes.subarray(at + 5, at + 5 + recordBytes)
    all.set(record, bytes.readUInt32LE(at) * recordBytes)
  }
  return all
}

/** The most bytes of a patch. */
function boundOf({ keyed, records, recordBytes, directoryBlockLog, directoryBlockBytes }: Manifest): number {
  const hint = (records: number, recordBytes: number) => core.oneServerSizes({ records, recordBytes }).hintBytes
  return hint(records, recordBytes) + (keyed ? hint(2 ** directoryBlockLog, directoryBlockBytes) : 0)
}

/** Batches at random, of keys or indices that are there or not. */
class Batches {
  readonly #chance: Chance
  readonly #keyed: boolean
  /** keys that are there, or all indices */
  readonly #there = new Set<number>()
  #value = 0

  constructor(seed: number, kind: Kind) {
    this.#chance = new Chance(seed)
    this.#keyed = kind === 'keyed'
    for (let i = 0; i < (this.#keyed ? 60 : RECORDS); i++) this.#there.add(i)
  }

  get chance(): Chance {
    return this.#chance
  }

  next(most: number): object[] {
    if (this.#chance.happens(0.1)) return [{ op: 'renew' }]
    const touched = new Set<number>()
    const count = this.#chance.between(1, most)
    const operations: object[] = []
    while (operations.length < count) {
      const n = this.#chance.below(this.#keyed ? 90 : RECORDS)
      if (touched.has(n)) continue
      touched.add(n)
      operations.push(...(this.#keyed ? this.#ofKey(n) : this.#ofIndex(n)))
    }
    return operations
  }

  #ofIndex(index: number): object[] {
    return [
      this.#chance.happens(0.2) ? { op: 'add', value: this.#bytes(24) } : { op: 'edit', index, value: this.#bytes(24) },
    ]
  }

  #ofKey(n: number): object[] {
    const key = `key ${n}`
    const key_ = this.#there.has(n)
    if (!key_) {
      this.#there.add(n)
      return [{ op: 'add', key, value: this.#bytes(9) }]
    }
    if (this.#chance.happens(0.5)) return [{ op: 'edit', key, value: this.#bytes(9) }]
    if (this.#chance.happens(0.3))
      return [
        { op: 'delete', key },
        { op: 'add', key, value: this.#bytes(9) },
      ]
    this.#there.delete(n)
    return [{ op: 'delete', key }]
  }

  /** Others each time. */
  #bytes(length: number): string {
    const bytes = Buffer.alloc(length, 7)
    bytes.writeUInt32LE(++this.#value)
    return bytes.toString('hex')
  }
}

const decoded = (bytes: Uint8Array) => decodeManifest(bytes)
const listOf = async (updatable: UpdatableDatabase, { updateListHash }: Manifest) =>
  Uint8Array.from(await bodyOf(updatable, updateListHash))
const fieldsOf = ({ newest }: UpdatableDatabase) => newest.manifest.oneServer!
const patchOf = async (updatable: UpdatableDatabase) => {
  const { patchBytes, patchHash } = fieldsOf(updatable)
  return patchBytes === 0 ? Buffer.alloc(0) : Buffer.from(updatable.newest.oneServer!.patch(toHex(patchHash))!)
}

for (const kind of KINDS)
  test(`at random, ${kind}: patch and base are what the records say, whoever makes the epoch, and after every start`, async () => {
    const batches = new Batches(1, kind)
    const storage = await begun(kind)
    const kept = await copyIn(storage)
    let other = await copyIn(await storage.asOf(storage.transactions))
    let base = await recordsOf(kept)
    let [before, patch, bases] = [base, Buffer.alloc(0), 0]
    let bound = boundOf(kept.newest.manifest)
    while (bases < 1 || patch.length < 100) {
      const operations = batches.next(24)
      await publish(kept, operations)
      if (batches.chance.happens(0.3)) other = await copyIn(await storage.asOf(storage.transactions))
      else await publish(other, operations)
      const { manifest } = kept.newest
      const after = await recordsOf(kept)
      const entries = entriesBetween(before, after, manifest)
      const isOwn = patch.length + entries.length > bound
      patch = isOwn ? Buffer.alloc(0) : Buffer.concat([patch, entries])
      if (isOwn) {
        base = after
        bases += 1
        bound = boundOf(manifest)
      }
      before = after
      expect(other.newest.manifestHash).toBe(kept.newest.manifestHash)
      const { baseEpoch, baseRecords, patchBytes, patchHash } = fieldsOf(kept)
      expect(isOwn).toBe(baseEpoch === manifest.epoch)
      expect([baseRecords, patchBytes]).toEqual([base.length / manifest.recordBytes, patch.length])
      expect(hex(patchHash)).toBe(hex(patch.length === 0 ? new Uint8Array(32) : blake3(patch)))
      for (const copy of [kept, other]) expect(hex(await patchOf(copy))).toBe(hex(patch))
      expect(hex(patched(base, patch, manifest))).toBe(hex(after))
    }
    const last = await copyIn(await storage.asOf(storage.transactions))
    for (const copy of [kept, other, last]) await copy.checkHint() // of the base, led back to
  })

const key = (n: number) => `key ${n}`
const edit = (n: number, value = 'aa') => ({ op: 'edit', key: key(n), value })

test('a new generation is its own base, and its patch begins anew', async () => {
  const updatable = await copyIn(await begun('keyed'))
  await publish(updatable, [edit(1), { op: 'delete', key: key(2) }])
  expect(fieldsOf(updatable)).toMatchObject({ baseEpoch: 1, patchBytes: 2 * 43 })
  await publish(updatable, [{ op: 'generation', headroom: 100 }])
  const { manifest } = updatable.newest
  expect(manifest).toMatchObject({ generation: 2, epoch: 3, records: manifest.oneServer!.baseRecords })
  await publish(updatable, [{ op: 'renew' }])
  expect(fieldsOf(updatable)).toMatchObject({ baseEpoch: 3, patchBytes: 0 })
  await publish(updatable, [edit(3)])
  expect(fieldsOf(updatable)).toMatchObject({ baseEpoch: 3, patchBytes: 43 })
  await updatable.checkHint()
})

test('an epoch is taken up only if it names the base and patch that come of its list', async () => {
  const source = await copyIn(await begun('keyed'))
  await publish(source, [edit(1)])
  await publish(source, [edit(2)])
  const second = (await source.manifestOf(1, 2))!
  const lists = [await listOf(source, decoded(second)), await listOf(source, source.newest.manifest)]
  const { manifest } = source.newest
  const fields = manifest.oneServer!
  const short = { ...fields, patchBytes: 43, patchHash: decoded(second).oneServer!.patchHash }
  const none = new Uint8Array(32)
  const lies = {
    'what is so': fields,
    'another patch': { ...fields, patchHash: blake3(none) },
    'the patch of the epoch before': short,
    'itself as its base': { ...fields, baseEpoch: 3, baseRecords: manifest.records, patchBytes: 0, patchHash: none },
    'another hint': { ...fields, hintHash: blake3(none) },
  }
  for (const [name, oneServer] of Object.entries(lies)) {
    const auditor = await copyIn(await begun('keyed'))
    await auditor.take({ manifest: decoded(second), bytes: second }, lists[0])
    const lie = { ...manifest, oneServer }
    const taken = auditor.take({ manifest: lie, bytes: encodeManifest(lie) }, lists[1])
    if (oneServer === fields) expect(await taken).toBe(1)
    else await expect(taken, name).rejects.toThrow(MisfitError)
  }
})

test('an export has what leads back to the base, and so has an export of what is begun with it', async () => {
  const folder = await temporaryDirectory()
  const source = await copyIn(await begun('keyed'))
  for (let n = 0; n < 6; n++) await publish(source, [edit(n), { op: 'delete', key: key(10 + n) }])
  let served = source
  for (const name of ['first', 'second']) {
    await served.addSignature(signatureOf(served))
    const { url } = await listening({ datasets: [{ updatable: served }] })
    const out = join(folder, name)
    await exportDataset({ server: url, out, publisherKey: PUBLISHER.publicKey })
    const dataset = await loadDataset(out)
    expect(dataset.manifestHash).toBe(source.newest.manifestHash)
    dataset.close()
    const storage = await createIn(new MemoryStorage(), out)
    served = await copyIn(storage)
    await served.checkHint()
    for (const copy of new Set([source, served])) await publish(copy, [edit(20)])
    expect(served.newest.manifestHash).toBe(source.newest.manifestHash)
  }
})

test('a publisher makes the public hint of a base anew once, not at every epoch', async () => {
  const begin = vi.spyOn(Prepared, 'begin')
  onTestFinished(() => begin.mockRestore())
  const storage = await begun('keyed')
  for (const n of [1, 2, 3]) {
    const copy = await UpdatableDatabase.open(storage, { oneServer: false })
    await copy.checkHint()
    await publish(copy, [edit(n)])
    await copy.close()
  }
  expect(begin).toHaveBeenCalledTimes(1)
})

test('renewals do not let what is kept grow: 1 024 epochs after its base an epoch is the last that has it', async () => {
  const updatable = await copyIn(await begun('keyless'))
  const renew = async () => {
    await publish(updatable, [{ op: 'renew' }])
    return updatable.newest.manifest
  }
  let last = await renew()
  while (last.epoch < 1025) last = await renew()
  expect(last.oneServer?.baseEpoch).toBe(1)
  const next = await renew()
  expect(next.oneServer).toEqual({ ...last.oneServer, baseEpoch: 1026 })
})
