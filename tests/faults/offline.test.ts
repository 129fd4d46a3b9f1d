// Servers that lie before the first lookup, over real HTTP: about the manifest, which ends it, or about the directory
// and partitions, which the other server then has to deliver. No lie leads to a map with a wrong value in it.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hash } from '../interop/reference/hash.js'
import { decodeManifest, encodeManifest, type Manifest } from '../interop/reference/manifest.js'
import type { Lie } from '../support/proxy.js'
import { Rig } from '../support/rig.js'
import * as lies from './lies.js'

const names = Array.from({ length: 7 }, (_, i) => `name-${i}`)

let rig: Rig
beforeAll(async () => {
  const content = `key,value\n${names.map(name => `${name},${name}!\n`).join('')}`
  rig = await Rig.start({ format: 'csv', content, partitions: 4 })
})
afterAll(() => rig.close())

const url = (server: 0 | 1) => rig.proxies[server].url
const other = (server: 0 | 1) => (server === 0 ? 1 : 0)

/** Opens a map while `lie` is told by some of the servers about paths that begin with `path`. */
function opening(liars: readonly (0 | 1)[], path: string, lie: Lie) {
  const client = rig.client('offline')
  for (const server of liars) rig.proxies[server].lie = lies.about(path, lie)
  return { client, map: client.open() }
}

/** Another manifest that is as well-formed as the genuine one. */
const rewritten = (change: (manifest: Manifest) => Partial<Manifest>) =>
  lies.changed(body => {
    const manifest = decodeManifest(body)
    return encodeManifest({ ...manifest, ...change(manifest) })
  })
/** Names a predecessor, and within a generation the list that leads on from it. */
const secondGeneration = { generation: 2, epoch: 2, previousManifest: new Uint8Array(32).fill(1) }
const secondEpoch = {
  ...secondGeneration,
  generation: 1,
  updateListBytes: 40,
  updateListHash: new Uint8Array(32).fill(2),
}
const reversed = (bytes: Uint8Array) => bytes.slice().reverse()

describe.each([0, 1] as const)('server %d', server => {
  test.each<[string, Lie]>([
    ['another database', rewritten(({ databaseId }) => ({ databaseId: reversed(databaseId) }))],
    ['a later epoch without an earlier', rewritten(() => secondEpoch)],
    ['a later generation without an earlier', rewritten(() => secondGeneration)],
    ['fewer records', rewritten(({ records }) => ({ records: records - 1 }))],
    ['longer partitions', rewritten(({ partitionRecords }) => ({ partitionRecords: partitionRecords + 1 }))],
    ['another directory', rewritten(({ directoryHash }) => ({ directoryHash: reversed(directoryHash) }))],
    ['an expiry', rewritten(() => ({ expires: 1n }))],
    [
      'another commitment',
      rewritten(({ commitments }) => ({ commitments: [reversed(commitments[0]!), ...commitments.slice(1)] })),
    ],
    [
      'another content hash',
      rewritten(({ contentHashes }) => ({ contentHashes: [...contentHashes.slice(0, -1), hash(new Uint8Array())] })),
    ],
  ])('publishes %s: the servers disagree, and nothing further is asked', async (_, lie) => {
    const { client, map } = opening([server], '/v1/manifest', lie)
    expect(await client.failure(map)).toMatchObject({ name: 'ServersDisagreeError', code: 'servers_disagree' })
    for (const { seen } of rig.proxies) {
      for (const { path } of seen) expect(path).toMatch(/^\/v1\/manifest/)
    }
  })

  test('publishes a later epoch and keeps the earlier: the earlier is taken', async () => {
    const later = rewritten(() => secondEpoch)
    const { client, map } = opening([server], '/v1/manifest', (genuine, exchange, connection) =>
      exchange.path === '/v1/manifest' ? later(genuine, exchange, connection) : genuine,
    )
    const opened = await client.run(map)
    expect(opened.epoch).toBe(1)
    expect(await client.run(opened.get('name-3'))).toEqual(new TextEncoder().encode('name-3!'))
    await client.run(opened.close())
  })

  test.each<[string, lie: Lie, error: object]>([
    ['of another magic', lies.changed(lies.flippedAt(0)), { code: 'protocol' }],
    ['of another format', lies.changed(lies.flippedAt(4)), { code: 'version' }],
    ['of another suite', lies.changed(lies.flippedAt(6)), { code: 'version' }],
    ['that contradicts itself', lies.changed(lies.flippedAt(36)), { code: 'protocol' }],
    ['a byte too short', lies.changed(lies.truncated), { code: 'protocol' }],
    ['a byte too long', lies.changed(lies.oversized), { code: 'protocol' }],
    ['of no bytes', lies.changed(lies.empty), { code: 'protocol' }],
    ['of 16 MiB', lies.changed(() => new Uint8Array(2 ** 24)), { code: 'protocol' }],
    ['that is JSON', lies.refused(200, 'internal'), { code: 'protocol' }],
    ['elsewhere', lies.redirected(302, () => url(other(server))), { code: 'network' }],
    ['never', lies.silent, { code: 'network', timedOut: true }],
    ['in half', lies.hungUpHalfWay, { code: 'network' }],
  ])('publishes a manifest %s', async (_, lie, error) => {
    const { client, map } = opening([server], '/v1/manifest', lie)
    expect(await client.failure(map)).toMatchObject({ ...error, server: url(server) })
  })

  describe.each<[string, Lie, code: string]>([
    ['with a byte flipped', lies.changed(lies.flippedAt(20)), 'tampered'],
    ['a byte too short', lies.changed(lies.truncated), 'protocol'],
    ['a byte too long', lies.changed(lies.oversized), 'protocol'],
    ['a byte too long, unannounced', lies.oversizedInChunks, 'protocol'],
    ['of no bytes', lies.changed(lies.empty), 'protocol'],
    ['of status 404', lies.refused(404, 'not_found'), 'protocol'],
    ['elsewhere', lies.redirected(302, () => url(other(server))), 'network'],
    ['never', lies.silent, 'network'],
    ['in half, and then nothing', lies.silentHalfWay, 'network'],
    ['in half, and then hangs up', lies.hungUpHalfWay, 'network'],
  ])('sends all blobs %s', (_, lie, code) => {
    test('the other server delivers, and the incident is told', async () => {
      const { client, map } = opening([server], '/v1/blobs/', lie)
      const opened = await client.run(map)
      expect(opened.stats.incidents).toContainEqual({ server: url(server), code })
      for (const { server: culprit } of opened.stats.incidents) expect(culprit).toBe(url(server))
      for (const name of [...names, 'nobody']) {
        const expected = name === 'nobody' ? undefined : new TextEncoder().encode(`${name}!`)
        expect(await client.run(opened.get(name))).toEqual(expected)
      }
      await client.run(opened.close())
    })

    test('and so does the other server: no map', async () => {
      const { client, map } = opening([0, 1], '/v1/blobs/', lie)
      const failure = await client.failure(map)
      expect(failure.code).toBe(code)
      expect([url(0), url(1)]).toContain(failure.server)
    })
  })
})

test('one server lies about blobs and the other is silent: the lie is what is told', async () => {
  const client = rig.client('lie and silence')
  rig.proxies[1].lie = lies.about('/v1/blobs/', lies.changed(lies.flippedAt(0)))
  rig.proxies[0].lie = lies.about('/v1/blobs/', lies.silent)
  expect(await client.failure(client.open())).toMatchObject({ code: 'tampered', server: url(1) })
})

test('a reset that is lied to leaves the map as it was', async () => {
  const client = rig.client('reset')
  const map = await client.open()
  for (const proxy of rig.proxies) proxy.lie = lies.about('/v1/blobs/', lies.changed(lies.flippedAt(0)))
  expect(await client.failure(map.reset())).toMatchObject({ code: 'tampered' })
  expect(await client.run(map.get('name-5'))).toEqual(new TextEncoder().encode('name-5!'))
  await client.run(map.close())
})
