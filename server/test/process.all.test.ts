// The `keyhush` command as a process: what it prints, how it stops, what it leaves behind.

import { type ChildProcess, execFile } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { Agent, type IncomingMessage, request } from 'node:http'
import { type AddressInfo, connect, createServer as createListener, type Socket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { decodeAnswer, decodeManifest, encodeInstantQuery, INSTANT_PATH, parseErrorReply } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { describe, expect, onTestFinished, test } from 'vitest'
import { NEEDS_LINUX, needs } from '../../tests/support/needs.js'
import { thoroughly } from '../../tests/support/thoroughly.js'
import { keyhush } from './command.js'
import { builtDirectory, dataFile, pseudoRandom, queryAt, temporaryDirectory } from './helpers.js'
import { deaf } from './sockets.js'
import { command, serving, started } from './spawned.js'

test('what is not built, or half, says so', async () => {
  const dir = await temporaryDirectory()
  await mkdir(join(dir, 'bin'))
  await writeFile(join(dir, 'package.json'), '{ "type": "module" }')
  await cp(command, join(dir, 'bin/keyhush.js'))
  const ran = promisify(execFile)(process.execPath, [join(dir, 'bin/keyhush.js'), '--version'])
  await expect(ran).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^keyhush: not built.*npm run build/),
  })
})

// So lmdb's loader is told of another platform: an installation from another machine, or without optional packages, is no different.
const WITHOUT_BINARY = { npm_config_arch: 'none' }

thoroughly(
  'without the binary of LMDB only a store in a directory is refused, in one line that says what to install',
  async () => {
    const dataset = await builtDirectory('a.bin', pseudoRandom(4096), { recordBytes: 32 })
    const args = ['serve', '--dataset', dataset, '--port', '0', '--log-level', 'silent']
    await serving(process.execPath, [command, ...args], WITHOUT_BINARY)
    const store = ['--store', join(await temporaryDirectory(), 'store')]
    const { code, stderr } = await started(process.execPath, [command, ...args, ...store], WITHOUT_BINARY).finished
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^keyhush: expected the package @lmdb\/lmdb-\S+,.* No native build .*--omit=optional.*\n$/),
    ])
  },
)

thoroughly(
  'with little address space, as shared hosts give, one line says what to do, and that helps',
  NEEDS_LINUX,
  async () => {
    const data = await dataFile('a.csv', 'key,value\notter,river\n')
    const build = async (env?: NodeJS.ProcessEnv) => {
      const line = [process.execPath, command, 'build', data, '--out', join(await temporaryDirectory(), 'out')]
      return await started('sh', ['-c', 'ulimit -v 8388608 && exec "$@"', 'sh', ...line], env).finished
    }
    const { code, stderr } = await build()
    const [, option] = /^keyhush: expected 10 GB of address space .* NODE_OPTIONS=(\S+), got: .*\n$/.exec(stderr) ?? []
    expect([code, option]).toEqual([1, '--disable-wasm-trap-handler'])
    expect(await build({ NODE_OPTIONS: option })).toMatchObject({ code: 0, stderr: '' })
  },
)

const PLAN = [command, 'plan', '--records', '1000', '--value-bytes', '32']

test(
  'whose standard output is full ends with a status of its own, and one line that says so',
  NEEDS_LINUX,
  async () => {
    const line = ['-c', 'exec "$0" "$@" > /dev/full', process.execPath, ...PLAN]
    const { code, stderr } = await started('sh', line).finished
    expect([code, stderr]).toEqual([6, expect.stringMatching(/^keyhush: expected room .*, got ENOSPC; .*\n$/)])
  },
)

test('whose standard output nobody reads any more ends with the same status, and says nothing', async () => {
  const { child, finished } = started(process.execPath, PLAN)
  child.stdout.destroy()
  expect(await finished).toMatchObject({ code: 6, stderr: '' })
})

const MANY = 1000
const queue = process.platform === 'linux' ? Number(await readFile('/proc/sys/net/core/somaxconn', 'utf8')) : 0

thoroughly(
  'who connects while the process is held need not knock again',
  needs(queue >= MANY, `a queue of ${MANY} connections (net.core.somaxconn)`),
  async () => {
    const dataset = await builtDirectory('a.bin', pseudoRandom(4096), { recordBytes: 32 })
    const { child } = start(['serve', '--dataset', dataset, '--port', '0', '--log-level', 'silent'])
    const [line] = (await once(child.stdout, 'data')) as [string]
    child.kill('SIGSTOP')
    const sockets = Array.from({ length: MANY }, () =>
      connect(Number(new URL(line.trim().split(' ').at(-1)!).port), '127.0.0.1'),
    )
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
    })
    await Promise.all(sockets.map(socket => once(socket, 'connect')))
    child.kill('SIGCONT')
  },
)

test('without files enough to begin with it says what to do', NEEDS_LINUX, async () => {
  const dataset = await builtDirectory('a.txt', 'alpha\n')
  const serve = ['serve', '--dataset', dataset, '--port', '0']
  const ran = promisify(execFile)('sh', ['-c', 'ulimit -n 64 && exec "$@"', 'sh', process.execPath, command, ...serve])
  await expect(ran).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^keyhush: .*too many open files \(EMFILE\); .*`ulimit -n`.*LimitNOFILE.*\n$/),
  })
})

const start = (args: string[]) => started(process.execPath, [command, ...args])

const run = (...args: string[]) => start(args).finished

const serve = (args: string[]) =>
  serving(process.execPath, [command, 'serve', '--port', '0', '--drain-seconds', '0', ...args])

async function post(url: string, body: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  return new Uint8Array(await (await fetch(`${url}/v1/answer`, { method: 'POST', body })).arrayBuffer())
}

async function manifestOf(url: string) {
  return decodeManifest(new Uint8Array(await (await fetch(`${url}/v1/manifest`)).arrayBuffer()))
}

/** What a log says, line by line. */
const linesOf = (log: string) =>
  log
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as Record<string, unknown>)

/** A raw connection that has sent something; `received` is all that came until the other side hung up. */
async function openSocket(url: string, sent: string): Promise<{ socket: Socket; received: Promise<string> }> {
  const socket = await deaf(Number(new URL(url).port), sent)
  let text = ''
  socket.on('data', chunk => {
    text += chunk.toString('latin1')
  })
  return { socket, received: once(socket.resume(), 'close').then(() => text) }
}

/** A POST that is under way: its head has arrived, as `100 Continue` tells, and its body has not. */
async function underWay(url: string, path: string, body: Uint8Array) {
  const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`
  const { socket, received } = await openSocket(url, head)
  await once(socket, 'data')
  return { finish: () => socket.write(body), received }
}

/** A request on a connection that the agent keeps if it may. Rejects if the reply is not whole. */
async function requested(url: string, agent: Agent, body?: Uint8Array) {
  const sent = request(url, { agent, method: body === undefined ? 'GET' : 'POST' }).end(body)
  const [reply] = (await once(sent, 'response')) as [IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of reply) chunks.push(chunk as Buffer)
  return { status: reply.statusCode, headers: reply.headers, body: new Uint8Array(Buffer.concat(chunks)) }
}

describe('keyhush serve', () => {
  test('serves datasets, prints its address as one line, logs to stderr, and stops on SIGTERM and SIGINT with 0', async () => {
    const one = await builtDirectory('a.txt', 'alpha\n')
    const two = await builtDirectory('b.bin', pseudoRandom(64), { recordBytes: 4 })
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      const { child, finished, url } = await serve([
        '--dataset',
        one,
        '--dataset',
        `numbers=${two}`,
        '--log-level',
        'debug',
      ])
      for (const base of [url, `${url}/numbers`]) {
        const manifest = await manifestOf(base)
        expect(decodeAnswer(manifest, 1, await post(base, queryAt(manifest, 0))).length).toBeGreaterThan(0)
      }
      child.kill(signal)
      const { code, stdout, stderr } = await finished
      expect([code, stdout]).toEqual([0, `listening on ${url}\n`])
      expect(linesOf(stderr).filter(({ route }) => route === 'POST /numbers/v1/answer').length).toBe(1)
    }
  })

  test('answers instant lookups in threads, unless they are off, and after SIGTERM those under way', async () => {
    const dataset = await builtDirectory('b.bin', pseudoRandom(4 << 20), { recordBytes: 64 })
    const off = await serve(['--dataset', dataset, '--instant', 'off'])
    expect((await fetch(`${off.url}${INSTANT_PATH}`, { method: 'POST' })).status).toBe(404)
    const { child, finished, url } = await serve(['--dataset', dataset, '--instant', '2'])
    const manifest = await manifestOf(url)
    const core = await loadCore()
    const layout = core.layout(manifest.records, 64, manifest.partitions, manifest.partitionRecords)
    const query = core.newInstantQuery(layout, new Uint32Array(64), pseudoRandom(32))
    const body = encodeInstantQuery(manifest, 'records', 64, query.request(0))
    const lookup = await underWay(url, INSTANT_PATH, body)
    child.kill('SIGTERM')
    lookup.finish()
    expect(await lookup.received).toMatch(/^HTTP\/1\.1 100 [\s\S]*HTTP\/1\.1 200 [\s\S]*PIRA/)
    query.free()
    layout.free()
    expect((await finished).code).toBe(0)
    for (const wrong of ['0', '65', 'on', '-1']) {
      const { code, stderr } = await keyhush('serve', '--dataset', dataset, '--port', '0', `--instant=${wrong}`)
      expect([code, stderr]).toEqual([1, expect.stringMatching(/must be/)])
    }
  })

  test('after SIGTERM it finishes running requests and closes connections without a whole request', async () => {
    const { child, finished, url } = await serve(['--dataset', await builtDirectory('a.txt', 'alpha\n')])
    const query = queryAt(await manifestOf(url), 0)
    const fresh = await openSocket(url, 'POST /v1/answer HTTP')
    const lookup = await underWay(url, '/v1/answer', query)
    child.kill('SIGTERM')
    expect(await fresh.received).toBe('')
    await expect(fetch(`${url}/healthz`)).rejects.toThrow()
    lookup.finish()
    expect(await lookup.received).toMatch(/^HTTP\/1\.1 100 [\s\S]*HTTP\/1\.1 200 [\s\S]*PIRA/)
    expect((await finished).code).toBe(0)
  })

  test('while it drains /readyz says no, every lookup is answered, and connections are not kept', async () => {
    const args = ['--dataset', await builtDirectory('a.bin', pseudoRandom(4096), { recordBytes: 4 })]
    const { child, finished, url } = await serve([...args, '--drain-seconds', '2'])
    const manifest = await manifestOf(url)
    const query = queryAt(manifest, 0)
    const agent = new Agent({ keepAlive: true })
    let answered = 0
    let notReady = false
    // Any that is refused, reset or cut short fails the test.
    const lookUp = async () => {
      const { status, headers, body } = await requested(`${url}/v1/answer`, agent, query)
      expect(status).toBe(200)
      expect(decodeAnswer(manifest, 1, body).length).toBeGreaterThan(0)
      return headers.connection
    }
    const client = async () => {
      while (!notReady) {
        await lookUp()
        answered++
      }
      const connections = [await lookUp(), await lookUp()] // both sent after it was seen that it drains
      expect(connections).toEqual(['close', 'close'])
    }
    const clients = Array.from({ length: 8 }, client)
    await expect.poll(() => answered, { interval: 1 }).toBeGreaterThan(32)
    child.kill('SIGTERM')
    while (!notReady) notReady = (await requested(`${url}/readyz`, agent)).status === 503
    await Promise.all(clients)
    expect((await requested(`${url}/healthz`, agent)).status).toBe(200)
    const { code, stderr } = await finished
    expect(code).toBe(0)
    const answers = linesOf(stderr).filter(({ route }) => route === 'POST /v1/answer')
    expect(answers.every(({ status }) => status === 200)).toBe(true)
    await expect(requested(`${url}/healthz`, agent)).rejects.toThrow('ECONNREFUSED')
    agent.destroy()
  })

  test.each([
    ['nobody reads its log any more', (args: string[]) => serving(process.execPath, args)],
    [
      'its log has no room',
      (args: string[]) => serving('sh', ['-c', 'exec "$0" "$@" 2> /dev/full', process.execPath, ...args]),
    ],
  ])('answers, drains and ends with 0 when %s', NEEDS_LINUX, async (_when, begun) => {
    const dataset = ['--dataset', await builtDirectory('a.txt', 'alpha\n')]
    const line = [command, 'serve', '--port', '0', '--drain-seconds', '1', '--log-level', 'debug', ...dataset]
    const { child, finished, url } = await begun(line)
    child.stderr.destroy()
    const query = queryAt(await manifestOf(url), 0)
    child.kill('SIGTERM')
    await expect.poll(async () => (await fetch(`${url}/readyz`)).status, { interval: 1 }).toBe(503)
    expect((await post(url, query)).length).toBeGreaterThan(0)
    expect((await finished).code).toBe(0)
  })

  test('says in words that a store needs Node, where the package that locks it would end the process', async () => {
    const deno = { NODE_OPTIONS: '--import=data:text/javascript,globalThis.Deno={}' }
    const store = join(await temporaryDirectory(), 'store')
    const { code, stderr } = await started(process.execPath, [command, 'serve', '--port', '0', '--store', store], deno)
      .finished
    expect([code, stderr]).toEqual([
      1,
      `keyhush: ${store}: expected Node, which can lock a store, got Deno; run it in Node\n`,
    ])
  })

  test('stops when told so while it is still loading, whenever that is', async () => {
    const dataset = await builtDirectory('a.txt', Array.from({ length: 50_000 }, (_, i) => `${i}\n`).join(''))
    for (const delay of [100, 300, 500, 700, 900]) {
      const { child, finished } = start(['serve', '--port', '0', '--drain-seconds', '0', '--dataset', dataset])
      await new Promise(resolve => setTimeout(resolve, delay))
      child.kill('SIGTERM')
      const { code } = await finished // null: before there was anything to stop
      expect([0, null]).toContain(code)
    }
  })

  // A process that only shows its figures, and has locked the store, would keep a supervisor from beginning another.
  test.each(['--port', '--metrics'])('%s in use ends the process, whatever listens already', async taken => {
    const other = createListener().listen(0, '127.0.0.1')
    await once(other, 'listening')
    onTestFinished(() => void other.close())
    const { port } = other.address() as AddressInfo
    const source = ['--dataset', await builtDirectory('a.txt', 'alpha\n'), '--store', await temporaryDirectory()]
    const ports = ['--port', '--metrics'].flatMap(name => [name, name === taken ? `${port}` : '0'])
    const { code, stderr } = await run('serve', ...source, ...ports, '--log-level', 'silent')
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^keyhush: 127\.0\.0\.1:\d+: .*EADDRINUSE.*\n$/)])
  })

  test('waits for the process before it, which has the store until it has drained', async () => {
    const dataset = await builtDirectory('a.csv', 'key,value\na,b\n')
    const store = join(await temporaryDirectory(), 'store')
    const begin = (...args: string[]) =>
      start(['serve', '--store', store, '--port', '0', '--log-level', 'error', ...args]).child
    const says = (child: ChildProcess, stream: 'stdout' | 'stderr', words: string) =>
      new Promise<void>((resolve, reject) => {
        child[stream]!.on('data', text => String(text).includes(words) && resolve())
        child.once('exit', () => reject(new Error(`it did not say: ${words}`)))
      })
    const first = begin('--dataset', dataset, '--drain-seconds', '60')
    await says(first, 'stdout', 'listening on')
    first.kill('SIGTERM')
    const second = begin('--drain-seconds', '0')
    await says(second, 'stderr', `by process ${first.pid} on`)
    const killed = once(first, 'exit')
    first.kill('SIGKILL')
    await says(second, 'stdout', 'listening on')
    expect(await killed).toEqual([null, 'SIGKILL'])
    second.kill('SIGTERM')
    expect(await once(second, 'exit')).toEqual([0, null])
  })
})

test('a process whose core traps replies 500 and exits with 1, for a supervisor to restart it', async () => {
  const dir = await builtDirectory('a.txt', 'alpha\n')
  const script = `
    import { createServer, loadDataset } from ${JSON.stringify(new URL('../dist/index.js', import.meta.url).href)}
    const dataset = await loadDataset(${JSON.stringify(dir)})
    const answer = () => { throw new WebAssembly.RuntimeError('unreachable') }
    const database = new Proxy(dataset.database, {
      get(handle, name) {
        const member = name === 'answer' ? answer : Reflect.get(handle, name, handle)
        return typeof member === 'function' ? member.bind(handle) : member
      },
    })
    const app = await createServer({ datasets: [{ dataset: { ...dataset, database } }] })
    console.log('listening on', await app.listen({ port: 0, host: '127.0.0.1' }))`
  const { finished, url } = await serving(process.execPath, ['--input-type=module', '--eval', script])
  const reply = await fetch(`${url}/v1/answer`, { method: 'POST', body: queryAt(await manifestOf(url), 0) })
  expect([reply.status, parseErrorReply(await reply.text()).code]).toEqual([500, 'internal'])
  expect((await finished).code).toBe(1)
})

describe('keyhush build', () => {
  test('prints a summary that two operators can compare, and exits 0', async () => {
    const out = join(await temporaryDirectory(), 'out')
    const data = await dataFile('a.csv', 'key,value\nalpha,1\nbeta,22\n')
    const { code, stdout, stderr } = await run('build', data, '--out', out, '--name', 'test', '--pack', '2')
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(
      /^records: 2 keyed\nvalues: up to 2 bytes\nlayout: 16 partitions of 2 records of 20 bytes, 2 a block\n/,
    )
    expect(stdout).toMatch(/^database id: [0-9a-f]{32}\nmanifest hash: [0-9a-f]{64}\n$/m)
  })

  thoroughly("writes to disk under Yarn's Plug'n'Play, whose file handles have no sync()", async () => {
    const dir = await temporaryDirectory()
    const key = join(dir, 'key')
    const data = await dataFile('a.csv', 'key,value\nalpha,1\n')
    const yarn = { NODE_OPTIONS: `--import=${new URL('../../tests/support/plug-and-play.mjs', import.meta.url)}` }
    const run = (...args: string[]) => started(process.execPath, [command, ...args], yarn).finished
    expect(await run('keygen', '--out', key)).toMatchObject({ code: 0 })
    const build = ['build', data, '--out', join(dir, 'out'), '--record', `${key}.record`]
    expect(await run(...build)).toMatchObject({ code: 0, stderr: '' })
  })

  test('says in one line what is wrong with a file, exits 1, and leaves nothing', async () => {
    const parent = await temporaryDirectory()
    const data = await dataFile('a.csv', 'key,value\nalpha,1\nalpha,2\n')
    const { code, stdout, stderr } = await run('build', data, '--out', join(parent, 'out'))
    expect([code, stdout, stderr]).toEqual([
      1,
      '',
      `keyhush: ${data}:3: the same key as on line 2; delete one of them\n`,
    ])
    expect(await readdir(parent)).toEqual([])
  })

  test('killed while it writes, leaves no part of a dataset', async () => {
    const parent = await temporaryDirectory()
    const data = await dataFile('a.bin', pseudoRandom(8_000_000))
    const args = ['build', data, '--record-bytes', '100', '--partitions', '2000', '--out', join(parent, 'out')]
    const { child, finished } = start(args)
    await expect.poll(() => readdir(parent), { interval: 5 }).not.toEqual([])
    child.kill('SIGINT')
    const { code } = await finished
    // It may have been quicker than the signal; then it is whole.
    expect([130, 0]).toContain(code)
    expect(await readdir(parent)).toEqual(code === 0 ? ['out'] : [])
  })
})
