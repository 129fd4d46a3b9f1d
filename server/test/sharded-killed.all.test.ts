// Two operators with shards and coordinators as processes, which are killed while a publisher publishes.
//
// KEYHUSH_PUBLISHES: how many, instead of 5. KEYHUSH_SEED: of what is drawn; when it happens is up to the machine.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { KeyhushError, open } from '@keyhush/client'
import { toHex } from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import { expect, onTestFinished, test } from 'vitest'
import { Balancer } from '../../tests/soak/balancer.js'
import { PostgresServer, storeAt } from '../../tests/support/postgres.js'
import { PUBLISHER, PUBLISHER_KEY } from '../../tests/support/publishing.js'
import { createKeyFile, PublishError, PublisherRecord, publish } from '../dist/index.js'
import { freePort, temporaryDirectory } from './helpers.js'
import { chance } from './publish-world.js'
import { LIST, SHARDS, ShardProxy, shardFolders, shardsFrom } from './sharded-helpers.js'
import { command, planted, serving, started } from './spawned.js'

const SERVE = ['serve', '--host', '127.0.0.1', '--log-level', 'error', '--drain-seconds', '0']
const [PUBLISHES, SEED] = [Number(process.env['KEYHUSH_PUBLISHES'] ?? 5), Number(process.env['KEYHUSH_SEED'] ?? 9)]
/** changes with each publish */
const OFTEN = 'key 5'
/** change together, each group by batches of its own */
const GROUPS = [0, 10].map(first => Array.from({ length: 8 }, (_, i) => `key ${first + i}`)) as [string[], string[]]
const CLIENT = { mode: 'instant', push: false, development: true } as const
const PAUSE_MILLISECONDS = 100

/** A process at a port of its own, which is begun again when it is killed here or ends by itself. */
class Killable {
  #running: Awaited<ReturnType<typeof serving>> | undefined
  #back: Promise<void> | undefined
  #isOver = false

  private constructor(
    readonly port: number,
    private args: readonly string[],
  ) {}

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  static async begin(...args: readonly string[]): Promise<Killable> {
    const process = new Killable(await freePort(), args)
    onTestFinished(() => process.end())
    await process.#serve()
    return process
  }

  async #serve(): Promise<void> {
    const running = await serving(process.execPath, [command, ...SERVE, '--port', `${this.port}`, ...this.args])
    this.#running = running
    running.finished.then(({ code }) => (code === null ? undefined : this.kill())).catch(() => {})
  }

  /** As what supervises processes does. */
  async #start(): Promise<void> {
    while (!this.#isOver) {
      const serves = await this.#serve().then(
        () => true,
        () => sleep(PAUSE_MILLISECONDS),
      )
      if (serves) return
    }
  }

  /** Resolves once it serves with other flags. */
  async restart(...args: readonly string[]): Promise<void> {
    await this.#back
    this.args = args
    await this.kill()
  }

  async end(): Promise<void> {
    this.#isOver = true
    await this.#back
    this.#running?.child.kill('SIGKILL')
    await this.#running?.finished
  }

  /** Resolves once it serves again. */
  kill(): Promise<void> {
    this.#back ??= (async () => {
      this.#running?.child.kill('SIGKILL')
      await this.#running?.finished
      await this.#start()
      this.#back = undefined
    })()
    return this.#back
  }

  freeze(milliseconds: number): void {
    const child = this.#running?.child
    child?.kill('SIGSTOP')
    setTimeout(() => child?.kill('SIGCONT'), milliseconds)
  }

  async isBack(): Promise<void> {
    await this.#back
  }
}

const manifestOf = async (url: string) => Buffer.from(await (await fetch(`${url}/v1/manifest`)).arrayBuffer())
const withoutShard = (path: string) => path.replace(/^\/s\d+/, '')

/** Looks keys up together again and again, until `end`, which returns the values in order, and what failed. */
async function readingAlong(servers: readonly [string, string], keys: readonly string[], publisherKey = PUBLISHER_KEY) {
  const reader = await open({ servers, publisherKey, ...CLIENT })
  onTestFinished(() => reader.close())
  const seen: (string | undefined)[][] = []
  const failed: unknown[] = []
  let isOver = false
  const reading = (async () => {
    while (!isOver) {
      await reader.getManyText(keys).then(
        values => seen.push(values),
        (error: unknown) => failed.push(error),
      )
    }
  })()
  const end = async () => {
    isOver = true
    await reading
    const isPassing = (error: unknown) => error instanceof KeyhushError && error.retryable
    return { seen, passing: failed.filter(isPassing).length, failed: failed.filter(error => !isPassing(error)) }
  }
  /** Resolves after so many more lookups. */
  const more = (count: number) => {
    const wanted = seen.length + failed.length + count
    return expect.poll(() => seen.length + failed.length).toBeGreaterThanOrEqual(wanted)
  }
  return { end, more }
}

/** Of each group the values that lookups found, as numbers, and as they should be: each group has one at a time, those of its batches in order. */
const stepsAndOrder = (seen: readonly (string | undefined)[][]) =>
  GROUPS.map((group, i) => {
    const values = seen.map(found => new Set(found.slice(i * group.length, (i + 1) * group.length)))
    const steps = values.map(set => (set.size === 1 ? Number(/\d+/.exec([...set][0]!)) : Number.NaN))
    return [steps, steps.filter(Number.isFinite).sort((a, b) => a - b)] as const
  })

const textOf = (letter: string, n: number) => `${letter}${n}`.padEnd(5, '_')
const batchOf = (keys: readonly string[], value: string, ...more: string[]) =>
  Buffer.from([...new Set(keys)].map(key => `${JSON.stringify({ op: 'edit', key, value })}\n`).join('') + more.join(''))

/** Shards in two processes, each with its own store. */
async function inHalves(folders: readonly string[], dir: string, key: readonly string[]) {
  const half = (first: number) => {
    const own = [first, first + 1]
    const stores = own.map(shard => `s${shard}=${join(dir, `s${shard}`)}`)
    const datasets = own.map(shard => `s${shard}=${folders[shard]}`)
    return Killable.begin('--store', ...stores, '--dataset', ...datasets, ...key)
  }
  const processes = [await half(0), await half(SHARDS / 2)]
  const proxy = await ShardProxy.start((shard, path) => processes[shard < SHARDS / 2 ? 0 : 1]!.url + path)
  return { processes, proxies: [proxy] }
}

/** A process for each shard, and one more as its replica, with stores in PostgreSQL. */
async function withReplicas(folders: readonly string[], postgres: string, key: readonly string[]) {
  const stores = folders.map(() => storeAt(postgres))
  const begun = (flags: (store: string, shard: number) => string[]) =>
    Promise.all(stores.map((store, shard) => Killable.begin('--store', store, ...flags(store, shard))))
  const sets = [await begun((_, shard) => ['--dataset', folders[shard]!, ...key]), await begun(() => ['--replica'])]
  const proxies = sets.map(set => ShardProxy.start((shard, path) => set[shard]!.url + withoutShard(path)))
  return { processes: sets.flat(), proxies: await Promise.all(proxies) }
}

/** `heads`: the store of its coordinators, of which there are two if it is in PostgreSQL, behind one address. */
async function operator(
  folders: readonly string[],
  publisherKey = PUBLISHER_KEY,
  heads?: string,
  shardStores?: string,
) {
  const dir = await temporaryDirectory()
  const { publicKey } = await createKeyFile(join(dir, 'shards.key'))
  const key = ['--publisher-key', toHex(publicKey)]
  const { processes, proxies } =
    shardStores === undefined ? await inHalves(folders, dir, key) : await withReplicas(folders, shardStores, key)
  const store = ['--store', heads ?? join(dir, 'heads')]
  const shards = ['--shards', `${SHARDS}`, ...proxies.map(({ url }) => `${url}/s{shard}`)]
  const flags = [...store, '--shard-key', join(dir, 'shards.key'), '--publisher-key', publisherKey]
  const coordinator = await Killable.begin(...shards, ...flags)
  const coordinators = [coordinator]
  if (heads !== undefined) coordinators.push(await Killable.begin(...shards, ...store, '--replica'))
  const balancer = await Balancer.start(chance(SEED))
  onTestFinished(() => balancer.close())
  balancer.targets.push(...coordinators)
  balancer.writer = coordinator.url
  const all = [...processes, ...coordinators]
  return { url: balancer.url, dir, publicKey, proxies, shards, flags, coordinator, coordinators, processes: all }
}

test(`processes, PostgreSQL and the publisher are killed and frozen: nothing wrong is answered, no batch is taken by half, and both operators end alike (seed ${SEED})`, async () => {
  const folders = await shardFolders()
  const databases: PostgresServer[] = []
  onTestFinished(async () => {
    for (const each of databases) await each.remove()
  })
  databases.push(await PostgresServer.begin(['max_connections=200']), await PostgresServer.begin())
  const [one, two] = databases.map(({ url }) => url) as [string, string]
  const dir = await temporaryDirectory()
  const [keyFile, batch] = [join(dir, 'publisher.key'), join(dir, 'batch.jsonl')]
  const key = await createKeyFile(keyFile)
  const publisherKey = toHex(key.publicKey)
  const operators = [
    await operator(folders, publisherKey, storeAt(one), one),
    await operator(folders, publisherKey, storeAt(two)),
  ]
  const servers = operators.map(({ url }) => url) as [string, string]
  const all = operators.flatMap(({ processes }) => processes)
  const proxies = operators.flatMap(({ proxies }) => proxies)
  const draw = chance(SEED)
  const list = new Map(LIST)
  const happened = { kills: 0, freezes: 0, databases: 0, publishers: 0, again: 0, refused: 0, rivals: 0 }
  let publisher: ReturnType<typeof started> | undefined
  /** What is done to whom, at a request that is drawn, too. */
  const drawFault = (): (() => unknown) => {
    const [kind, target, database, milliseconds] = [draw(9), all[draw(all.length)]!, draw(2), 200 + draw(1500)]
    if (kind < 4) return () => [happened.kills++, target.kill()]
    if (kind < 6) return () => [happened.freezes++, target.freeze(milliseconds)]
    if (kind < 7) return () => restart(databases[database]!)
    return () => publisher?.child.kill('SIGKILL') && happened.publishers++
  }
  let restarted = Promise.resolve()
  const restart = (database: PostgresServer) => {
    happened.databases++
    restarted = restarted.then(() => database.stop()).then(() => database.start())
  }
  const inProcess = async (record: string, operations?: Uint8Array, trustBase?: string) => {
    const common = { servers, key, record: await PublisherRecord.open(join(dir, record)) }
    return await publish({ ...common, trustBase, operations }).then(
      () => ({ exit: 0 as number | null, message: '' }),
      (error: unknown) => {
        if (error instanceof PublishError) return { exit: error.exit, message: error.message }
        throw error
      },
    )
  }
  const inOwnProcess = async () => {
    const args = ['--servers', servers.join(), '--key', keyFile, '--record', join(dir, 'own'), batch]
    publisher = started(process.execPath, [command, 'publish', ...args])
    const { code, stderr } = await publisher.finished
    return { exit: code, message: stderr }
  }
  /** As an operator would, until it is published, or refused. */
  const published = async (run: () => ReturnType<typeof inProcess>, hasRival: boolean) => {
    for (;;) {
      const { exit, message } = await run()
      if (exit === 0 || exit === 5) return undefined
      if (exit === 1) return message
      const isRivals = exit === 4 && hasRival && /of your record|your key has signed/.test(message)
      if (exit !== 3 && exit !== null && !isRivals) throw new Error(`exit ${exit}: ${message}`)
      happened.again++
      await sleep(PAUSE_MILLISECONDS)
    }
  }
  const trustBase = toHex(blake3(await manifestOf(servers[0])))
  const first = batchOf(GROUPS.flat(), textOf('v', 0))
  expect(await inProcess('own', first, trustBase)).toMatchObject({ exit: 0 })
  for (const key of GROUPS.flat()) list.set(key, textOf('v', 0))
  const { end } = await readingAlong(servers, GROUPS.flat(), publisherKey)
  for (let n = 1; n <= PUBLISHES; n++) {
    const due = Array.from({ length: 1 + draw(3) }, () => ({ left: 1 + draw(40), fault: drawFault() }))
    for (const proxy of proxies) {
      proxy.see = (_shard, path) => {
        if (!/manifest|checks|epochs/.test(path)) return
        for (const each of due) if (--each.left === 0) each.fault()
      }
    }
    const [isRefused, isProcess] = [draw(4) === 0, draw(2) === 0]
    const others = Array.from({ length: 6 }, () => `key ${20 + draw(LIST.size - 20)}`)
    const value = isRefused ? 'wrong' : textOf('v', n)
    const bad = isRefused ? ['{"op":"add","key":"key 3","value":"wrong"}\n'] : []
    const operations = batchOf([...GROUPS[0], ...others], value, ...bad)
    await writeFile(batch, operations)
    const rival = draw(4) === 0 && textOf('r', ++happened.rivals)
    const [refusal] = await Promise.all([
      published(() => (isProcess ? inOwnProcess() : inProcess('own', operations)), rival !== false),
      rival && published(() => inProcess('rival', batchOf(GROUPS[1], rival)), true),
    ])
    expect([n, refusal]).toEqual([n, isRefused ? expect.stringMatching(/line \d+: .*key/) : undefined])
    if (isRefused) happened.refused++
    else for (const key of [...GROUPS[0], ...others]) list.set(key, value)
    if (rival) for (const key of GROUPS[1]) list.set(key, rival)
    const keys = [...GROUPS.flat(), ...others]
    await expect.poll(() => valuesOf(keys), { message: `publish ${n}` }).toEqual(keys.map(key => list.get(key)))
  }
  await restarted
  await Promise.all(all.map(process => process.isBack()))
  const { seen, passing, failed } = await end()
  expect(failed).toEqual([])
  for (const [steps, inOrder] of stepsAndOrder(seen)) expect(steps).toEqual(inOrder)
  const { kills, freezes, databases: restarts } = happened
  expect(kills + freezes + restarts).toBeGreaterThan(PUBLISHES / 2)
  if (process.env['KEYHUSH_PUBLISHES']) console.log({ seed: SEED, lookups: seen.length, passing, ...happened })
  const urls = operators.flatMap(({ coordinators }) => coordinators.map(({ url }) => url))
  await expect
    .poll(async () => new Set(await Promise.all(urls.map(async url => toHex(await manifestOf(url))))))
    .toHaveLength(1)
  expect(await valuesOf([...LIST.keys()])).toEqual([...list.values()])

  async function valuesOf(keys: readonly string[]) {
    const map = await open({ servers, publisherKey, ...CLIENT })
    try {
      await map.sync()
      const values: (string | undefined)[] = []
      for (let i = 0; i < keys.length; i += 50) values.push(...(await map.getManyText(keys.slice(i, i + 50))))
      return values
    } finally {
      await map.close()
    }
  }
})

// The rules of the test above can fail: nothing is answered wrongly, and each group has one value at a time, in order.
test.each([
  ['answer each epoch by the newest', 'lookups.js', 'epochs.find(generation, number)', 'epochs.newest', [false, true]],
  ['take half of each batch', 'parts.js', 'return lines.length === 0', 'return i % 2 === 0', [true, false]],
] as const)('coordinators are found that %s', async (_, file, from, to, found) => {
  const folders = await shardFolders()
  const servers: string[] = []
  for (let i = 0; i < 2; i++) {
    const dir = await temporaryDirectory()
    const { publicKey } = await createKeyFile(join(dir, 'shards.key'))
    const shards = ['--shards', `${SHARDS}`, (await shardsFrom(folders, publicKey)).template]
    const keys = ['--shard-key', join(dir, 'shards.key'), '--publisher-key', PUBLISHER_KEY]
    const args = [command, ...SERVE, '--port', '0', ...shards, '--store', join(dir, 'heads'), ...keys]
    servers.push((await serving(process.execPath, args, planted(`sharded/${file}`, from, to))).url)
  }
  const [both, trustBase] = [servers as [string, string], toHex(blake3(await manifestOf(servers[0]!)))]
  const common = { servers: both, key: PUBLISHER, record: new PublisherRecord() }
  await publish({ ...common, trustBase, operations: batchOf(GROUPS.flat(), textOf('v', 0)) })
  const { end, more } = await readingAlong(both, GROUPS.flat())
  let sent = 0
  const whileOneHasIt: typeof fetch = async (input, init) => {
    if (`${input}`.endsWith('/v1/epochs') && ++sent === 2) await more(2)
    return await fetch(input, init)
  }
  await publish({ ...common, fetch: whileOneHasIt, operations: batchOf(GROUPS.flat(), textOf('v', 1)) })
  await more(2)
  const { seen, failed } = await end()
  const isWhole = stepsAndOrder(seen).every(([steps, inOrder]) => steps.length === inOrder.length)
  expect([failed.length === 0, isWhole]).toEqual(found)
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
  const { end } = await readingAlong(servers, [OFTEN])
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
  let old = operators.map(({ proxies, shards, processes }) => ({
    proxy: proxies[0]!,
    shards,
    processes: processes.slice(0, -1),
  }))
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
    const map = await open({ servers, publisherKey: PUBLISHER_KEY, ...CLIENT })
    const keys = [...list.keys()].filter((_, i) => i % 7 === 0 || i >= LIST.size)
    expect(await map.getManyText(keys)).toEqual(keys.map(key => list.get(key)))
    await map.close()
    old = sets.map(set => ({ ...set, shards: ['--shards', ...set.shards] }))
  }
  const { seen, failed } = await end()
  const places = seen.map(([value]) => values.indexOf(value!))
  expect(places).toEqual(places.filter(place => place >= 0).sort((a, b) => a - b))
  expect([failed, kills > 3, await manifestOf(servers[0])]).toEqual([[], true, await manifestOf(servers[1])])
})
