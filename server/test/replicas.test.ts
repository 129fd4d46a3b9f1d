// Several processes that answer from one PostgreSQL store, here in one process, each with connections of its own.
// tests/soak/killed-replicas.ts kills real ones.

import { decodeAnswer, entryBytes, equalBytes, type Manifest, toHex } from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import { expect, onTestFinished, test, vi } from 'vitest'
import { queryStore } from '../../tests/support/postgres.js'
import { PUBLISHER } from '../../tests/support/publishing.js'
import { thoroughly } from '../../tests/support/thoroughly.js'
import { usePostgres } from '../../tests/support/use-postgres.js'
import { openPostgres, PublisherRecord, publish, UpdatableDatabase } from '../dist/index.js'
import { Prepared } from '../dist/one-server/prepared.js'
import {
  builtDirectory,
  type Choices,
  createIn,
  latch,
  listening,
  post,
  queryAt,
  running,
  vectors,
  verifiedRecord,
} from './helpers.js'
import { batchOn, bodyOf, contents, KEYED, numbers, refusal, signatureOf } from './updatable-helpers.js'

const { store: storeUrl } = usePostgres()

async function begun(choices: Choices = {}): Promise<string> {
  const url = storeUrl()
  const dir = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20, ...choices })
  await (await createIn(await openPostgres(url), dir)).close()
  return url
}

/** `hold`: what it waits for before it reads a manifest, once it has joined. */
async function joined(url: string, replica: boolean, hold?: () => Promise<void>): Promise<UpdatableDatabase> {
  const storage = await openPostgres(url, { role: replica ? 'replica' : 'writer' })
  const updatable = await UpdatableDatabase.open(storage, { replica })
  onTestFinished(() => left(updatable))
  const get = storage.get.bind(storage)
  if (hold === undefined) return updatable
  storage.get = async key => {
    if (key.startsWith('manifest/')) await hold()
    return get(key)
  }
  return updatable
}

const gone = new WeakSet<UpdatableDatabase>()

async function left(updatable: UpdatableDatabase): Promise<void> {
  if (!gone.has(updatable)) await updatable.close()
  gone.add(updatable)
}

const add = (key: string) => ({ op: 'add', key, value: `value of ${key}` })

/** Resolves once it shows that epoch. */
async function showing(updatable: UpdatableDatabase, epoch: number): Promise<void> {
  if (updatable.newest.manifest.epoch >= epoch) return
  await new Promise<void>(resolve => {
    const stop = updatable.signed.listen(event => {
      if (event.epoch < epoch) return
      stop()
      resolve()
    })
  })
}

/** They show the same epochs, manifests, blobs and records. */
async function expectSame(one: UpdatableDatabase, other: UpdatableDatabase): Promise<void> {
  // A writer does not wait until it shows what it has published.
  const newest = Math.max(...[one, other].map(each => each.newest.manifest.epoch))
  for (const each of [one, other]) await showing(each, newest)
  const { manifest, manifestBytes } = one.newest
  expect(equalBytes(other.newest.manifestBytes, manifestBytes)).toBe(true)
  expect(other.list()).toEqual(one.list())
  expect(await contents(other)).toEqual(await contents(one))
  for (const epoch of one.list()) expect(other.status(epoch.epoch)).toEqual(one.status(epoch.epoch))
  expect(await bodyOf(other, manifest.directoryHash)).toEqual(await bodyOf(one, manifest.directoryHash))
  if (manifest.updateListBytes > 0) {
    expect(await bodyOf(other, manifest.updateListHash)).toEqual(await bodyOf(one, manifest.updateListHash))
  }
  expect(await other.since(1)).toEqual(await one.since(1))
}

thoroughly(
  'replicas take up every epoch and generation, and are what the writer is; also those that come later',
  async () => {
    const url = await begun()
    const writer = await joined(url, false)
    const replicas = [await joined(url, true), await joined(url, true)]
    for (const operations of [
      [add('four')],
      [
        { op: 'edit', key: 'one', value: 'other' },
        { op: 'delete', key: 'two' },
      ],
      Array.from({ length: 40 }, (_, n) => add(`more ${n}`)),
      [{ op: 'generation', headroom: 10 }],
      [add('five')],
    ]) {
      const { epoch } = await writer.publish(batchOn(writer, operations))
      for (const replica of replicas) {
        await showing(replica, epoch)
        await expectSame(writer, replica)
      }
    }
    expect(writer.list().map(numbers)).toEqual(['1.4', '2.5', '2.6'])
    const late = await joined(url, true)
    await expectSame(writer, late)
    expect(late.behind).toBeUndefined()
    // A writer that begins again, and others that stay.
    await left(writer)
    const again = await joined(url, false)
    await again.publish(batchOn(again, [add('six')]))
    for (const replica of [...replicas, late]) {
      await showing(replica, 7)
      await expectSame(again, replica)
    }
  },
)

thoroughly('a replica follows base and patch, also one that comes later, and prepares each base once', async () => {
  const begin = vi.spyOn(Prepared, 'begin')
  onTestFinished(() => begin.mockRestore())
  const expires = 4_000_000_000
  const url = await begun({ oneServer: true, expires, headroom: 1000 })
  const writer = await joined(url, false)
  const replica = await joined(url, true)
  begin.mockClear()
  const patches: (string | undefined)[] = []
  for (const [count, bases] of [
    [1, 1],
    [2, 1],
    [900, 2],
    [1, 2],
  ] as const) {
    const operations = Array.from({ length: count }, (_, n) => add(`new ${patches.length} ${n}`))
    const { epoch } = await writer.publish(batchOn(writer, operations, { expires }))
    for (const each of [writer, replica]) await showing(each, epoch)
    const { manifest } = writer.newest
    const patchOf = ({ newest }: UpdatableDatabase) => newest.oneServer!.patch(toHex(manifest.oneServer!.patchHash))
    expect(toHex(replica.newest.manifestBytes)).toBe(toHex(writer.newest.manifestBytes))
    expect(patchOf(replica)).toEqual(patchOf(writer))
    expect([replica, writer].map(each => each.bases.length)).toEqual([bases, bases])
    patches.push(patchOf(replica) && toHex(patchOf(replica)!))
  }
  expect(patches.map(patch => (patch === undefined ? 0 : patch.length / 2))).toEqual([43, 3 * 43, 0, 43])
  expect(begin).toHaveBeenCalledTimes(2) // each of them, the third epoch
  const late = await joined(url, true)
  expect(late.newest.oneServer!.isOf(writer.newest.manifest)).toBe(true)
  for (const { bases } of [writer, replica, late])
    for (const base of bases) expect(await base.prepared!.made).toHaveLength(base.prepared!.hint!.length)
})

test('a replica and the writer answer at both epochs, the same, while batches are written', async () => {
  const url = await begun()
  const [writer, replica] = [await joined(url, false), await joined(url, true)]
  const servers = await Promise.all([writer, replica].map(updatable => running({ datasets: [{ updatable }] })))
  /** From each of them; every record proved by the manifest. */
  const expectAnswered = async (manifest: Manifest) => {
    for (const app of servers) {
      const { statusCode, rawPayload } = await post(app, '/v1/answer', queryAt(manifest, 0, 1, 'merkle'))
      expect(statusCode).toBe(200)
      const [entries, each] = [decodeAnswer(manifest, 1, rawPayload, 'merkle'), entryBytes(manifest)]
      for (let q = 0; q < manifest.partitions; q++) {
        verifiedRecord(manifest, q, 0, entries.subarray(q * each, (q + 1) * each))
      }
    }
  }
  for (let round = 1; round <= 4; round++) {
    const before = writer.newest.manifest
    const operations =
      round === 3 ? [{ op: 'generation', headroom: 10 }] : [{ op: 'edit', key: 'one', value: `value ${round}` }]
    const publishing = writer.publish(batchOn(writer, operations))
    await expectAnswered(before)
    const { epoch } = await publishing
    for (const each of [writer, replica]) await showing(each, epoch)
    expect(replica.status(epoch)).toEqual(await publishing)
    for (const manifest of [before, writer.newest.manifest]) await expectAnswered(manifest)
  }
})

test('nobody shows an epoch before everybody has it; who has it answers it; its publisher does not wait', async () => {
  const url = await begun()
  const [reached, release] = [latch(), latch()]
  const writer = await joined(url, false)
  const quick = await joined(url, true)
  const slow = await joined(url, true, () => {
    reached.open()
    return release.opened
  })
  const batch = batchOn(writer, [add('four')])
  const told: number[] = []
  for (const each of [writer, quick]) each.signed.listen(({ epoch }) => void told.push(epoch))
  await writer.addSignature(signatureOf(writer))
  const made = await writer.publish(batch)
  expect(await writer.publish(batch)).toEqual(made) // a rerun does not wait either
  await reached.opened
  await expect.poll(() => quick.find(1, 2)).toBeDefined()
  expect([writer, quick, slow].map(each => each.newest.manifest.epoch)).toEqual([1, 1, 1])
  expect([writer.find(1, 2) !== undefined, slow.find(1, 2)]).toEqual([true, undefined])
  const offsets = vectors(Array(quick.newest.manifest.partitions).fill(0))
  expect(quick.newest.answer(offsets, 1)).toEqual(slow.newest.answer(offsets, 1))
  expect(await quick.manifestOf(1, 2)).toBeDefined()
  expect((await quick.since(1))!.length).toBe(0)
  const { directoryHash } = quick.find(1, 2)!.manifest
  expect(toHex(blake3(await bodyOf(quick, directoryHash)))).toBe(toHex(directoryHash))
  // It is signed before anybody shows it, and told once it is shown.
  await writer.addSignature(signatureOf(writer, PUBLISHER, writer.find(1, 2)))
  expect(told.filter(epoch => epoch > 1)).toEqual([])
  release.open()
  for (const each of [writer, quick, slow]) {
    await expect.poll(() => each.signed.told.manifest.epoch).toBe(2)
    await expectSame(writer, each)
  }
  await expect.poll(() => told.filter(epoch => epoch > 1).length).toBeGreaterThanOrEqual(2)
})

test('a publisher that runs again before replicas have loaded its epoch is told to run later, and not that servers have gone back', async () => {
  const dir = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  const release = latch()
  const writers: UpdatableDatabase[] = []
  const servers: string[] = []
  for (let i = 0; i < 2; i++) {
    const url = storeUrl()
    await (await createIn(await openPostgres(url), dir)).close()
    const updatable = await joined(url, false)
    await joined(url, true, () => release.opened)
    writers.push(updatable)
    servers.push((await listening({ datasets: [{ updatable, publisherKeys: [PUBLISHER.publicKey] }] })).url)
  }
  onTestFinished(release.open)
  const { manifestBytes, manifest } = writers[0]!.newest
  const record = new PublisherRecord()
  const databaseId = toHex(manifest.databaseId)
  await record.addManifest({ databaseId, epoch: manifest.epoch, hash: toHex(blake3(manifestBytes)) })
  const run = (...operations: object[]) => {
    const lines = Buffer.from(operations.map(operation => `${JSON.stringify(operation)}\n`).join(''))
    return publish({ servers, key: PUBLISHER, record, ...(operations.length > 0 && { operations: lines }) })
  }
  expect(await run(add('four'))).toMatchObject({ epoch: 2 })
  for (const operations of [[add('five')], []]) await expect(run(...operations)).rejects.toMatchObject({ exit: 3 })
  release.open()
  for (const writer of writers) await showing(writer, 2)
  expect(await run(add('five'))).toMatchObject({ epoch: 3 })
})

thoroughly(
  'who is gone, or takes too long, is not waited for; who was only slow is not ready until it has caught up',
  async () => {
    const url = await begun()
    const release = latch()
    const writer = await joined(url, false)
    const leaving = await joined(url, true)
    const slow = await joined(url, true, () => release.opened)
    onTestFinished(release.open) // before it is closed, which waits for it
    const app = await running({ datasets: [{ updatable: slow }], allowOrigins: [], instant: false })
    expect((await app.inject('/readyz')).statusCode).toBe(200)
    await left(leaving)
    const publishing = writer.publish(batchOn(writer, [add('four')]))
    await expect.poll(() => queryStore(url, 'SELECT wanted FROM schema.announcement')).toEqual([{ wanted: 2 }])
    await queryStore(url, `UPDATE schema.announcement SET wanted_at = wanted_at - interval '1 hour'`)
    await publishing
    await showing(writer, 2)
    expect([writer.newest.manifest.epoch, slow.newest.manifest.epoch]).toEqual([2, 1])
    await expect
      .poll(async () => (await app.inject('/readyz')).json().message)
      .toBe('loading epoch 2; still at epoch 1')
    release.open()
    await showing(slow, 2)
    await expectSame(writer, slow)
    await expect.poll(async () => (await app.inject('/readyz')).statusCode).toBe(200)
  },
)

test('a store that has gone back, as after a failover, is not served on: processes end, and begin again from it', async () => {
  const url = await begun()
  const processes = async () => [await joined(url, false), await joined(url, true)] as const
  const [writer, replica] = await processes()
  const failures = [writer, replica].map(
    each => new Promise<string>(resolve => (each.onFailure = ({ message }) => resolve(message))),
  )
  // As a standby that was behind is: what was committed last has never been.
  const tables = ['entries', 'announcement']
  for (const table of tables) await queryStore(url, `CREATE TABLE schema.${table}_then AS TABLE schema.${table}`)
  const lost = batchOn(writer, [add('four')])
  await writer.publish(lost)
  for (const each of [writer, replica]) await showing(each, 2)
  const back = tables.map(
    table => `DELETE FROM schema.${table}; INSERT INTO schema.${table} TABLE schema.${table}_then;`,
  )
  await queryStore(url, `BEGIN; ${back.join(' ')} COMMIT`)
  for (const failure of failures) expect(await failure).toMatch(/^the store has gone back: expected epoch 2/)
  for (const each of [writer, replica]) await left(each)
  // Who comes next is not held up by the epoch that never was.
  const [again, other] = await processes()
  expect([again, other].map(each => each.newest.manifest.epoch)).toEqual([1, 1])
  await again.publish(lost)
  await showing(other, 2)
  await expectSame(again, other)
})

test('a replica publishes nothing, and says so', async () => {
  const url = await begun()
  await joined(url, false)
  const replica = await joined(url, true)
  expect((await refusal(replica.publish(batchOn(replica, [add('four')])))).code).toBe('not_ready')
})
