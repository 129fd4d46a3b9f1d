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
import { command, serving, started } from './spawned.js'

const SERVE = ['serve', '--host', '127.0.0.1', '--log-level', 'error', '--drain-seconds', '0']

const postgres = usePostgres()

/** A process at a port that it keeps. */
async function kept(...args: readonly string[]) {
  const port = await freePort()
  const begin = () => serving(process.execPath, [command, ...SERVE, '--port', `${port}`, ...args])
  let running = await begin()
  return {
    url: running.url,
    signal: (signal: NodeJS.Signals) => void running.child.kill(signal),
    async restart(signal: NodeJS.Signals) {
      running.child.kill(signal)
      await running.finished
      running = await begin()
    },
  }
}

/** A replica of all shards. */
async function replicaOf(folders: readonly string[]) {
  const replica = await kept('--dataset', ...folders.map((folder, shard) => `s${shard}=${folder}`))
  return { ...replica, template: `${replica.url}/s{shard}` }
}

test('replicas are killed, frozen and restarted in turn, and no lookup is lost', async () => {
  const folders = await shardFolders()
  const replicas = [await replicaOf(folders), await replicaOf(folders)]
  const templates = replicas.map(({ template }) => template)
  const store = ['--store', `${await temporaryDirectory()}/heads`]
  const coordinator = ['--shards', `${SHARDS}`, ...templates, ...store]
  const { url } = await serving(process.execPath, [command, ...SERVE, '--port', '0', ...coordinator])
  const other = await coordinatorOf([(await shardsFrom(folders)).template])
  const map = await open({ servers: [url, other.url], mode: 'instant', push: false, development: true })
  onTestFinished(() => map.close())
  expect(await map.getText('key 3')).toBe(LIST.get('key 3'))
  const manifest = decodeManifest(new Uint8Array(await (await fetch(`${url}/v1/manifest`)).arrayBuffer()))
  const { payload } = await requestFor(manifest, 1)
  const statuses: number[] = []
  let isOver = false
  const lookups = async () => {
    while (!isOver) {
      const reply = await fetch(`${url}/v1/instant`, { method: 'POST', body: new Uint8Array(payload) })
      await reply.arrayBuffer()
      statuses.push(reply.status)
    }
  }
  /** Resolves after so many more lookups. */
  const more = (count: number) => {
    const wanted = statuses.length + count
    return expect.poll(() => statuses.length).toBeGreaterThanOrEqual(wanted)
  }
  const isSound = () =>
    expect
      .poll(async () => ((await (await fetch(`${url}/readyz`)).json()) as { problems?: string[] }).problems)
      .toBeUndefined()
  const all = Promise.all([lookups(), lookups()])
  await more(10)
  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    for (const replica of replicas) {
      await replica.restart(signal)
      await more(10)
      await isSound()
    }
  }
  replicas[0]!.signal('SIGSTOP')
  await more(20)
  replicas[0]!.signal('SIGCONT')
  await isSound()
  isOver = true
  await all
  expect(statuses.filter(status => status !== 200)).toEqual([])
  expect(await map.getText('key 5')).toBe(LIST.get('key 5'))
})

test('two coordinators behind one address are killed and restarted in turn, and no lookup is lost', async () => {
  const folders = await shardFolders()
  const shards = ['--shards', `${SHARDS}`, (await replicaOf(folders)).template, '--store', postgres.store()]
  const coordinators = [await kept(...shards), await kept(...shards, '--replica')]
  let turn = 0
  const balancer = await Balancer.start(count => turn++ % count)
  onTestFinished(() => balancer.close())
  balancer.targets.push(...coordinators)
  const other = await coordinatorOf([(await shardsFrom(folders)).template])
  const map = await open({ servers: [balancer.url, other.url], mode: 'instant', push: false, development: true })
  onTestFinished(() => map.close())
  const values: (string | undefined)[] = []
  let isOver = false
  const lookups = async () => {
    while (!isOver) values.push(await map.getText('key 3'))
  }
  const all = lookups()
  all.catch(() => {}) // it is awaited at the end
  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    for (const coordinator of coordinators) {
      await coordinator.restart(signal)
      const wanted = values.length + 5
      await Promise.race([all, expect.poll(() => values.length).toBeGreaterThanOrEqual(wanted)])
    }
  }
  isOver = true
  await all
  expect(new Set(values)).toEqual(new Set([LIST.get('key 3')]))
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
