// Publishing at more than two servers: all make every epoch; those behind catch up from one that has it; one that differs stops it.

import { toHex } from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import { expect, test } from 'vitest'
import { PUBLISHER } from '../../tests/support/publishing.js'
import { sampled } from '../../tests/support/thorough.js'
import { PublisherRecord, type PublishOptions, publish } from '../dist/index.js'
import { builtDirectory } from './helpers.js'
import { standIn } from './stand-in.js'
import { batchOn, KEYED, servedFrom } from './updatable-helpers.js'

const operations = (value: string) => new TextEncoder().encode(`${JSON.stringify({ op: 'edit', key: 'one', value })}\n`)

async function four() {
  const dir = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  const servers = await Promise.all([1, 2, 3, 4].map(() => servedFrom(dir, PUBLISHER.publicKey)))
  const { manifest, manifestHash } = servers[0]!.updatable.newest
  const recordOfBuilt = async () => {
    const record = new PublisherRecord()
    await record.addManifest({ databaseId: toHex(manifest.databaseId), epoch: 1, hash: manifestHash })
    return record
  }
  const record = await recordOfBuilt()
  const publishAt = (which: readonly number[], options: Partial<PublishOptions>) =>
    publish({ servers: which.map(i => servers[i]!.url), key: PUBLISHER, record, ...options })
  const epochs = () => servers.map(({ updatable }) => updatable.newest.manifest.epoch)
  const hashes = () => new Set(servers.map(({ updatable }) => updatable.newest.manifestHash))
  return { servers, recordOfBuilt, publishAt, epochs, hashes }
}

const ALL = [0, 1, 2, 3]

test('a run that reached some servers alone is completed by the next, whichever they were', async () => {
  const cases = [
    [0, 2],
    [1, 3],
    [2, 3],
    [0, 1, 3],
  ].flatMap(reached => ['a', 'b', undefined].map(next => ({ reached, next })))
  for (const { reached, next } of sampled(cases)) {
    const { servers, publishAt, epochs, hashes } = await four()
    // The expiry of the epoch that is there counts, whatever is said now.
    await publishAt(reached, { operations: operations('a'), expires: 4_000_000_000 })
    const epoch = next === 'b' ? 3 : 2
    const made = await publishAt(ALL, { operations: next === undefined ? undefined : operations(next) })
    expect(made).toMatchObject({ epoch, caughtUp: 1, repeated: next !== 'b' })
    expect([epochs(), hashes().size]).toEqual([Array(4).fill(epoch), 1])
    for (const { updatable } of servers) expect(updatable.signed.list().at(-1)?.epoch).toBe(epoch)
  }
})

test('servers that are behind by different numbers of epochs catch up', async () => {
  const { servers, publishAt, epochs, hashes } = await four()
  await publishAt([0, 1, 2], { operations: operations('a') })
  for (const value of ['b', 'c']) await publishAt([0, 2], { operations: operations(value) })
  expect(epochs()).toEqual([4, 2, 4, 1])
  expect(await publishAt(ALL, {})).toMatchObject({ epoch: 4, caughtUp: 3 })
  expect([epochs(), hashes().size]).toEqual([[4, 4, 4, 4], 1])
  for (const { updatable } of servers) expect(updatable.signed.list().map(({ epoch }) => epoch)).toEqual([3, 4])
})

test('one that differs stops it before anything is sent', async () => {
  const { recordOfBuilt, publishAt, epochs } = await four()
  await publishAt([0, 1], { operations: operations('a') })
  await publishAt([2, 3], { operations: operations('b'), record: await recordOfBuilt() })
  await expect(publishAt(ALL, { operations: operations('c') })).rejects.toThrow('THE SERVERS HAVE DIVERGED')
  expect(epochs()).toEqual([2, 2, 2, 2])
  await expect(publishAt([0, 1, 0], {})).rejects.toThrow('got one origin twice')
})

// A server that is behind is sent the batches that it missed, signed. The other server says which file made which epoch; its
// operator must not be able to substitute another batch, which would make the two servers disagree for good.
test('the server that has all epochs cannot make the publisher send another batch in place of one', async () => {
  const { servers, publishAt, epochs } = await four()
  const [ahead] = servers
  const other = batchOn(ahead!.updatable, new TextDecoder().decode(operations('b')))
  for (const value of ['a', 'b', 'c']) await publishAt([0, 1], { operations: operations(value) })

  const reply = (path: string, body: Buffer) =>
    path === '/v1/epochs/2'
      ? Buffer.from(JSON.stringify({ ...JSON.parse(String(body)), batch: toHex(blake3(other)) }))
      : body
  const leader = await standIn(ahead!.url, { reply })
  await expect(publishAt([], { servers: [leader, servers[2]!.url] })).rejects.toThrow(/epoch 2/)
  expect(epochs()).toEqual([4, 4, 1, 1])

  expect(await publishAt([0, 2], {})).toMatchObject({ epoch: 4, caughtUp: 3 })
  expect(servers[2]!.updatable.newest.manifestHash).toBe(ahead!.updatable.newest.manifestHash)
})

test('a replica that has yet to load the epoch is asked again', async () => {
  const { publishAt } = await four()
  const behind: string[] = []
  const refusal = JSON.stringify({ code: 'epoch_unknown', message: 'no', generation: 1, epoch: 1 })
  const fetchBehind: typeof fetch = async (url, init) => {
    if (!`${url}`.includes('epoch=2') || behind.length === 2) return await fetch(url, init)
    behind.push(`${url}`)
    return new Response(refusal, { status: 404 })
  }
  expect(await publishAt([0, 1], { operations: operations('a'), fetch: fetchBehind })).toMatchObject({ epoch: 2 })
  expect(behind).toHaveLength(2)
})
