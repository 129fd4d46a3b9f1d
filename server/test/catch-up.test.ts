// A server that is behind is sent the batches that it missed, signed. The other server says which file made which epoch; its operator
// must not be able to substitute another batch, which would make the two servers disagree for good.

import { toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { expect, onTestFinished, test } from 'vitest'
import { createServer, MemoryStorage, PublisherRecord, type PublishOptions, publish } from '../dist/index.js'
import { builtDirectory, createIn } from './helpers.js'
import { standIn } from './stand-in.js'
import { batchOn, KEYED, opened } from './updatable-helpers.js'

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

test('the server that has all epochs cannot make the publisher send another batch in place of one', async () => {
  const dir = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  const [ahead, first] = [await served(dir), await served(dir)]
  const record = new PublisherRecord()
  const { manifest, manifestHash, manifestBytes } = ahead.updatable.newest
  await record.addManifest({ databaseId: toHex(manifest.databaseId), epoch: 1, hash: manifestHash })
  const publishAt = (other: string, options: Partial<PublishOptions>, leader = ahead.url) =>
    publish({ servers: [leader, other], key: KEY, record, ...options })
  const other = batchOn(ahead.updatable, new TextDecoder().decode(operations('b')))
  expect(blake3(manifestBytes)).toEqual(blake3(first.updatable.newest.manifestBytes))
  for (const value of ['a', 'b', 'c']) await publishAt(first.url, { operations: operations(value) })
  const missed = ['c', 'b', 'a'].map(operations)

  const behind = await served(dir)
  const reply = (path: string, body: Buffer) =>
    path === '/v1/epochs/2'
      ? Buffer.from(JSON.stringify({ ...JSON.parse(String(body)), batch: toHex(blake3(other)) }))
      : body
  const leader = await standIn(ahead.url, { reply })
  await expect(publishAt(behind.url, { missed }, leader)).rejects.toThrow(/epoch 2/)
  expect(behind.updatable.newest.manifest.epoch).toBe(1)

  expect(await publishAt(behind.url, { missed })).toMatchObject({ epoch: 4, caughtUp: 3 })
  expect(behind.updatable.newest.manifestHash).toBe(ahead.updatable.newest.manifestHash)
})
