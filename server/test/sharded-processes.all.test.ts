// A coordinator and its shards as processes, which are killed, stopped and started again while lookups go on.

import { join } from 'node:path'
import { open } from '@keyhush/client'
import { decodeManifest } from '@keyhush/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { Balancer } from '../../tests/soak/balancer.js'
import { usePostgres } from '../../tests/support/use-postgres.js'
import { expectRefused, keyhush, runKeyhush } from './command.js'
import { freePort, temporaryDirectory } from './helpers.js'
import { coordinatorOf, LIST, requestFor, SHARDS, shardFolders, shardsFrom } from './sharded-helpers.js'
import { command, planted, serving, started } from './spawned.js'

const SERVE = ['serve', '--host', '127.0.0.1', '--log-level', 'error', '--drain-seconds', '0']

const postgres = usePostgres()

/** A process at a port that it keeps. */
async function kept(...args: readonly string[]) {
  const port = await freePort()
  const serve = () => serving(process.execPath, [command, ...SERVE, '--port', `${port}`, ...args])
  let running = await serve()
  return {
    url: running.url,
    signal: (signal: NodeJS.Signals) => void running.child.kill(signal),
    ended: () => running.finished,
    /** Serves again, after a signal that ends it. */
    async begin() {
      await running.finished
      running = await serve()
    },
  }
}

/** A replica of all shards. */
async function replicaOf(folders: readonly string[]) {
  const replica = await kept('--dataset', ...folders.map((folder, shard) => `s${shard}=${folder}`))
  return { ...replica, template: `${replica.url}/s{shard}` }
}

const sum = (counts: readonly (readonly number[])[]) => counts.flat().reduce((a, b) => a + b)

/** A coordinator's process, and what it counts: how often it has asked all shards, and calls that each replica of each shard has failed. */
async function counting(templates: readonly string[], env?: NodeJS.ProcessEnv) {
  const store = ['--store', `${await temporaryDirectory()}/heads`, '--metrics', '0']
  const args = [command, ...SERVE, '--port', '0', '--shards', `${SHARDS}`, ...templates, ...store]
  const { url, printed } = await serving(process.execPath, args, env)
  return { url, counts: () => countsOf(/figures at (\S+)/.exec(printed.stderr)![1]!) }
}

async function countsOf(figures: string) {
  const text = await (await fetch(figures)).text()
  const failed = [0, 1].map(() => Array<number>(SHARDS).fill(0))
  for (const [, shard, replica, count] of text.matchAll(/^keyhush_shard_.*shard="(\d)",replica="(\d)"} (\d+)$/gm))
    failed[Number(replica)]![Number(shard)]! += Number(count)
  return { scatters: Number(/^keyhush_scatters{.*} (\d+)$/m.exec(text)![1]), failed }
}

test('replicas are killed and frozen: no lookup is lost, and the first alone waits; while both are frozen, each is refused after three tries', async () => {
  const folders = await shardFolders()
  const replicas = [await replicaOf(folders), await replicaOf(folders)]
  const templates = replicas.map(({ template }) => template)
  const { url, counts } = await counting(templates)
  const forgetful = await counting(
    templates,
    planted('sharded/fabric.js', '...turned.filter(isSound), ', '...turned, '),
  )
  const other = await coordinatorOf([(await shardsFrom(folders)).template])
  const map = await open({ servers: [url, other.url], mode: 'instant', push: false, development: true })
  onTestFinished(() => map.close())
  expect(await map.getText('key 3')).toBe(LIST.get('key 3'))
  const manifest = decodeManifest(new Uint8Array(await (await fetch(`${url}/v1/manifest`)).arrayBuffer()))
  const { payload } = await requestFor(manifest, 1)
  const lookup = async (at = url) => {
    const reply = await fetch(`${at}/v1/instant`, { method: 'POST', body: new Uint8Array(payload) })
    await reply.arrayBuffer()
    return reply.status
  }
  const statuses: number[] = []
  let isOver = false
  const lookups = async () => {
    while (!isOver) statuses.push(await lookup())
  }
  /** Resolves after so many more lookups. */
  const more = (count: number) => {
    const wanted = statuses.length + count
    return expect.poll(() => statuses.length).toBeGreaterThanOrEqual(wanted)
  }
  const ready = async () => {
    const reply = await fetch(`${url}/readyz`)
    return [reply.status, ((await reply.json()) as { problems?: string[] }).problems]
  }
  const isSound = () => expect.poll(ready).toEqual([200, undefined])
  const all = Promise.all([lookups(), lookups()])
  await more(10)
  const faults = [
    [0, 'SIGKILL'],
    [1, 'SIGTERM'],
    [1, 'SIGSTOP'],
  ] as const
  for (const [number, fault] of faults) {
    const before = await counts()
    replicas[number]!.signal(fault)
    if (fault === 'SIGKILL') for (let i = 0; i < 6; i++) await lookup(forgetful.url)
    await more(20)
    if (fault === 'SIGSTOP') replicas[number]!.signal('SIGCONT')
    else await replicas[number]!.begin()
    await isSound()
    const after = await counts()
    const [failed, others] = [number, 1 - number].map(of => after.failed[of]!.map((n, i) => n - before.failed[of]![i]!))
    // Of no shard twice, unless the machine was too slow for the other replica.
    expect(Math.max(0, ...failed!.filter((_, shard) => others![shard] === 0)), fault).toBeLessThanOrEqual(1)
  }
  expect(Math.max(...(await forgetful.counts()).failed[0]!)).toBeGreaterThan(1)
  isOver = true
  await all
  expect(statuses.filter(status => status !== 200)).toEqual([])
  expect(await map.getText('key 5')).toBe(LIST.get('key 5'))
  const before = await counts()
  for (const replica of replicas) replica.signal('SIGSTOP')
  expect(await Promise.all([lookup(), lookup()])).toEqual([503, 503])
  expect(await ready()).toEqual([200, ['a shard does not answer']])
  // The reply leaves once one shard is given up, and others may have a try left.
  const since = async () => {
    const { scatters, failed } = await counts()
    return [scatters - before.scatters, sum(failed) - sum(before.failed)]
  }
  await expect.poll(since).toEqual([2, 2 * 3 * SHARDS])
  for (const replica of replicas) replica.signal('SIGCONT')
  await isSound()
  expect(await lookup()).toBe(200)
})

test('two coordinators behind one address are killed and restarted in turn: no lookup is lost, and what fails while one ends is answered when it is sent again', async () => {
  const folders = await shardFolders()
  const shards = ['--shards', `${SHARDS}`, (await replicaOf(folders)).template, '--store', postgres.store()]
  const coordinators = [await kept(...shards), await kept(...shards, '--replica')]
  let turn = 0
  const balancer = await Balancer.start(count => turn++ % count)
  onTestFinished(() => balancer.close())
  balancer.targets.push(...coordinators)
  const other = await coordinatorOf([(await shardsFrom(folders)).template])
  // A process that is killed closes its connections before it closes its port: until it has ended, each turn that it has may fail.
  let isEnding = false
  let ends = 0
  const outcomes: ('answered' | 'failed while one ended' | 'failed')[] = []
  const noting: typeof fetch = async (input, init) => {
    if (!`${input}`.startsWith(balancer.url)) return await fetch(input, init)
    const before = ends
    try {
      const reply = await fetch(input, init)
      outcomes.push('answered')
      return reply
    } catch (error) {
      outcomes.push(isEnding || ends > before ? 'failed while one ended' : 'failed')
      throw error
    }
  }
  const servers = [balancer.url, other.url] as const
  const map = await open({ servers, fetch: noting, mode: 'instant', push: false, development: true })
  onTestFinished(() => map.close())
  const values: (string | undefined)[] = []
  let isOver = false
  const lookups = async () => {
    while (!isOver) values.push(await map.getText('key 3'))
  }
  const all = lookups()
  all.catch(() => {}) // it is awaited at the end
  for (const [number, signal] of (['SIGKILL', 'SIGTERM'] as const).entries()) {
    isEnding = true
    coordinators[number]!.signal(signal)
    await coordinators[number]!.ended()
    isEnding = false
    ends++
    await coordinators[number]!.begin()
    const wanted = values.length + 5
    await Promise.race([all, expect.poll(() => values.length).toBeGreaterThanOrEqual(wanted)])
  }
  isOver = true
  await all
  expect(new Set(values)).toEqual(new Set([LIST.get('key 3')]))
  expect(outcomes).not.toContain('failed')
  expect(outcomes.filter((outcome, i) => outcome !== 'answered' && outcomes[i + 1] !== 'answered')).toEqual([])
})

test('arguments of a coordinator that do not fit are refused before anything is opened', async () => {
  const store = `${await temporaryDirectory()}/heads`
  const url = 'http://a-{shard}:80'
  const refused = (words: string, ...args: string[]) => expectRefused(keyhush('serve', '--port', '0', ...args), words)
  for (const count of ['512', url])
    await refused('expected their number, a power of two up to 256, and URLs', '--shards', count, url, '--store', store)
  await refused('expected URLs such as http://a-{shard}.shards:8080, got none', '--shards', '4', '--store', store)
  await refused('expected one --store and no --dataset', '--shards', '4', url, '--store', store, '--dataset', 'd')
  await refused('--next: expected --shards too', '--next', '4', url, '--store', store)
  const one = ['--shards', '4', url, '--store', store]
  await refused(
    '--next: expected their number, a power of two up to 256, and URLs, got "3"',
    ...one,
    '--next',
    '3',
    url,
  )
  const limited = [...one, '--next', '8', url, '--rate-limit']
  await refused('expected at least 320, as one lookup counts with 8 shards, got 319', ...limited, '319')
  await refused('expected --store postgres://…', ...limited, '320', '--replica')
  await refused('expected --store postgres://…', ...one, '--replica')
  const missing = 'record/*-change-*: expected a file or directory, got none (ENOENT); check the name: no file fits'
  const key = join(await temporaryDirectory(), 'shards.key')
  await runKeyhush('keygen', '--out', key)
  await refused(missing, ...one, '--shard-key', key, '--catch-up', 'record/*-change-*')
})

test('a coordinator says which shard it waits for while it starts', async () => {
  const shards = ['--shards', '2', `http://127.0.0.1:${await freePort()}/s{shard}`]
  const store = ['--store', `${await temporaryDirectory()}/heads`]
  const { printed } = started(process.execPath, [command, ...SERVE, '--port', '0', ...shards, ...store])
  await expect
    .poll(() => printed.stderr)
    .toMatch(/^keyhush: waiting for a shard of --shards: shard \d at .*ECONNREFUSED/m)
})
