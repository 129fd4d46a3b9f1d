// Lookups that wait at a coordinator: what goes together, what a slow shard holds, and what is counted.

import { decodeInstantQuery, parseErrorReply, TWO_SERVERS } from '@keyhush/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { slice } from '../dist/base/pace.js'
import { Metrics } from '../dist/index.js'
import { logged } from './helpers.js'
import { advance, coordinatorOf, requestFor, SHARDS, shardFolders, shardsFrom } from './sharded-helpers.js'

const INSTANT = '/v1/instant'

async function begun(...options: Parameters<typeof coordinatorOf> extends [unknown, (infer O)?] ? O[] : never) {
  const shards = await shardsFrom(await shardFolders())
  return { ...(await coordinatorOf([shards.template], ...options)), shards, proxy: shards.proxy }
}

type Begun = Awaited<ReturnType<typeof begun>>

/** Keeps the first request of shard 0 waiting until `release`. */
function held({ proxy }: Begun) {
  let release = () => {}
  let came = () => {}
  const arrived = new Promise<void>(resolve => {
    came = resolve
  })
  const released = new Promise<void>(resolve => {
    release = resolve
  })
  let isFirst = true
  proxy.see = async (shard, path) => {
    if (shard !== 0 || !path.endsWith(INSTANT) || !isFirst) return
    isFirst = false
    came()
    await released
  }
  return { arrived, release }
}

/** Lets a request wait, in the turns of a network of its own. */
async function submitted({ sharded }: Begun, network: string, { epoch = 1, count = 1, servers = 2 } = {}) {
  const { manifest } = sharded.find(1, epoch)!
  const { queries } = await requestFor(manifest, count, servers)
  const request = { epochs: sharded, of: 'records', generation: 1, epoch, queries, count, network } as const
  return { ...sharded.lookups.submit({ ...request, ...TWO_SERVERS, servers }), queries }
}

test('while shards are asked, lookups wait, and go together then; more than there is room for are refused', async () => {
  const coordinator = await begun()
  const { sharded, proxy, fabric } = coordinator
  const bodies: Uint8Array[] = []
  const ask = fabric.ask.bind(fabric)
  fabric.ask = (shard, call) => {
    if (call.body !== undefined) bodies.push(call.body)
    return ask(shard, call)
  }
  const { arrived, release } = held(coordinator)
  const first = await submitted(coordinator, 'first')
  await arrived
  const others = []
  for (let i = 0; i < 20; i++) others.push(await submitted(coordinator, `other ${i}`, { count: 3 }))
  expect([sharded.lookups.scatters, sharded.lookups.waiting, bodies.length]).toEqual([1, 60, SHARDS])
  for (let i = 0; i < 12; i++) others.push(await submitted(coordinator, 'many', { count: 16 }))
  await expect(submitted(coordinator, 'many', { count: 16 })).rejects.toMatchObject({ code: 'instant_full' })
  expect([sharded.lookups.waiting, bodies.length]).toEqual([252, SHARDS])
  release()
  const { answerBytes, siblingBytes } = sharded.newest.sizes('records', 2)
  expect((await first.answers).length).toBe(answerBytes + siblingBytes)
  for (const { answers, queries } of others) {
    const count = queries.length / first.queries.length
    expect((await answers).length).toBe(count * (answerBytes + siblingBytes))
    // The same queries have the same answers, whatever they went with.
    expect((await answers).subarray(0, answerBytes + siblingBytes)).toEqual(await first.answers)
  }
  // 60 of all networks, and of one 192, at most 64 in a request.
  expect([sharded.lookups.scatters, proxy.lookups]).toEqual([5, 5 * SHARDS])
  expect(bodies.length).toBe(5 * SHARDS)
  await sharded.lookups.close()
  expect(bodies.flatMap(body => [...body]).every(byte => byte === 0)).toBe(true)
})

test('epochs do not go together', async () => {
  const coordinator = await begun()
  const { sharded, shards } = coordinator
  await advance(shards, sharded)
  const { arrived, release } = held(coordinator)
  const lookups = [await submitted(coordinator, 'a')]
  await arrived
  for (const epoch of [1, 2, 1, 2]) lookups.push(await submitted(coordinator, `${epoch}`, { epoch }))
  release()
  for (const { answers } of lookups) await answers
  expect(sharded.lookups.scatters).toBe(3)
})

test('a client that hangs up while its queries are split spoils nobody’s', async () => {
  const { milliseconds } = slice
  slice.milliseconds = 0
  onTestFinished(() => {
    slice.milliseconds = milliseconds
  })
  const coordinator = await begun()
  const asked: number[] = []
  coordinator.proxy.see = (_shard, path, body) => {
    if (path.endsWith(INSTANT)) asked.push(decodeInstantQuery(body).count)
  }
  const gone = await submitted(coordinator, 'gone', { count: 16 })
  gone.cancel()
  gone.queries.fill(0)
  await expect(gone.answers).rejects.toMatchObject({ code: 'not_ready' })
  const { answers } = await submitted(coordinator, 'other')
  await answers
  expect(asked.sort()).toEqual([1, 1, 1, 1, 16, 16, 16, 16])
})

test('queries of a shard are refused', async () => {
  const { sharded } = await begun()
  const request = { epochs: sharded, of: 'records', generation: 1, epoch: 1, network: 'a' } as const
  const part = { servers: 3, vectors: true, groupLog: 2, queries: new Uint8Array(8), count: 1 }
  expect(() => sharded.lookups.submit({ ...request, ...part })).toThrow(/expected queries of the whole database/)
})

test('a query counts in the rate limit once for each shard', async () => {
  const { app, sharded } = await begun({ rateLimit: 100 })
  const { payload } = await requestFor(sharded.newest.manifest, 1)
  const statuses = []
  for (let i = 0; i < 3; i++) statuses.push((await app.inject({ method: 'POST', url: INSTANT, payload })).statusCode)
  expect(statuses).toEqual([200, 200, 429])
})

test('log and figures name the shard that fails, and the reply does not', async () => {
  const [{ log, lines }, metrics] = [logged('warn'), new Metrics()]
  const { app, sharded, proxy } = await begun({ log, metrics })
  const figures = await metrics.server(app.readiness)
  onTestFinished(() => figures.close())
  proxy.lie = (shard, path, reply) =>
    shard === 3 && path.endsWith(INSTANT) ? { status: 500, body: Buffer.from('') } : reply
  const { payload } = await requestFor(sharded.newest.manifest, 1)
  const reply = await app.inject({ method: 'POST', url: INSTANT, payload })
  expect([reply.statusCode, parseErrorReply(reply.body).code]).toEqual([503, 'not_ready'])
  expect(reply.body).not.toMatch(/3|127/)
  expect(lines.map(line => JSON.parse(line))).toMatchObject([{ shard: 3, replica: 0, level: 40 }])
  expect(lines.join()).not.toMatch(/127|http/)
  const text = (await figures.inject('/metrics')).body
  expect(text).toMatch('keyhush_shard_failed{database="",shard="3",replica="0"} 3')
  expect(text).toMatch('keyhush_shard_failed{database="",shard="2",replica="0"} 0')
  expect(text).toMatch('keyhush_scatters{database=""} 1')
  expect((await figures.inject('/readyz')).json().problems).toEqual([expect.stringMatching(/^shard 3 at http/)])
})
