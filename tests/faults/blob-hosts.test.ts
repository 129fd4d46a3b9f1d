// Downloads from a host that is no server's (`serve --blob-base`, `open({ blobHosts })`): it learns that somebody downloads what
// everybody does, and whatever it sends, the map is the right one.

import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type KeyhushMap, type OpenOptions, open } from '@keyhush/client'
import { toHex } from '@keyhush/protocol'
import { createServer, loadDataset, MemoryStorage, UpdatableDatabase } from '@keyhush/server'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { keyhush, runKeyhush } from '../../server/test/command.js'
import { batchOn } from '../../server/test/updatable-helpers.js'
import { buildInto, temporaryFolder } from '../support/servers.js'

const names = Array.from({ length: 60 }, (_, i) => `name-${i}.example`)
const text = (value: Uint8Array | undefined) => value && new TextDecoder().decode(value)

type Handle = (request: IncomingMessage, response: ServerResponse, bytes: Buffer) => void

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let host: ReturnType<typeof createHttpServer>
let origin: string
let handle: Handle
/** what the host was asked */
let asked: IncomingMessage[] = []
const serve: Handle = (_request, response, bytes) => void response.end(bytes)

beforeAll(async () => {
  folder = await temporaryFolder()
  host = createHttpServer(async (request, response) => {
    asked.push(request)
    const file = await readFile(join(folder.path, 'static', request.url!)).catch(() => undefined)
    if (file === undefined) response.writeHead(404).end('not here')
    else handle(request, response, file)
  }).listen(0, '127.0.0.1')
  await new Promise(resolve => host.once('listening', resolve))
  origin = `http://127.0.0.1:${(host.address() as AddressInfo).port}`
})
afterAll(async () => {
  host.closeAllConnections()
  host.close()
  await folder.remove()
})

class Operator {
  readonly blobs: string[] = []
  private constructor(
    readonly url: string,
    readonly updatable: UpdatableDatabase,
    readonly close: () => Promise<void>,
  ) {}

  static async start(dataset: string, blobBase: string): Promise<Operator> {
    const loaded = await loadDataset(dataset)
    const storage = new MemoryStorage()
    await UpdatableDatabase.create(storage, loaded)
    loaded.close()
    const updatable = await UpdatableDatabase.open(storage)
    const app = await createServer({ datasets: [{ updatable, blobBase }] })
    const url = await app.listen({ host: '127.0.0.1', port: 0 })
    const operator = new Operator(url, updatable, async () => {
      app.server.closeAllConnections()
      await app.close()
      await updatable.close()
    })
    app.server.prependListener('request', ({ url }) => {
      if (url!.startsWith('/v1/blobs/')) operator.blobs.push(url!)
    })
    return operator
  }
}

let dataset: string | undefined
let operators: readonly [Operator, Operator]
let maps: KeyhushMap[] = []

async function begin(blobBase = `${origin}/list`): Promise<void> {
  const content = `key,value\n${names.map((name, i) => `${name},value ${i}\n`).join('')}`
  dataset ??= await buildInto(folder.path, { format: 'csv', content, name: 'hosts', maxValueBytes: 20, partitions: 6 })
  operators = [await Operator.start(dataset, blobBase), await Operator.start(dataset, blobBase)]
}

beforeEach(() => {
  asked = []
  handle = serve
})
afterEach(async () => {
  for (const map of maps) await map.close()
  for (const operator of operators) await operator.close()
  maps = []
})

/** The host gets what clients download now. */
const upload = async (...args: string[]) =>
  await runKeyhush('export', '--server', operators[0].url, '--blobs', join(folder.path, 'static', 'list'), ...args)

async function opened(options: Partial<OpenOptions> = {}): Promise<KeyhushMap> {
  const servers = [operators[0].url, operators[1].url] as const
  const map = await open({ servers, mode: 'full', blobHosts: [origin], ...options })
  maps.push(map)
  return map
}

async function publish(operations: readonly object[]): Promise<void> {
  const batch = batchOn(operators[0].updatable, operations)
  for (const { updatable } of operators) await updatable.publish(batch)
}

const atServers = () => operators.flatMap(({ blobs }) => blobs).length

describe('a host that has what servers have', () => {
  test.each(['full', 'local', 'single'] as const)(
    'in mode %s is all that is downloaded from, updates included',
    async mode => {
      await begin()
      await upload()
      const servers =
        mode === 'single' ? ([operators[0].url] as const) : ([operators[0].url, operators[1].url] as const)
      const map = await opened({
        mode,
        servers,
        push: false,
        ...(mode === 'single' && { integrity: 'server' as const }),
      })
      expect(text(await map.get(names[7]!))).toBe('value 7')
      expect(asked.length).toBeGreaterThanOrEqual(7) // partitions and directory
      await publish([{ op: 'edit', key: names[7]!, value: 'changed' }])
      await upload()
      await map.sync()
      expect(text(await map.get(names[7]!))).toBe('changed')
      expect(asked.map(({ url }) => url)).toContain(
        `/list/v1/blobs/${toHex(operators[0].updatable.newest.manifest.updateListHash)}`,
      )
      // … but by the export itself.
      expect(map.stats.incidents).toEqual([])
      const exported = (await readdir(join(folder.path, 'static', 'list', 'v1', 'blobs'))).length
      expect(atServers()).toBeLessThanOrEqual(exported)
    },
  )

  test('learns nothing of lookups: it is asked the same, whatever is looked up, and before', async () => {
    await begin()
    await upload()
    const seen: string[][] = []
    for (const keys of [[names[1]!, names[2]!], ['nobody.example']]) {
      asked = []
      const map = await opened()
      const before = asked.length
      for (const key of keys) await map.get(key)
      expect(asked.length).toBe(before)
      await map.close() // what is open is shared
      seen.push(asked.map(({ url }) => url!).sort())
      for (const { method, headers } of asked) {
        expect(method).toBe('GET')
        expect([headers.cookie, headers.referer, headers.authorization, headers['if-none-match']]).toEqual([
          ...[undefined, undefined, undefined, undefined],
        ])
      }
    }
    expect(seen[0]).toEqual(seen[1])
    expect(new Set(seen[0]).size).toBe(seen[0]!.length)
  })

  test('hears of a lookup that has to follow epochs first, and the same whatever is looked up', async () => {
    const seen: (string | undefined)[][] = []
    for (const key of [names[1]!, 'nobody.example']) {
      await begin()
      await upload()
      const map = await opened({ push: false })
      for (const value of ['a', 'b']) await publish([{ op: 'edit', key: names[1]!, value }])
      await upload()
      asked = []
      expect(text(await map.get(key))).toBe(key === names[1] ? 'b' : undefined)
      seen.push(asked.map(({ url }) => url))
      await map.close()
      for (const operator of operators) await operator.close()
    }
    expect(seen[0]).toHaveLength(2)
    expect(seen[1]).toEqual(seen[0])
    await begin()
  })

  test('is not asked unless the app allows it, by its origin and nothing else', async () => {
    await begin()
    await upload()
    for (const blobHosts of [undefined, [], ['https://cdn.example'], [`http://localhost:${new URL(origin).port}`]]) {
      const map = await opened({ blobHosts })
      expect(text(await map.get(names[3]!))).toBe('value 3')
    }
    expect(asked).toEqual([])
    for (const blobHosts of [
      ['cdn.example'],
      ['https://cdn.example/'],
      ['https://cdn.example/x'],
      ['data:x'],
      [7],
      'x',
    ]) {
      await expect(opened({ blobHosts: blobHosts as never })).rejects.toMatchObject({ code: 'usage' })
    }
  })

  test('is not asked where what the server says of it is no such URL', async () => {
    const port = new URL(origin).port
    for (const base of [
      `http://user:word@127.0.0.1:${port}/list`,
      `${origin}/list?a`,
      `${origin}/list#a`,
      'list',
      '',
    ]) {
      await begin(base)
      const map = await opened()
      expect(text(await map.get(names[3]!))).toBe('value 3')
      for (const operator of operators) await operator.close()
    }
    expect(asked).toEqual([])
    await begin()
  })
})

describe('a host that lies', () => {
  const lies: Record<string, Handle> = {
    'with one bit': (_, response, bytes) => {
      const wrong = Buffer.from(bytes)
      wrong[wrong.length >> 1]! ^= 1
      response.end(wrong)
    },
    'with too little': (_, response, bytes) => void response.end(bytes.subarray(1)),
    'with too much': (_, response, bytes) => void response.end(Buffer.concat([bytes, Buffer.alloc(1)])),
    'with another blob': async (request, response) => {
      const blobs = join(folder.path, 'static', 'list', 'v1', 'blobs')
      const other = (await readdir(blobs)).find(name => !request.url!.endsWith(name))!
      response.end(await readFile(join(blobs, other)))
    },
    'by having nothing': (_, response) => void response.writeHead(404).end(),
    'by sending elsewhere': (_, response) => void response.writeHead(302, { location: '/' }).end(),
    'by hanging up': (_, response) => void response.destroy(),
    'with an error page': (_, response) => void response.writeHead(500).end('<h1>no</h1>'),
  }

  test.each(Object.entries(lies))('%s costs a second download, and never a hint', async (_, lie) => {
    await begin()
    await upload()
    handle = lie
    const map = await opened({ push: false })
    expect(text(await map.get(names[5]!))).toBe('value 5')
    const hosts = map.stats.incidents.map(({ server }) => server)
    expect(new Set(hosts)).toEqual(new Set([`${origin}/list`]))
    // Of each server at most one blob, and its repetitions, was asked for there.
    expect(new Set(asked.map(({ url }) => url)).size).toBeLessThanOrEqual(2)
    await publish([{ op: 'edit', key: names[5]!, value: 'changed' }])
    await upload()
    await map.sync()
    expect([map.condemned, text(await map.get(names[5]!))]).toEqual([undefined, 'changed'])
  })

  test('about an update list alone costs no more', async () => {
    await begin()
    await upload()
    const map = await opened({ push: false })
    expect(map.stats.incidents).toEqual([])
    await publish([{ op: 'edit', key: names[5]!, value: 'changed' }])
    await upload()
    handle = lies['with one bit']!
    await map.sync()
    expect(map.stats.incidents).toEqual([{ server: `${origin}/list`, code: 'tampered' }])
    expect([map.condemned, text(await map.get(names[5]!))]).toEqual([undefined, 'changed'])
  })
})

test('export --blobs brings a folder on: what is there is kept, what is wrong is replaced, and --prune leaves no more', async () => {
  await begin()
  const dir = join(folder.path, 'fresh')
  await mkdir(dir)
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await keyhush('export', '--server', operators[0].url, '--blobs', dir, ...args)
    expect([code, stderr]).toEqual([0, ''])
    return [...stdout.matchAll(/: (\d+)$/gm)].map(([, number]) => Number(number))
  }
  expect(await run()).toEqual([7, 0, 0])
  expect(await run()).toEqual([0, 7, 0])
  const blobs = join(dir, 'v1', 'blobs')
  const [first] = await readdir(blobs)
  await writeFile(join(blobs, first!), 'wrong')
  await writeFile(join(blobs, 'index.html'), 'the host’s own')
  expect(await run()).toEqual([1, 6, 0])
  for (const value of ['a', 'b']) await publish([{ op: 'edit', key: names[1]!, value }])
  // A partition, and the lists of both epochs; then the partition before goes.
  expect(await run()).toEqual([3, 6, 0])
  expect(await run('--prune')).toEqual([0, 9, 1])
  expect(await readdir(blobs)).toContain('index.html')
  const both = await keyhush('export', '--server', operators[0].url, '--blobs', dir, '--out', dir)
  expect([both.code, both.stderr]).toEqual([1, expect.stringContaining('give --out')])
})
