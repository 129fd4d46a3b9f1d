// `pirouette publish` against two servers that run as processes.

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { decodeManifest, encodeBatch, fromHex, parseInfo, signedBytes } from '@pirouette/protocol'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readKeyFile, readToken } from '../dist/index.js'
import { builtDirectory, temporaryDirectory } from './helpers.js'

const command = fileURLToPath(new URL('../bin/pirouette.js', import.meta.url))
const DATA = 'key,value\none,first\ntwo,second\nthree,third\n'

interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

async function pirouette(...args: string[]): Promise<Outcome> {
  return promisify(execFile)(process.execPath, [command, ...args]).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: Outcome) => error,
  )
}

class Operator {
  url = ''
  #child: ChildProcess | undefined
  private constructor(
    readonly store: string,
    readonly dataset: string,
    readonly tokenFile: string,
    readonly port: number,
  ) {}

  static async begin(dataset: string, tokenFile: string): Promise<Operator> {
    const operator = new Operator(await temporaryDirectory(), dataset, tokenFile, await freePort())
    await operator.start()
    return operator
  }

  async start(): Promise<void> {
    const { store, dataset, tokenFile, port } = this
    const args = ['serve', '--port', `${port}`, '--log-level', 'silent', '--store', store, '--dataset', dataset]
    const child = spawn(process.execPath, [command, ...args, '--token-file', tokenFile], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    const [line] = (await once(child.stdout, 'data')) as [Buffer]
    this.url = String(line).trim().replace('listening on ', '')
    this.#child = child
  }

  async stop(): Promise<void> {
    this.#child!.kill('SIGTERM')
    const [code] = (await once(this.#child!, 'exit')) as [number]
    expect(code).toBe(0)
  }

  async get(path: string): Promise<Uint8Array> {
    return new Uint8Array(await (await fetch(this.url + path)).arrayBuffer())
  }

  async epoch(): Promise<number> {
    return decodeManifest(await this.get('/v1/manifest')).epoch
  }
}

/** A port that was free a moment ago: a server that comes back must come back at its address. */
async function freePort(): Promise<number> {
  const server = createHttpServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  return port
}

async function rig(datasets: readonly [string, string] = [DATA, DATA]) {
  const dir = await temporaryDirectory()
  const tokenFile = join(dir, 'token')
  await writeFile(tokenFile, 'a-token-of-sixteen-or-more-characters\n')
  const build = (data: string) => builtDirectory('a.csv', data, { maxValueBytes: 20, name: 'test' })
  const operators = [
    await Operator.begin(await build(datasets[0]), tokenFile),
    await Operator.begin(await build(datasets[1]), tokenFile),
  ] as const
  let files = 0
  return {
    dir,
    operators,
    async publish(operations: readonly object[] | undefined, ...args: string[]): Promise<Outcome> {
      const file = join(dir, `batch-${files++}.jsonl`)
      if (operations !== undefined) await writeFile(file, operations.map(each => `${JSON.stringify(each)}\n`).join(''))
      const servers = operators.map(({ url }) => url).join(',')
      const batch = operations === undefined ? [] : [file]
      return pirouette('publish', '--servers', servers, '--token-file', tokenFile, ...args, ...batch)
    },
  }
}

const edit = (value: string) => [{ op: 'edit', key: 'one', value }]

describe('pirouette publish', () => {
  test('brings both servers to the same epoch, and again to none', async () => {
    const { operators, publish } = await rig()
    const first = await publish([...edit('x'), { op: 'add', key: 'four', value: 'fourth' }])
    expect(first).toMatchObject({ code: 0, stderr: '' })
    expect(first.stdout).toMatch(/^epoch: 2 of generation 1\nchanges: 2\nmanifest hash: [0-9a-f]{64}\nsigned: no\n$/)
    const again = await publish([...edit('x'), { op: 'add', key: 'four', value: 'fourth' }])
    expect(again.stdout).toBe(first.stdout.replace('changes: 2', 'changes: 2 (published before)'))
    expect(await operators[0].get('/v1/manifest')).toEqual(await operators[1].get('/v1/manifest'))
    expect(await operators[0].epoch()).toBe(2)
  })

  test('sends nothing while a server is away, and goes on when it is back', async () => {
    const { operators, publish } = await rig()
    await operators[1].stop()
    const away = await publish(edit('x'))
    expect([away.code, await operators[0].epoch()]).toEqual([1, 1])
    expect(away.stderr).toContain(`${operators[1].url}: it cannot be reached`)
    await operators[1].start()
    expect((await publish(edit('x'))).code).toBe(0)
    expect(await operators[1].epoch()).toBe(2)
  })

  test('brings a server that lacks the newest epoch to it, and refuses another batch meanwhile', async () => {
    const { dir, operators, publish } = await rig()
    // The second operator restarts on an empty store: it is one epoch behind.
    expect((await publish(edit('x'), '--expires', '1900000000')).code).toBe(0)
    await operators[1].stop()
    const behind = Object.assign(operators[1], { store: join(dir, 'fresh') })
    await behind.start()
    expect([await operators[0].epoch(), await behind.epoch()]).toEqual([2, 1])
    const other = await publish(edit('y'))
    expect([other.code, other.stderr]).toEqual([1, expect.stringContaining('publish that one again first')])
    const unsigned = await publish(undefined)
    expect(unsigned.code).toBe(1)
    // The expiry of the epoch that is there counts, whatever is said now.
    expect((await publish(edit('x'))).code).toBe(0)
    expect(await behind.get('/v1/manifest')).toEqual(await operators[0].get('/v1/manifest'))
    expect((await publish(edit('y'))).code).toBe(0)
  })

  test('says so when the servers have diverged, and sends nothing', async () => {
    const { operators, publish } = await rig([DATA, DATA.replace('third', 'other')])
    const outcome = await publish(edit('x'))
    expect([outcome.code, outcome.stderr]).toEqual([1, expect.stringContaining('THE SERVERS HAVE DIVERGED')])
    expect([await operators[0].epoch(), await operators[1].epoch()]).toEqual([1, 1])
  })

  test('shows the line of an operation that cannot be', async () => {
    const { operators, publish } = await rig()
    const outcome = await publish([...edit('x'), { op: 'add', key: 'two', value: 'x' }])
    expect(outcome.code).toBe(1)
    expect(outcome.stderr).toContain('422 batch_refused: line 2: the key exists already')
    expect(await operators[0].epoch()).toBe(1)
  })

  test('signs what both agree on, and the newest epoch without a batch', async () => {
    const { dir, operators, publish } = await rig()
    const key = join(dir, 'key')
    const made = await pirouette('keygen', '--out', key)
    const publicKey = /^public key: ([0-9a-f]{64})\n$/.exec(made.stdout)![1]!
    expect((await stat(key)).mode & 0o777).toBe(0o600)
    expect((await pirouette('keygen', '--out', key)).stderr).toContain('exists already')
    for (const operations of [undefined, edit('x')]) {
      expect(await publish(operations, '--key', key)).toMatchObject({ code: 0, stderr: '' })
      const manifest = await operators[0].get('/v1/manifest')
      const { epoch } = decodeManifest(manifest)
      for (const operator of operators) {
        const { signatures } = parseInfo(JSON.parse(Buffer.from(await operator.get('/v1/info')).toString()))
        const entry = signatures.find(signature => signature.epoch === epoch)!
        expect([entry.publicKey, entry.generation]).toEqual([publicKey, 1])
        expect(ed25519.verify(fromHex(entry.signature), signedBytes(manifest), fromHex(publicKey))).toBe(true)
      }
    }
  })

  describe('when a new generation pays', () => {
    // Three keys make 16 partitions of one record: the 21st is 25 % above the plan and more.
    const adds = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => ({ op: 'add', key: `new ${from + i}`, value: 'x' }))

    test('begins it after the batch, once, and signs that', async () => {
      const { dir, operators, publish } = await rig()
      const key = join(dir, 'key')
      await pirouette('keygen', '--out', key)
      const grown = await publish(adds(0, 18), '--key', key)
      expect(grown.stdout).toMatch(/^epoch: 3 of generation 2\nchanges: 18\n/)
      expect(grown.stdout).toContain('new generation: begun: it has 21 partitions where 16 would do')
      const manifest = await operators[0].get('/v1/manifest')
      expect(manifest).toEqual(await operators[1].get('/v1/manifest'))
      const { generation, epoch, records, partitions, partitionRecords } = decodeManifest(manifest)
      // Room for a tenth more: 24 records.
      expect([generation, epoch, records, partitions, partitionRecords]).toEqual([2, 3, 21, 16, 2])
      const { signatures } = parseInfo(JSON.parse(Buffer.from(await operators[1].get('/v1/info')).toString()))
      expect(signatures.map(({ epoch }) => epoch)).toEqual([3])
      // The batch made epoch 2, and is known to have.
      const again = await publish(adds(0, 18), '--key', key)
      expect(again.stdout).toBe(
        grown.stdout.replace('changes: 18', 'changes: 18 (published before)').replace(/new gen.*\n/, ''),
      )
    })

    test('only says so if asked to, and leaves as much room as asked', async () => {
      const { operators, publish } = await rig()
      const due = await publish(adds(0, 18), '--no-generation')
      expect(due.stdout).toMatch(/^epoch: 2 of generation 1\n/)
      expect(due.stdout).toContain('new generation: due, and not begun (--no-generation): it has 21 partitions')
      const begun = await publish(adds(0, 18), '--headroom', '100')
      expect(begun.stdout).toMatch(/^epoch: 3 of generation 2\nchanges: 18 \(published before\)\n/)
      expect(decodeManifest(await operators[0].get('/v1/manifest')).partitionRecords).toBe(8)
    })

    test('completes one that an interrupted publisher began at one server alone', async () => {
      const { operators, publish } = await rig()
      await publish(adds(0, 18), '--no-generation')
      const before = await operators[0].get('/v1/manifest')
      const { databaseId, generation, epoch } = decodeManifest(before)
      const body = encodeBatch({
        ...{ encoding: 'utf8', databaseId, generation, epoch: epoch + 1, expires: 0 },
        previousManifest: blake3(before),
        operations: new TextEncoder().encode('{"op":"generation","headroom":3}\n'),
      })
      const headers = { authorization: 'Bearer a-token-of-sixteen-or-more-characters' }
      const reply = await fetch(`${operators[0].url}/v1/epochs`, { method: 'POST', body, headers })
      expect(reply.status).toBe(200)
      expect((await publish(edit('x'))).stdout).toMatch(/^epoch: 4 of generation 2\n/)
      expect(await operators[0].get('/v1/manifest')).toEqual(await operators[1].get('/v1/manifest'))
    })

    test('begins one by hand', async () => {
      const { operators, publish } = await rig()
      const generation = [{ op: 'generation', headroom: 50 }]
      const begun = await publish(generation)
      expect(begun.stdout).toMatch(/^epoch: 2 of generation 2\nchanges: 0\n/)
      expect((await publish(generation)).stdout).toMatch(/^epoch: 2 of generation 2\nchanges: 0 \(published before\)\n/)
      const refused = await publish([...generation, ...edit('x')])
      expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('422 batch_refused: line 1')])
      expect(await operators[0].epoch()).toBe(2)
    })
  })

  test('refuses one server given twice, and a token nobody knows', async () => {
    const { dir, operators } = await rig()
    const token = join(dir, 'other-token')
    await writeFile(token, 'another-token-of-sixteen-characters')
    const batch = join(dir, 'batch.jsonl')
    await writeFile(batch, JSON.stringify(edit('x')[0]))
    const with_ = (servers: string) => pirouette('publish', '--servers', servers, '--token-file', token, batch)
    expect((await with_(`${operators[0].url},${operators[0].url}/`)).stderr).toContain('the two servers are one')
    expect((await with_(operators.map(({ url }) => url).join())).stderr).toContain('401 unauthorized')
    expect(await operators[0].epoch()).toBe(1)
  })
})

test('key files and token files are read strictly', async () => {
  const dir = await temporaryDirectory()
  const file = join(dir, 'key')
  await pirouette('keygen', '--out', file)
  const text = await readFile(file, 'utf8')
  expect((await readKeyFile(file)).secretKey.length).toBe(32)
  const flipped = text.replace(/secret ./, letter => `secret ${letter.endsWith('0') ? '1' : '0'}`)
  for (const wrong of ['', text.slice(0, -3), text.replace('v1', 'v2'), flipped, text.toUpperCase()]) {
    await writeFile(file, wrong)
    await expect(readKeyFile(file)).rejects.toThrow(file)
  }
  for (const wrong of ['short', 'has spaces in the middle', 'a-token-with-\u00fcmlauts-in-it']) {
    await writeFile(file, wrong)
    await expect(readToken(file)).rejects.toThrow(file)
  }
})
