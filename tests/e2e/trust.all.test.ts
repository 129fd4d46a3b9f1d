// The publisher's signature and the rollback fence from end to end, with real keys, servers and files.

import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type KeyhushMap, type MapEvent, type OpenOptions, open } from '@keyhush/client'
import { openFileStore } from '@keyhush/client/node'
import { toHex } from '@keyhush/protocol'
import { openLmdb } from '@keyhush/server'
import { loadCore } from '@keyhush/wasm'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { runKeyhush } from '../../server/test/command.js'
import { listed } from '../../server/test/helpers.js'
import { type ServerProcess, startServerProcess } from '../support/processes.js'
import { LyingProxy } from '../support/proxy.js'
import { buildInto, temporaryFolder } from '../support/servers.js'

const TEXT = new TextDecoder()
const names = Array.from({ length: 40 }, (_, i) => `name-${i}.example`)

/** One operator's server, whose address stays the same. */
class Operator {
  private constructor(
    readonly store: string,
    readonly proxy: LyingProxy,
    readonly options: readonly string[],
    private process: ServerProcess,
  ) {}

  static async begin(store: string, ...options: string[]): Promise<Operator> {
    const process = await startServerProcess('--store', store, ...options)
    return new Operator(store, await LyingProxy.start(process.url), options, process)
  }

  get url(): string {
    return this.proxy.url
  }

  /** The requests to one path. */
  asked(path: string): number {
    return this.proxy.seen.filter(seen => seen.path === path).length
  }

  /** kill -9, then `work` on its files, then a new start. */
  async killed(work: (store: string) => Promise<void>): Promise<void> {
    await this.process.kill()
    await work(this.store)
    this.process = await startServerProcess('--store', this.store, ...this.options)
    this.proxy.target = this.process.url
  }

  async close(): Promise<void> {
    await this.proxy.close()
    await this.process.stop()
  }
}

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let operators: readonly [Operator, Operator]
let publisherKey: string
const path = (name: string) => join(folder.path, name)

beforeAll(async () => {
  folder = await temporaryFolder()
  const content = `key,value\n${names.map((name, i) => `${name},value ${i}\n`).join('')}`
  const dataset = await buildInto(folder.path, {
    format: 'csv',
    content,
    name: 'trust',
    maxValueBytes: 20,
    partitions: 4,
  })
  const begin = async (name: string) => {
    return Operator.begin(path(`store-${name}`), '--dataset', dataset, '--publisher-key', publisherKey, otherKey)
  }
  publisherKey = await keyInto(path('key'))
  const otherKey = await keyInto(path('other key'))
  operators = [await begin('a'), await begin('b')]
  const { blake3 } = await loadCore()
  const built = toHex(blake3(await readFile(join(dataset, 'manifest.bin'))))
  await publish({ sign: true, trustBase: built })
})
afterAll(async () => {
  for (const operator of operators) await operator.close()
  await folder.remove()
})
beforeEach(() => {
  for (const { proxy } of operators) proxy.seen.length = 0
})

/** Makes a key, and returns its public half. */
async function keyInto(file: string): Promise<string> {
  return /^public key: ([0-9a-f]{64})$/m.exec(await runKeyhush('keygen', '--out', file))![1]!
}

interface Publishing {
  readonly batch?: readonly object[]
  /** with the key that maps know, and not with another */
  readonly sign: boolean
  readonly trustBase?: string
}

/** Publishes a batch, or signs what is there. */
async function publish({ batch, sign, trustBase }: Publishing): Promise<void> {
  const args = ['publish', '--servers', operators.map(({ url }) => url).join(), '--record', path('record')]
  if (trustBase !== undefined) args.push('--trust-base', trustBase)
  args.push('--key', path(sign ? 'key' : 'other key'))
  if (batch !== undefined) {
    await writeFile(path('batch.jsonl'), batch.map(operation => `${JSON.stringify(operation)}\n`).join(''))
    args.push(path('batch.jsonl'))
  }
  await runKeyhush(...args)
}

const edit = (key: string, value: string) => ({ op: 'edit', key, value })

async function opened(options: Partial<OpenOptions> = {}): Promise<{ map: KeyhushMap; events: MapEvent[] }> {
  const events: MapEvent[] = []
  const servers = [operators[0].url, operators[1].url] as const
  return { map: await open({ servers, mode: 'full', onEvent: event => void events.push(event), ...options }), events }
}

/** State in a folder of files. */
const stateIn = (name: string): Partial<OpenOptions> => ({
  storage: 'required',
  store: servers => openFileStore(path(name), servers),
})

async function textOf(map: KeyhushMap, key: string): Promise<string | undefined> {
  const value = await map.get(key)
  return value && TEXT.decode(value)
}

const answered = () => operators.map(operator => operator.asked('/v1/answer'))

describe('a publisher who signs', () => {
  test('is followed from epoch to epoch; an epoch without its signature is not', async () => {
    const { map } = await opened({ publisherKey })
    const before = map.epoch
    expect(await textOf(map, names[3]!)).toBe('value 3')
    await publish({ batch: [edit(names[3]!, 'signed')], sign: true })
    await map.sync()
    expect([map.epoch, await textOf(map, names[3]!)]).toEqual([before + 1, 'signed'])

    await publish({ batch: [edit(names[4]!, 'not yet')], sign: false })
    await map.sync()
    expect([map.epoch, await textOf(map, names[4]!)]).toEqual([before + 1, 'value 4'])
    // A fresh map opens at the epoch before, which servers still answer and have all of.
    const fresh = await opened({ publisherKey, storage: 'memory' })
    expect([fresh.map.epoch, await textOf(fresh.map, names[4]!)]).toEqual([before + 1, 'value 4'])
    await fresh.map.close()

    await publish({ sign: true })
    await map.sync()
    expect([map.epoch, await textOf(map, names[4]!)]).toEqual([before + 2, 'not yet'])
    await map.close()
  })
})

describe.each(['confirm', 'strict'] as const)('the rollback fence (%s)', rollback => {
  /** A used map with state in files, and the operator that has its fence. */
  async function used(state: string): Promise<Operator> {
    const { map } = await opened({ ...stateIn(state), rollback, publisherKey })
    for (let i = 10; i < 15; i++) expect(await textOf(map, names[i]!)).toBe(`value ${i}`)
    await map.close()
    const fences = operators.filter(operator => operator.asked('/v1/fence') > 0)
    expect(fences).toHaveLength(1)
    expect(answered()).toEqual([5, 5])
    return fences[0]!
  }

  async function assertCondemned(state: string): Promise<void> {
    const before = answered()
    for (let life = 0; life < 2; life++) {
      const { map, events } = await opened({ ...stateIn(state), rollback })
      expect(events.at(-1)).toEqual({ type: 'condemned', server: undefined })
      await expect(map.get(names[1]!)).rejects.toMatchObject({ code: 'condemned' })
      await map.close()
    }
    expect(answered()).toEqual(before)
    const { map } = await opened({ ...stateIn(state), rollback })
    await map.reset()
    expect(await textOf(map, names[10]!)).toBe('value 10')
    await map.close()
  }

  test('its entries are lost: the hint is condemned before a vector leaves', async () => {
    const state = `lost-${rollback}`
    const refresh = await used(state)
    await refresh.killed(async store => {
      const storage = await openLmdb(store)
      const keys = (await listed(storage, 'fence/')).map(([key]) => key)
      expect(keys.length).toBeGreaterThan(0)
      await storage.transact([], transaction => {
        for (const key of keys) transaction.remove(key)
      })
      await storage.close()
    })
    await assertCondemned(state)
  })

  test('a copy in use beside its original is condemned after one lookup at most, also when the server was killed between', async () => {
    const state = `cloned-${rollback}`
    const refresh = await used(state)
    await cp(path(state), path(`${state}-copy`), { recursive: true })
    const { map: original } = await opened({ ...stateIn(state), rollback })
    const { map: copy } = await opened({ ...stateIn(`${state}-copy`), rollback })
    expect(await textOf(original, names[11]!)).toBe('value 11')
    await refresh.killed(async () => {}) // what was granted is on the disk
    const before = answered()
    await expect(copy.get(names[12]!)).rejects.toMatchObject({ code: 'condemned', server: undefined })
    const shown = rollback === 'strict' ? 0 : 1
    expect(answered()).toEqual(before.map(lookups => lookups + shown))
    await expect(copy.get(names[12]!)).rejects.toMatchObject({ code: 'condemned' })
    expect(answered()).toEqual(before.map(lookups => lookups + shown))
    expect(await textOf(original, names[12]!)).toBe('value 12')
    await original.close()
    await copy.close()
  })

  test('an older copy of the files is caught before a vector leaves, also after updates', async () => {
    const state = `restored-${rollback}`
    await used(state)
    await cp(path(state), path(`${state}-backup`), { recursive: true })
    const { map } = await opened({ ...stateIn(state), rollback })
    expect(await textOf(map, names[20]!)).toBe('value 20')
    await map.close()
    for (let i = 0; i < 3; i++) await publish({ batch: [edit(names[30]!, `update ${i} ${rollback}`)], sign: true })
    await assertCondemned(`${state}-backup`)
    // The original, which is newer, goes on.
    const { map: original } = await opened({ ...stateIn(state), rollback })
    expect(await textOf(original, names[30]!)).toBe(`update 2 ${rollback}`)
    await original.close()
  })
})
