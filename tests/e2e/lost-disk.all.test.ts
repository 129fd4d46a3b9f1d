// An operator loses its disk. The test runs the commands of docs/operations/recovery.md, and checks what clients see.

import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type OpenOptions, open } from '@keyhush/client'
import { openFileStore } from '@keyhush/client/node'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runKeyhush } from '../../server/test/command.js'
import { type ServerProcess, startServerProcess } from '../support/processes.js'
import { LyingProxy } from '../support/proxy.js'
import { temporaryFolder } from '../support/servers.js'
import { sampled } from '../support/thorough.js'

const RECOVERY = new URL('../../docs/operations/recovery.md', import.meta.url)
const names = Array.from({ length: 40 }, (_, i) => `name-${i}.example`)
/** by key: what was published last */
const published = new Map(names.map((name, i) => [name, `value ${i}`]))

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let publicKey: string
let proxies: readonly [LyingProxy, LyingProxy]
let processes: [ServerProcess, ServerProcess]
let batches = 0
const path = (name: string) => join(folder.path, name)

beforeAll(async () => {
  folder = await temporaryFolder()
  await mkdir(path('batches'))
  const content = `key,value\n${names.map(name => `${name},${published.get(name)}\n`).join('')}`
  await writeFile(path('list.csv'), content)
  const choices = ['--name', 'lost', '--max-value-bytes', '20', '--partitions', '4', '--headroom', '20']
  const record = ['--record', path('publisher.key.record')]
  await runKeyhush('build', path('list.csv'), '--out', path('dataset'), ...choices, ...record)
  publicKey = /[0-9a-f]{64}/.exec(await runKeyhush('keygen', '--out', path('publisher.key')))![0]
  const begin = (store: string) =>
    startServerProcess('--store', path(store), '--dataset', path('dataset'), '--publisher-key', publicKey)
  processes = [await begin('store-a'), await begin('store')]
  proxies = [await LyingProxy.start(processes[0].url), await LyingProxy.start(processes[1].url)]
  await runKeyhush('publish', ...servers())
})
afterAll(async () => {
  for (const each of [...proxies]) await each.close()
  for (const each of processes) await each.stop()
  await folder.remove()
})

const urls = () => [proxies[0].url, proxies[1].url] as const
const servers = () => ['--servers', urls().join(), '--key', path('publisher.key')]

async function publish(...operations: readonly { op: string; key: string; value?: string }[]): Promise<void> {
  const file = join(path('batches'), `${batches++}.jsonl`)
  await writeFile(file, operations.map(each => `${JSON.stringify(each)}\n`).join(''))
  await runKeyhush('publish', ...servers(), file)
  for (const { key, value } of operations) {
    if (value === undefined) published.delete(key)
    else published.set(key, value)
  }
}

/** A client with its state in files; which of the servers keeps its fence. */
class Client {
  fencedBy = -1
  constructor(readonly name: string) {}

  async open() {
    const options: OpenOptions = {
      ...{ servers: urls(), mode: 'full', publisherKey: publicKey, storage: 'required' },
      store: servers => openFileStore(path(this.name), servers),
    }
    return await open(options)
  }

  async prepare(): Promise<this> {
    for (const { seen } of proxies) seen.length = 0
    const map = await this.open()
    await map.get(names[1]!)
    await map.close()
    const fences = proxies.map(({ seen }) => seen.some(each => each.path === '/v1/fence'))
    expect(fences.filter(Boolean)).toHaveLength(1)
    this.fencedBy = fences.indexOf(true)
    return this
  }

  /** Its lookups are right: at once, or after a new hint if its fence was lost. */
  async expectRecovered(lost: number): Promise<void> {
    const map = await this.open()
    if (this.fencedBy === lost) {
      await expect(map.get(names[1]!)).rejects.toMatchObject({ code: 'condemned' })
      await map.reset()
    }
    for (const key of [names[0]!, names[3]!, names[5]!, 'added.example', 'nobody.example']) {
      const value = await map.get(key)
      expect([key, value && new TextDecoder().decode(value)]).toEqual([key, published.get(key)])
    }
    await map.close()
  }
}

/** The commands under a heading, in words; `…/*` is what is there. */
async function commandsUnder(heading: string): Promise<string[][]> {
  const text = await readFile(RECOVERY, 'utf8')
  const [section] = text.slice(text.indexOf(`\n${heading}\n`) + heading.length + 2).split('\n#')
  const blocks = [...section!.matchAll(/```sh\n([\s\S]*?)```/g)].flatMap(([, block]) => block!.trim().split('\n'))
  const there = (await readdir(path('batches'))).map(file => join(path('batches'), file))
  return blocks.map(command => {
    const words = command.split(' ').flatMap(word => (word === 'batches/*.jsonl' ? there : [word]))
    expect(words.shift()).toBe('keyhush')
    return words.map(word => {
      if (['recovered', 'store', 'dataset', 'publisher.key'].includes(word)) return path(word)
      return word
        .replace('https://a.example', urls()[0])
        .replace('https://b.example', urls()[1])
        .replace('5f0c…e1', publicKey)
    })
  })
}

/** The second operator and the publisher follow the page. */
async function recover(heading: string): Promise<void> {
  const commands = await commandsUnder(heading)
  expect(commands.filter(([command]) => command === 'serve')).toHaveLength(1)
  for (const [command, ...args] of commands) {
    if (command !== 'serve') {
      await runKeyhush(command!, ...args)
      continue
    }
    const port = args.indexOf('--port')
    processes[1] = await startServerProcess(...args.toSpliced(port, 2))
    proxies[1].target = processes[1].url
  }
  const manifests = await Promise.all(urls().map(async url => await (await fetch(`${url}/v1/manifest`)).arrayBuffer()))
  expect(Buffer.from(manifests[0]!).equals(Buffer.from(manifests[1]!))).toBe(true)
}

test.each(sampled([['## From the other server'], ['## From the dataset it was begun with']], 2))(
  'the commands under %s bring the server back, and every client goes on',
  async heading => {
    const edit = (i: number, value: string) => ({ op: 'edit', key: names[i]!, value })
    const clients = [await new Client(`${heading} 0`).prepare()]
    await publish(edit(0, `first ${heading.length}`))
    clients.push(await new Client(`${heading} 1`).prepare())
    await publish(edit(3, `second ${heading.length}`))
    await publish(edit(5, `third ${heading.length}`), { op: 'delete', key: names[7 + batches]! })
    clients.push(await new Client(`${heading} 2`).prepare())
    await processes[1].kill()
    await rm(path('store'), { recursive: true })
    await recover(heading)
    for (const client of clients) await client.expectRecovered(1)
    await publish(
      batches < 5
        ? { op: 'add', key: 'added.example', value: 'new' }
        : { op: 'edit', key: 'added.example', value: 'newer' },
    )
    await (await new Client(`${heading} 3`).prepare()).expectRecovered(-2)
  },
)
