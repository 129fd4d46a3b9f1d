// Publishing at more than two servers: all make every epoch; those behind catch up from one that has it; one that differs stops it.

import { toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { expect, onTestFinished, test } from 'vitest'
import { createServer, MemoryStorage, PublisherRecord, type PublishOptions, publish } from '../dist/index.js'
import { builtDirectory, createIn } from './helpers.js'
import { KEYED, opened } from './updatable-helpers.js'

const SECRET = new Uint8Array(32).fill(7)
const KEY = { publicKey: ed25519.getPublicKey(SECRET), secretKey: SECRET }

async function served(dir: string) {
  const updatable = await opened(await createIn(new MemoryStorage(), dir))
  const app = await createServer({ datasets: [{ updatable, publisherKeys: [KEY.publicKey] }] })
  onTestFinished(async () => {
    app.server.closeAllConnections()
    await app.close()
  })
  return { updatable, url: await app.listen({ port: 0, host: '127.0.0.1' }) }
}

const operations = (value: string) => new TextEncoder().encode(`${JSON.stringify({ op: 'edit', key: 'one', value })}\n`)

async function four() {
  const dir = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  const servers = await Promise.all([1, 2, 3, 4].map(() => served(dir)))
  const { manifest, manifestHash } = servers[0]!.updatable.newest
  const recordOfBuilt = async () => {
    const record = new PublisherRecord()
    await record.addManifest({ databaseId: toHex(manifest.databaseId), epoch: 1, hash: manifestHash })
    return record
  }
  const record = await recordOfBuilt()
  const publishAt = (which: readonly number[], options: Partial<PublishOptions>) =>
    publish({ servers: which.map(i => servers[i]!.url), key: KEY, record, ...options })
  const epochs = () => servers.map(({ updatable }) => updatable.newest.manifest.epoch)
  const hashes = () => new Set(servers.map(({ updatable }) => updatable.newest.manifestHash))
  return { servers, recordOfBuilt, publishAt, epochs, hashes }
}

const ALL = [0, 1, 2, 3]

test('all servers make the epoch, and a second run finds it made', async () => {
  const { servers, publishAt, epochs, hashes } = await four()
  expect(await publishAt(ALL, { operations: operations('a') })).toMatchObject({ epoch: 2, repeated: false })
  expect([epochs(), hashes().size]).toEqual([[2, 2, 2, 2], 1])
  expect(await publishAt(ALL, { operations: operations('a') })).toMatchObject({ epoch: 2, repeated: true })
  for (const { updatable } of servers) {
    const of = updatable.signatures().filter(({ epoch }) => epoch === 2)
    expect(of).toHaveLength(1)
  }
})

test('a run that reached some servers alone is completed by the next, whichever they were', async () => {
  for (const reached of [
    [0, 2],
    [1, 3],
    [2, 3],
    [0, 1, 3],
  ]) {
    const { publishAt, epochs, hashes } = await four()
    await publishAt(reached, { operations: operations('a') })
    await expect(publishAt(ALL, { operations: operations('b') })).rejects.toThrow('first publish that batch again')
    expect(await publishAt(ALL, { operations: operations('a') })).toMatchObject({ epoch: 2 })
    expect([epochs(), hashes().size]).toEqual([[2, 2, 2, 2], 1])
  }
})

test('servers that are behind by different numbers of epochs catch up', async () => {
  const { publishAt, epochs, hashes } = await four()
  await publishAt([0, 1, 2], { operations: operations('a') })
  for (const value of ['b', 'c']) await publishAt([0, 2], { operations: operations(value) })
  expect(epochs()).toEqual([4, 2, 4, 1])
  await expect(publishAt(ALL, { operations: operations('d') })).rejects.toThrow('--catch-up')
  expect(await publishAt(ALL, { missed: ['c', 'a', 'b'].map(operations) })).toMatchObject({ epoch: 4, caughtUp: 3 })
  expect([epochs(), hashes().size]).toEqual([[4, 4, 4, 4], 1])
})

test('one that differs stops it before anything is sent', async () => {
  const { recordOfBuilt, publishAt, epochs } = await four()
  await publishAt([0, 1], { operations: operations('a') })
  await publishAt([2, 3], { operations: operations('b'), record: await recordOfBuilt() })
  await expect(publishAt(ALL, { operations: operations('c') })).rejects.toThrow('THE SERVERS HAVE DIVERGED')
  expect(epochs()).toEqual([2, 2, 2, 2])
  await expect(publishAt([0, 1, 0], {})).rejects.toThrow('got one origin twice')
})
