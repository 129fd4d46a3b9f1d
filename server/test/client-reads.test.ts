// What anybody asks of epochs leaves the storage to the fence and the publisher.

import { toHex } from '@keyhush/protocol'
import type { FastifyRequest } from 'fastify'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Reads } from '../dist/http/limits/reads.js'
import { MemoryStorage } from '../dist/index.js'
import { builtDirectory, createIn, running } from './helpers.js'
import { batchOn, bodyOf, KEYED, opened } from './updatable-helpers.js'

/** Counts reads, and can hold back those of lists and manifests. */
class CountingStorage extends MemoryStorage {
  reads = 0
  underWay = 0
  most = 0
  #held: Promise<void> | undefined

  /** Returns what lets them go on. */
  hold(): () => void {
    let release = () => {}
    this.#held = new Promise(resolve => {
      release = resolve
    })
    return () => {
      this.#held = undefined
      release()
    }
  }

  override async get(key: string): Promise<Uint8Array | undefined> {
    this.reads++
    if (/^(list|manifest)\//.test(key)) {
      this.underWay++
      this.most = Math.max(this.most, this.underWay)
      await this.#held
      this.underWay--
    }
    return super.get(key)
  }
}

const EPOCHS = 13

/** As it is after so many epochs and a new start. */
async function published() {
  const storage = new CountingStorage()
  await createIn(storage, await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 }))
  const updatable = await opened(storage, { history: EPOCHS - 3 })
  const made = [await publish(updatable, 2)]
  for (let epoch = 3; epoch <= EPOCHS; epoch++) made.push(await publish(updatable, epoch))
  return { storage, updatable, made }
}

type Updatable = Awaited<ReturnType<typeof opened>>

const publish = (updatable: Updatable, epoch: number) =>
  updatable.publish(batchOn(updatable, [{ op: 'edit', key: 'one', value: `${epoch}` }]))

test('what became of an epoch is said without a read of the storage, whichever it is, also after a start', async () => {
  const { storage, updatable, made } = await published()
  for (const each of [updatable, await opened(storage, { history: EPOCHS - 3 })]) {
    const app = await running({ datasets: [{ updatable: each }], instant: false, oneServer: false })
    const before = storage.reads
    for (let epoch = 1; epoch <= EPOCHS + 2; epoch++) {
      const reply = await app.inject(`/v1/epochs/${epoch}`)
      const known = epoch >= 3 && epoch <= EPOCHS
      expect([epoch, reply.statusCode]).toEqual([epoch, known ? 200 : 404])
      if (known) expect(reply.json()).toEqual(made[epoch - 2])
    }
    // Nor is anything else of an epoch that has been forgotten.
    for (const path of ['/v1/manifest?generation=1&epoch=2', '/v1/manifests?since=1']) {
      expect((await app.inject(path)).statusCode, path).toBe(404)
    }
    expect(storage.reads).toBe(before)
  }
})

test('clients read a few things of the storage at once; fence and publisher do not wait for them', async () => {
  const { storage, made } = await published()
  const updatable = await opened(storage, { history: EPOCHS - 3 })
  storage.most = 0
  const release = storage.hold()
  onTestFinished(release)
  const hash = toHex(updatable.newest.manifest.updateListHash)
  const asked = [
    ...Array.from({ length: 20 }, () => bodyOf(updatable, hash)),
    ...made.slice(2).map(({ generation, epoch }) => updatable.manifestOf(generation, epoch)),
  ]
  await vi.waitFor(() => expect(storage.underWay).toBeGreaterThanOrEqual(4))
  expect(storage.underWay).toBe(4)
  const { databaseId } = updatable
  const [hintId, requestHash] = [new Uint8Array(16), new Uint8Array(32)]
  expect(await updatable.fence.judge({ kind: 'register', databaseId, hintId, version: 0, requestHash })).toBe('granted')
  expect(await publish(updatable, EPOCHS + 1)).toMatchObject({ epoch: EPOCHS + 1 })
  expect(storage.underWay).toBe(4)
  release()
  for (const bytes of await Promise.all(asked)) expect(bytes).toBeDefined()
  expect(storage.most).toBe(4)
})

test('few requests wait for manifests of the past, and a network with fewer gets in', async () => {
  const { storage } = await published()
  const updatable = await opened(storage, { history: EPOCHS - 3 })
  const app = await running({ datasets: [{ updatable }], instant: false, oneServer: false, trustProxy: 'loopback' })
  const release = storage.hold()
  onTestFinished(release)
  const ask = (network: number) =>
    app.inject({ url: '/v1/manifests?since=3', headers: { 'x-forwarded-for': `198.51.${network}.1` } })
  const crowd = Array.from({ length: 2 * 128 }, (_, i) => ask(i % 2))
  await vi.waitFor(() => expect(storage.underWay).toBe(1))
  const refused = await ask(0)
  expect([refused.statusCode, refused.json().code, refused.headers['retry-after']]).toEqual([429, 'rate_limited', '1'])
  const newcomers = [ask(2), ask(3)]
  expect((await app.inject('/v1/manifest')).statusCode).toBe(200)
  release()
  for (const { statusCode } of await Promise.all(newcomers)) expect(statusCode).toBe(200)
  const statuses = (await Promise.all(crowd)).map(({ statusCode }) => statusCode)
  expect([200, 429].map(status => statuses.filter(each => each === status).length)).toEqual([254, 2])
  expect((await ask(0)).statusCode).toBe(200)
})

test('a request that had to leave reads nothing more', async () => {
  const reads = new Reads()
  const from = (ip: string) => ({ ip, raw: { socket: {} } }) as FastifyRequest
  const never = () => new Promise<never>(() => {})
  for (let i = 1; i < 256; i++) void reads.wait(from('198.51.100.1'), never)
  let goOn = () => {}
  const newest = reads.wait(from('198.51.100.1'), assertWaits => {
    goOn = assertWaits
    return never()
  })
  expect(goOn).not.toThrow()
  const newcomer = reads.wait(from('203.0.113.1'), async () => 'read')
  await expect(newest).rejects.toMatchObject({ code: 'rate_limited' })
  expect(goOn).toThrow('too many requests wait')
  expect(await newcomer).toBe('read')
})

test('manifests that have gone from memory count for the rate of a client, and no others', async () => {
  const { storage } = await published()
  const updatable = await opened(storage, { history: EPOCHS - 3 })
  const made = [await publish(updatable, EPOCHS + 1), await publish(updatable, EPOCHS + 2)]
  const app = await running({ datasets: [{ updatable }], instant: false, oneServer: false, rateLimit: 2 })
  const statusOf = async (path: string) => (await app.inject(path)).statusCode
  const newest = `/v1/manifest?generation=1&epoch=${made[1]!.epoch}`
  const ofFollowers = ['/v1/manifest', newest, `/v1/manifests?since=${EPOCHS}`, `/v1/manifests?since=${EPOCHS + 2}`]
  for (const path of [...ofFollowers, ...ofFollowers]) expect(await statusOf(path)).toBe(200)
  const past = ['/v1/manifests?since=6', '/v1/manifest?generation=1&epoch=7', '/v1/manifest?generation=1&epoch=9']
  const statuses: number[] = []
  for (const path of [...past, ...ofFollowers]) statuses.push(await statusOf(path))
  expect(statuses).toEqual([200, 200, 429, 200, 200, 200, 200])
})

test('numbers that no epoch has leave no request waiting', async () => {
  const { updatable } = await published()
  const app = await running({ datasets: [{ updatable }], instant: false, oneServer: false })
  for (let i = 0; i < 300; i++) {
    expect((await app.inject('/v1/manifest?generation=1&epoch=4294967296')).statusCode).toBe(400)
  }
  expect((await app.inject('/v1/manifest?generation=1&epoch=4')).statusCode).toBe(200)
  const reads = new Reads()
  const from = { ip: '198.51.100.1', raw: { socket: {} } } as FastifyRequest
  const throwing = () => {
    throw new Error('at once')
  }
  for (let i = 0; i < 300; i++) await expect(reads.wait(from, throwing)).rejects.toThrow('at once')
})
