// `keyhush dev` starts two servers, and prints all that an app needs.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import type { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { type KeyhushError, open } from '@keyhush/client'
import { decodeManifest } from '@keyhush/protocol'
import { MISBEHAVIOURS } from '@keyhush/server/testing'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { reachedAt } from '../../server/dist/commands/dev.js'
import { runKeyhush } from '../../server/test/command.js'
import { command } from '../../server/test/spawned.js'
import { NEEDS_LINUX, needs } from '../support/needs.js'
import { runKeyhushProcess } from '../support/processes.js'
import { databaseIdOf, temporaryFolder } from '../support/servers.js'
import { THOROUGH } from '../support/thorough.js'
import { thoroughly } from '../support/thoroughly.js'

const ANIMALS = 'key,value\notter,river\nheron,shore\n'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let data: string
const running = new Set<ChildProcess>()
const mayOutlive = new Set<number>()

beforeAll(async () => {
  folder = await temporaryFolder()
  await mkdir(join(folder.path, 'temporary'))
  data = join(folder.path, 'animals.csv')
  await writeFile(data, ANIMALS)
})
afterAll(async () => {
  for (const child of running) child.kill('SIGKILL')
  for (const pid of mayOutlive) if (await isRunning(pid)) process.kill(pid, 'SIGKILL')
  await folder.remove()
})

/** What a process prints. */
class Printed {
  text = ''
  readonly #from: Readable

  constructor(from: Readable) {
    this.#from = from
    from.setEncoding('utf8').on('data', text => {
      this.text += text.replaceAll('\r', '')
    })
  }

  async until(end: string, from = 0): Promise<void> {
    while (!this.text.includes(end, from)) await once(this.#from, 'data')
  }
}

/**
 * Starts it, and reads what it prints for an app. `inTerminal`: it has a terminal, whose keys `press` presses; or is a job in the background
 * of one, until the shell before it reads a line.
 */
async function dev({ inTerminal = false as boolean | 'background' }, ...args: string[]) {
  const line = [process.execPath, command, 'dev', data, ...args]
  const quoted = line.map(word => `'${word}'`).join(' ')
  const shells = inTerminal === 'background' ? `set -m; ${quoted} & read line; kill $!; wait $!` : quoted
  const [program, ...rest] = inTerminal ? ['script', '-qefc', shells, '/dev/null'] : line
  const child = spawn(program!, rest, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, TMPDIR: join(folder.path, 'temporary') }, // where its temporary folder is
  })
  running.add(child)
  const exited = once(child, 'exit').finally(() => running.delete(child))
  const ended = exited.then(() => {
    throw new Error(`it has ended: ${printed.text}`)
  })
  ended.catch(() => {}) // it does, later
  const printed = new Printed(child.stdout!)
  await Promise.race([printed.until(inTerminal === true ? 'Ctrl-C: stop\n' : 'changes.jsonl\n'), ended])
  const [, list = ''] = /servers: \['(http:.+)'\]/.exec(printed.text) ?? []
  const servers = list.split("', '")
  const [, publisherKey] = /publisherKey: '([0-9a-f]{64})'/.exec(printed.text) ?? []
  const [, options = '', keyFile] = /publish (--servers .*)--key (\S+) changes\.jsonl$/m.exec(printed.text) ?? []
  if (list === '') throw new Error(`expected servers, got: ${printed.text}`)
  /** Resolves once it has said so. */
  const press = async (key: string, said: string) => {
    const from = printed.text.length
    child.stdin!.write(key)
    await printed.until(said, from)
  }
  const stop = async (signal: NodeJS.Signals) => {
    child.kill(signal)
    return (await exited)[0]
  }
  return { child, printed, servers, publisherKey: publisherKey!, keyFile: keyFile!, options, press, exited, stop }
}

async function publish({ servers, keyFile }: Awaited<ReturnType<typeof dev>>, operation: object): Promise<void> {
  const batch = join(folder.path, 'changes.jsonl')
  await writeFile(batch, `${JSON.stringify(operation)}\n`)
  await runKeyhush('publish', '--servers', servers.join(), '--key', keyFile, batch)
}

async function childrenOf(pid: number): Promise<number[]> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return children.trim().split(' ').map(Number)
}

/** Not, if it has ended and nobody has asked how. */
const isRunning = (pid: number) =>
  readFile(`/proc/${pid}/stat`, 'utf8').then(
    stat => !/\) Z /.test(stat),
    () => false,
  )

const text = (value: Uint8Array | undefined) => value && new TextDecoder().decode(value)

thoroughly(
  'one server (--servers 1) answers without a download, and accepts batches that a copy has made too',
  async () => {
    const { servers, publisherKey, options, keyFile, printed, stop } = await dev({}, '--servers', '1')
    expect(printed.text).toContain("mode: 'instant',\n  experimental: true,")
    const map = await open({ servers, publisherKey, mode: 'instant', experimental: true })
    expect([text(await map.get('otter')), await map.get('auk')]).toEqual(['river', undefined])
    const batch = join(folder.path, 'changes.jsonl')
    await writeFile(batch, '{"op":"add","key":"auk","value":"cliff"}\n')
    await runKeyhush('publish', ...options.trim().split(' '), '--key', keyFile, batch)
    await map.sync()
    expect(text(await map.get('auk'))).toBe('cliff')
    await map.close()
    expect(await stop('SIGINT')).toBe(0)
  },
)

const counts: [string, number, string[]][] = [
  ['two servers', 2, []],
  ['three servers (--servers 3)', 3, ['--servers', '3']],
]

test.each(counts.slice(0, THOROUGH ? 2 : 1))(
  '%s answer for a file, accept signed batches, and end with Ctrl-C without leaving files',
  async (_, count, args) => {
    const running = await dev({}, ...args)
    const { servers, publisherKey } = running
    expect(new Set(servers.map(url => new URL(url).port)).size).toBe(count)
    const map = await open({ servers, publisherKey })
    expect([text(await map.get('otter')), await map.get('auk')]).toEqual(['river', undefined])
    await publish(running, { op: 'add', key: 'auk', value: 'cliff' })
    await map.sync()
    expect(text(await map.get('auk'))).toBe('cliff')
    for (const [origin, allowed] of [
      ['http://localhost:5173', true],
      ['http://127.0.0.1:8080', true],
      ['https://app.localhost', true],
      ['https://a.example', false],
      ['http://localhost.a.example', false],
      ['http://xlocalhost', false],
    ] as const) {
      const { headers } = await fetch(`${servers[0]}/v1/info`, { headers: { origin } })
      expect([origin, headers.get('access-control-allow-origin')]).toEqual([origin, allowed ? origin : null])
    }
    const manifest = await fetch(`${servers[0]}/v1/manifest`)
    expect(decodeManifest(new Uint8Array(await manifest.arrayBuffer())).slotMarksHash).toHaveLength(32)
    // An unsigned batch is refused.
    const unsigned = await fetch(`${servers[1]}/v1/publish`, { method: 'POST', body: 'x' })
    expect(unsigned.ok).toBe(false)
    await map.close()
    expect(await running.stop('SIGINT')).toBe(0)
    expect(await readdir(join(folder.path, 'temporary'))).toEqual([])
  },
)

test('--shards makes a sharded database, which takes batches; a list that leaves a shard empty is refused', async () => {
  const [small, animals] = [data, join(folder.path, 'many.csv')]
  await expect(dev({}, '--shards', '256')).rejects.toThrow(/it has ended/)
  data = animals
  onTestFinished(() => {
    data = small
  })
  const rows = Array.from({ length: 100 }, (_, i) => `animal ${i},place ${100 + i}\n`)
  await writeFile(animals, `key,value\n${rows.join('')}`)
  const started = await dev({}, '--shards', '4')
  expect(started.printed.text).toContain('run dev again: here no generation begins')
  const { servers, publisherKey } = started
  const map = await open({ servers, publisherKey, mode: 'instant' })
  expect([text(await map.get('animal 7')), await map.get('auk')]).toEqual(['place 107', undefined])
  await publish(started, { op: 'add', key: 'auk', value: 'cliff 999' })
  await map.sync()
  expect([text(await map.get('auk')), map.epoch]).toEqual(['cliff 999', 2])
  await map.close()
  expect(await started.stop('SIGINT')).toBe(0)
})

test('a folder keeps key and changes, and is not mixed with other data', async () => {
  const kept = ['--folder', join(folder.path, 'kept')]
  const named = ['--name', 'animals']
  const first = await dev({}, ...kept, ...named)
  await publish(first, { op: 'edit', key: 'heron', value: 'marsh' })
  expect(await first.stop('SIGTERM')).toBe(0)
  const ports = first.servers.map(url => new URL(url).port)

  const second = await dev({}, ...kept, '--ports', ports.join(), ...named)
  expect([second.servers, second.publisherKey]).toEqual([first.servers, first.publisherKey])
  const map = await open({ servers: second.servers, publisherKey: second.publisherKey })
  expect([map.epoch, text(await map.get('heron'))]).toEqual([2, 'marsh'])
  expect(map.databaseId).toBe(databaseIdOf('animals'))
  await map.close()
  expect(await second.stop('SIGINT')).toBe(0)
})

const namings: [string, string[]][] = [
  ['a folder', []],
  ['a folder, and a name,', ['--name', 'animals']],
]

test.each(namings.slice(0, THOROUGH ? 2 : 1))(
  '%s that was begun with another list goes on with that, and dev prints how to publish the new one',
  async (_, name) => {
    const kept = ['--folder', join(folder.path, `begun${name.join('')}`), ...name]
    const first = await dev({}, ...kept)
    expect(await first.stop('SIGTERM')).toBe(0)
    await writeFile(data, 'key,value\notter,lakes\nheron,shore\n')
    for (let run = 0; run < (THOROUGH ? 2 : 1); run++) {
      const second = await dev({}, ...kept)
      expect(second.printed.text).toContain('animals.csv is not the list that')
      const map = await open({ servers: second.servers, publisherKey: first.publisherKey })
      expect([map.epoch, await map.getText('otter')]).toEqual(run === 0 ? [1, 'river'] : [2, 'lakes'])
      const [, line = ''] = /^npx keyhush (publish .* --list .*)$/m.exec(second.printed.text) ?? []
      await runKeyhush(...line.split(' '))
      await map.sync()
      expect([map.epoch, await map.getText('otter')]).toEqual([2, 'lakes'])
      await map.close()
      expect(await second.stop('SIGTERM')).toBe(0)
    }
    await writeFile(data, ANIMALS)
  },
)

thoroughly('a folder that was begun with other options: the error says which, and both ways on', async () => {
  const kept = ['--folder', join(folder.path, 'longer')]
  const first = await dev({}, ...kept, '--max-value-bytes', '40')
  expect(await first.stop('SIGTERM')).toBe(0)
  const failing = (...options: string[]) => expect(runKeyhushProcess('dev', data, ...kept, ...options)).rejects
  await failing().toThrow('it has values of up to 40 bytes, the dataset values of 5 bytes (--max-value-bytes)')
  await failing().toThrow('To begin anew, with another key, delete it or name another')

  const [other, dataset] = [join(folder.path, 'other.csv'), join(folder.path, 'dataset')]
  await writeFile(other, 'key,value\notter,lakes\n')
  await runKeyhush('build', other, '--max-value-bytes', '40', '--filter', '--out', dataset)
  const store = join(folder.path, 'longer', 'a')
  const served = expect(runKeyhushProcess('serve', '--port', '0', '--store', store, '--dataset', dataset)).rejects
  await served.toThrow('the data file has other contents')
  await served.toThrow('To continue, give the dataset that the store was created from, and publish the changes')
})

thoroughly('each server is a process of its own, and ends with the one that started it', NEEDS_LINUX, async () => {
  const { child, servers, exited } = await dev({})
  const children = await childrenOf(child.pid!)
  for (const pid of children) mayOutlive.add(pid)
  expect(children).toHaveLength(2)
  child.kill('SIGKILL')
  await exited
  for (const url of servers) await expect(fetch(`${url}/v1/info`)).rejects.toThrow()
  for (const pid of children) await expect.poll(() => isRunning(pid)).toBe(false)
})

thoroughly('a server that ends takes the rest with it', NEEDS_LINUX, async () => {
  const { child, exited } = await dev({})
  const [, second] = await childrenOf(child.pid!)
  process.kill(second!, 'SIGKILL')
  expect((await exited)[0]).toBe(1)
})

thoroughly('--host prints who can reach the servers, and apps of any origin can use them', async () => {
  // Loopback, although `dev` does not take it for that.
  const { printed, servers, publisherKey, stop } = await dev({}, '--host', '::ffff:127.0.0.1')
  await printed.until('stores state unencrypted.\n')
  expect(printed.text).toContain('::ffff:127.0.0.1 (this machine)')
  expect(printed.text).toContain('development: true')
  const { headers } = await fetch(`${servers[0]}/v1/info`, { headers: { origin: 'http://192.168.1.5:5173' } })
  expect(headers.get('access-control-allow-origin')).toBe('*')
  const map = await open({ servers, publisherKey, development: true })
  expect(text(await map.get('otter'))).toBe('river')
  await map.close()
  expect(await stop('SIGINT')).toBe(0)
  await expect(runKeyhush('dev', data, '--host', 'localhost')).rejects.toThrow('It must be an address of this machine')
  const foreign = runKeyhushProcess('dev', data, '--host', '192.0.2.1') // for documents: nobody has it
  await expect(foreign).rejects.toThrow(
    '192.0.2.1: address not available (EADDRNOTAVAIL); choose an address of this machine',
  )
})

test('the addresses of a host: its own, or all that others can reach', () => {
  const at = (address: string, family: 'IPv4' | 'IPv6', internal = false) => ({ address, family, internal })
  const interfaces = {
    lo: [at('127.0.0.1', 'IPv4', true), at('::1', 'IPv6', true)],
    eth0: [at('192.168.1.5', 'IPv4'), at('fe80::5', 'IPv6'), at('2001:db8::5', 'IPv6')],
    wg0: [at('10.0.0.5', 'IPv4')],
  } as unknown as ReturnType<typeof networkInterfaces>
  const reached = (host: string, given = interfaces) =>
    reachedAt(host, given).map(({ name, address }) => `${name} ${address}`)
  expect(reached('0.0.0.0')).toEqual(['eth0 192.168.1.5', 'wg0 10.0.0.5'])
  expect(reached('::')).toEqual(['eth0 192.168.1.5', 'eth0 2001:db8::5', 'wg0 10.0.0.5'])
  expect(reached('10.0.0.5')).toEqual(['wg0 10.0.0.5'])
  expect(reached('127.0.0.2')).toEqual(['this machine 127.0.0.2'])
  expect(reached('0.0.0.0', {})).toEqual(['this machine 127.0.0.1'])
})

const TERMINAL = needs(
  spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux') === true,
  'the command `script` of util-linux, for a terminal',
)

// What an app sees of each misbehaviour is in testing.test.ts.
test('keys of the terminal make a server misbehave in every way there is, and behave again', TERMINAL, async () => {
  const running = await dev({ inTerminal: true })
  const { servers, publisherKey, press } = running
  const map = await open({ servers, publisherKey, mode: 'instant' })
  for (const [i, how] of Object.keys(MISBEHAVIOURS).entries()) await press(`${i + 1}`, `Server b (${how})`)
  await press('1', 'Server b (lie)')
  await expect(map.get('otter')).rejects.toMatchObject({ code: 'tampered' })
  await press('6', 'Server b (behind)')
  await expect(publish(running, { op: 'edit', key: 'otter', value: 'lakes' })).rejects.toThrow('503 not_ready')
  await map.sync()
  expect([map.epoch, await map.getText('otter')]).toEqual([1, 'river'])
  await press('0', 'Server b behaves')
  await publish(running, { op: 'edit', key: 'otter', value: 'lakes' })
  await map.sync()
  expect([map.epoch, await map.getText('otter')]).toEqual([2, 'lakes'])

  await press('\t', 'Keys now control server a')
  await press('7', 'Server a (down)')
  expect(await map.getText('otter').catch(({ server }) => server)).toBe(servers[0])
  await map.close()
  running.child.stdin!.write('\x03') // Ctrl-C
  expect((await running.exited)[0]).toBe(0)
})

thoroughly('as a job in the background of a terminal it runs on, without keys', TERMINAL, async () => {
  const { servers, printed, exited, child } = await dev({ inTerminal: 'background' })
  expect((await fetch(`${servers[0]}/v1/info`)).status).toBe(200)
  expect(printed.text).not.toContain('Keys:')
  child.stdin!.write('\n')
  expect((await exited)[0]).toBe(0)
})

thoroughly('when its terminal goes, dev and both servers end', TERMINAL, async () => {
  const { child, exited } = await dev({ inTerminal: true })
  const under = async (pid: number): Promise<number[]> => {
    const children = (await childrenOf(pid)).filter(child => child > 0)
    return [...children, ...(await Promise.all(children.map(under))).flat()]
  }
  const pids = await under(child.pid!)
  for (const pid of pids) mayOutlive.add(pid)
  expect(pids.length).toBeGreaterThanOrEqual(3)
  child.kill('SIGKILL') // `script`, which holds the terminal
  await exited
  for (const pid of pids) await expect.poll(() => isRunning(pid), { timeout: 30_000 }).toBe(false)
})

thoroughly('--misbehave says how it begins; without a terminal there are no keys', async () => {
  const running = await dev({}, '--servers', '3', '--misbehave', 'limit', '--misbehave', 'c=down')
  await running.printed.until('Server c (down)')
  expect(running.printed.text).toContain('Server b (limit)')
  running.child.stdin!.end('0')
  const failed = await open({ servers: running.servers, mode: 'instant' }).catch((error: KeyhushError) => error)
  expect((failed as KeyhushError).code).toMatch(/^(network|rate_limited)$/)
  expect(running.printed.text).not.toContain('Keys:')
  expect(await running.stop('SIGINT')).toBe(0)
  for (const how of ['lies', 'i=lie', 'toString']) {
    await expect(runKeyhush('dev', data, '--misbehave', how)).rejects.toThrow('It must be one of lie, fork,')
  }
  await expect(runKeyhush('dev', data, '--misbehave', 'c=lie')).rejects.toThrow('expected one of 2 servers, got c')
})
