// Two operators with shards and coordinators as processes, which are killed while a publisher publishes.

import { join } from 'node:path'
import { KeyhushError, open } from '@keyhush/client'
import { toHex } from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import { expect, onTestFinished, test } from 'vitest'
import { PUBLISHER, PUBLISHER_KEY } from '../../tests/support/publishing.js'
import { createKeyFile, PublishError, PublisherRecord, publish } from '../dist/index.js'
import { freePort, temporaryDirectory } from './helpers.js'
import { chance } from './publish-world.js'
import { LIST, SHARDS, ShardProxy, shardFolders } from './sharded-helpers.js'
import { command, serving } from './spawned.js'

const SERVE = ['serve', '--host', '127.0.0.1', '--log-level', 'error', '--drain-seconds', '0']
/** changes with each publish */
const OFTEN = 'key 5'
const PUBLISHES = 40

/** A process that can be killed, and comes back at its port. */
class Killable {
  #running!: Awaited<ReturnType<typeof serving>>
  #back: Promise<void> | undefined

  private constructor(
    readonly port: number,
    private args: readonly string[],
  ) {}

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  static async begin(...args: readonly string[]): Promise<Killable> {
    const process = new Killable(await freePort(), args)
    await process.#start()
    return process
  }

  async #start(): Promise<void> {
    this.#running = await serving(process.execPath, [command, ...SERVE, '--port', `${this.port}`, ...this.args])
  }

  /** Resolves once it serves with other flags. */
  async restart(...args: readonly string[]): Promise<void> {
    await this.#back
    this.args = args
    await this.kill()
  }

  async end(): Promise<void> {
    this.#running.child.kill('SIGKILL')
    await this.#running.finished
  }

  /** Resolves once it serves again. */
  kill(): Promise<void> {
    this.#back ??= (async () => {
      this.#running.child.kill('SIGKILL')
      await this.#running.finished
      await this.#start()
      this.#back = undefined
    })()
    return this.#back
  }

  async isBack(): Promise<void> {
    await this.#back
  }
}

const manifestOf = async (url: string) => Buffer.from(await (await fetch(`${url}/v1/manifest`)).arrayBuffer())

/** Looks a key up again and again, until `end`, which returns the values in order, and what failed. */
async function readingAlong(servers: readonly [string, string], key: string) {
  const reader = await open({ servers, publisherKey: PUBLISHER_KEY, mode: 'instant', push: false, development: true })
  onTestFinished(() => reader.close())
  const seen: (string | undefined)[] = []
  const failed: unknown[] = []
  let isOver = false
  const reading = (async () => {
    while (!isOver) {
      await reader.getText(key).then(
        value => seen.push(value),
        (error: unknown) => failed.push(error),
      )
    }
  })()
  return async () => {
    isOver = true
    await reading
    return { seen, failed: failed.filter(error => !(error instanceof KeyhushError && error.retryable)) }
  }
}

/** Shards in two processes, and the coordinator. */
async function operator(folders: readonly string[]) {
  const dir = await temporaryDirectory()
  const { publicKey } = await createKeyFile(join(dir, 'shards.key'))
  const half = async (first: number) => {
    const own = [first, first + 1]
    const stores = own.map(shard => `s${shard}=${join(dir, `s${shard}`)}`)
    const datasets = own.map(shard => `s${shard}=${folders[shard]}`)
    return await Killable.begin('--store', ...stores, '--dataset', ...datasets, '--publisher-key', toHex(publicKey))
  }
  const halves = [await half(0), await half(SHARDS / 2)] as const
  const proxy = await ShardProxy.start(shard => halves[shard < SHARDS / 2 ? 0 : 1].url)
  const keys = ['--shard-key', join(dir, 'shards.key'), '--publisher-key', PUBLISHER_KEY]
  const shards = ['--shards', `${SHARDS}`, `${proxy.url}/s{shard}`]
  const coordinator = await Killable.begin(...shards, '--store', join(dir, 'heads'), ...keys)
  const flags = ['--store', join(dir, 'heads'), ...keys]
  return {
    url: coordinator.url,
    dir,
    publicKey,
    proxy,
    shards,
    flags,
    coordinator,
    processes: [...halves, coordinator],
  }
}

test('shards and coordinators are killed at any request of a publish: nothing wrong is answered, and both operators end alike', async () => {
  const folders = await shardFolders()
  const operators = [await operator(folders), await operator(folders)]
  const servers = operators.map(({ url }) => url) as [string, string]
  const all = operators.flatMap(({ processes }) => processes)
  const record = new PublisherRecord()
  const trustBase = toHex(blake3(await manifestOf(servers[0])))
  const draw = chance(9)
  const list = new Map(LIST)
  let kills = 0
  const trusted = { servers, publisherKey: PUBLISHER_KEY, mode: 'instant', push: false, development: true } as const
  const valueAt = (n: number) => (n < 0 ? LIST.get(OFTEN) : `v${n}`.padEnd(5, '_'))
  await publish({ servers, key: PUBLISHER, record, trustBase })
  const end = await readingAlong(servers, OFTEN)
  for (let n = 0; n < PUBLISHES; n++) {
    const keys = [OFTEN, ...Array.from({ length: 6 }, () => `key ${draw(LIST.size)}`)]
    const value = valueAt(n)!
    const operations = Buffer.from(
      [...new Set(keys)].map(key => `${JSON.stringify({ op: 'edit', key, value })}\n`).join(''),
    )
    let left = 1 + draw(30)
    const target = all[draw(all.length)]!
    for (const { proxy } of operators) {
      proxy.see = (_shard, path) => {
        if (/manifest|checks|epochs/.test(path) && --left === 0) {
          kills += 1
          void target.kill()
        }
      }
    }
    for (;;) {
      try {
        const published = await publish({ servers, key: PUBLISHER, record, trustBase, operations })
        expect([n, published.epoch]).toEqual([n, n + 2])
        break
      } catch (error) {
        if (!(error instanceof PublishError) || error.exit !== 3) throw error
        await Promise.all(all.map(process => process.isBack()))
      }
    }
    await Promise.all(all.map(process => process.isBack()))
    for (const key of keys) list.set(key, value)
    const map = await open(trusted)
    await map.sync()
    const values = await map.getManyText([...keys, 'absent'])
    expect([n, values]).toEqual([n, [...keys.map(key => list.get(key)), undefined]])
    await map.close()
  }
  const { seen, failed } = await end()
  const inOrder = Array.from({ length: PUBLISHES + 1 }, (_, i) => valueAt(i - 1))
  const places = seen.map(value => inOrder.indexOf(value))
  expect(places).toEqual(places.filter(place => place >= 0).sort((a, b) => a - b))
  expect(new Set(places).size).toBeGreaterThan(2)
  expect(failed).toEqual([])
  expect(await manifestOf(servers[0])).toEqual(await manifestOf(servers[1]))
  expect(kills).toBeGreaterThan(PUBLISHES / 2)
})

test('generations begin while coordinators and their new shards are killed: clients that are open find what was, and what is new', async () => {
  const folders = await shardFolders()
  const operators = [await operator(folders), await operator(folders)]
  const servers = operators.map(({ url }) => url) as [string, string]
  const record = new PublisherRecord()
  const trustBase = toHex(blake3(await manifestOf(servers[0])))
  const draw = chance(5)
  const list = new Map(LIST)
  await publish({ servers, key: PUBLISHER, record, trustBase })
  const end = await readingAlong(servers, OFTEN)
  let [kills, epoch] = [0, 1]
  /** While processes are killed at a request to shards, one of these. Fails as a publisher would have to ask somebody. */
  const run = async (operation: object, proxies: readonly ShardProxy[], targets: readonly Killable[]) => {
    let left = 1 + draw(20)
    const target = targets[draw(targets.length)]!
    for (const proxy of proxies) {
      proxy.see = (_shard, path) => {
        if (/manifest|checks|epochs/.test(path) && --left === 0) {
          kills += 1
          void target.kill()
        }
      }
    }
    const operations = Buffer.from(`${JSON.stringify(operation)}\n`)
    for (;;) {
      try {
        expect((await publish({ servers, key: PUBLISHER, record, trustBase, operations })).epoch).toBe(++epoch)
        break
      } catch (error) {
        if (!(error instanceof PublishError) || error.exit !== 3) throw error
        await Promise.all(targets.map(process => process.isBack()))
      }
    }
    await Promise.all(targets.map(process => process.isBack()))
  }
  const coordinators = operators.map(({ coordinator }) => coordinator)
  let old = operators.map(({ proxy, shards, processes }) => ({ proxy, shards, processes: processes.slice(0, -1) }))
  const values = [LIST.get(OFTEN)!]
  for (const [n, count] of [8, 2].entries()) {
    list.set(`new ${n}`, 'added')
    const next = await shardFolders(list, count, await manifestOf(servers[0]), 4000)
    const sets = await Promise.all(
      operators.map(async ({ dir, publicKey }) => {
        const stores = next.map((_, shard) => `s${shard}=${join(dir, `g${n}s${shard}`)}`)
        const datasets = next.map((folder, shard) => `s${shard}=${folder}`)
        const key = ['--publisher-key', toHex(publicKey)]
        const process = await Killable.begin('--store', ...stores, '--dataset', ...datasets, ...key)
        const proxy = await ShardProxy.start(process.url)
        return { proxy, shards: [`${count}`, `${proxy.url}/s{shard}`], processes: [process] }
      }),
    )
    for (const [i, { coordinator, flags }] of operators.entries())
      await coordinator.restart(...old[i]!.shards, '--next', ...sets[i]!.shards, ...flags)
    const refused = await publish({
      ...{ servers, key: PUBLISHER, record, trustBase },
      operations: Buffer.from('{"op":"generation"}\n'),
    }).catch(({ message }: Error) => message)
    const lines = `${refused}`.match(/{"op":"generation","shards":"[0-9a-f]{64}"}/g)!
    expect([lines.length, new Set(lines).size]).toEqual([2, 1])
    const proxies = [...old, ...sets].map(({ proxy }) => proxy)
    const targets = [...coordinators, ...[...old, ...sets].flatMap(({ processes }) => processes)]
    await run(JSON.parse(lines[0]!), proxies, [...coordinators, ...sets.flatMap(({ processes }) => processes)])
    for (let edits = 0; edits < 4; edits++) {
      const value = `${n}${edits}`.padEnd(5, '_')
      values.push(value)
      list.set(OFTEN, value)
      await run({ op: 'edit', key: OFTEN, value }, proxies, targets)
    }
    for (const [i, { coordinator, flags }] of operators.entries())
      await coordinator.restart('--shards', ...sets[i]!.shards, ...flags)
    for (const { processes } of old) for (const process of processes) await process.end()
    const map = await open({ servers, publisherKey: PUBLISHER_KEY, mode: 'instant', push: false, development: true })
    const keys = [...list.keys()].filter((_, i) => i % 7 === 0 || i >= LIST.size)
    expect(await map.getManyText(keys)).toEqual(keys.map(key => list.get(key)))
    await map.close()
    old = sets.map(set => ({ ...set, shards: ['--shards', ...set.shards] }))
  }
  const { seen, failed } = await end()
  const places = seen.map(value => values.indexOf(value!))
  expect(places).toEqual(places.filter(place => place >= 0).sort((a, b) => a - b))
  expect([failed, kills > 3, await manifestOf(servers[0])]).toEqual([[], true, await manifestOf(servers[1])])
})
