// `keyhush publish` against two servers.

import { chmod, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeBatch, decodeManifest, encodeBatch, fromHex, signedBytes, toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { describe, expect, onTestFinished, test } from 'vitest'
import { signed } from '../../tests/support/publishing.js'
import { serve } from '../../tests/support/web.js'
import {
  createKeyFile,
  createServer,
  MemoryStorage,
  PublisherRecord,
  publish,
  readKeyFile,
  readPublicKey,
  UpdatableDatabase,
} from '../dist/index.js'
import { expectRefused, keyhush, type Outcome } from './command.js'
import { builtDirectory, createIn, freePort, temporaryDirectory } from './helpers.js'
import { type Headers, standIn } from './stand-in.js'
import { batchOn, KEYED } from './updatable-helpers.js'

/** One operator's server, in this process. */
class Operator {
  url = ''
  updatable!: UpdatableDatabase
  storage = new MemoryStorage()
  stop = async () => {}
  constructor(
    public dataset: string,
    public publisherKeys: readonly Uint8Array[],
    readonly port: number,
  ) {}

  /** Its storage is begun from the dataset if it is empty. */
  async start(): Promise<void> {
    if (!(await UpdatableDatabase.existsIn(this.storage))) await createIn(this.storage, this.dataset)
    const updatable = await UpdatableDatabase.open(this.storage)
    this.updatable = updatable
    const app = await createServer({ datasets: [{ updatable, publisherKeys: this.publisherKeys }] })
    let running = true
    this.stop = async () => {
      if (!running) return
      running = false
      app.server.closeAllConnections()
      await app.close()
      await updatable.close()
    }
    onTestFinished(this.stop)
    this.url = await app.listen({ port: this.port, host: '127.0.0.1' })
  }

  /** Comes back at its address with nothing but a dataset. */
  async restartEmpty(dataset = this.dataset): Promise<void> {
    await this.stop()
    this.storage = new MemoryStorage()
    this.dataset = dataset
    await this.start()
  }

  get epoch(): number {
    return this.updatable.newest.manifest.epoch
  }

  /** The newest epoch. */
  get manifest(): Uint8Array {
    return this.updatable.newest.manifestBytes
  }

  /** Restarts it; from now on it knows these keys. */
  async knows(...publisherKeys: readonly Uint8Array[]): Promise<void> {
    await this.stop()
    this.publisherKeys = publisherKeys
    await this.start()
  }
}

/** Both operators let it publish as well: what it signs the publisher knows nothing of. */
const FORGER = ed25519.keygen(new Uint8Array(32).fill(9))

async function rig() {
  const dir = await temporaryDirectory()
  const path = (name: string) => join(dir, name)
  const { publicKey } = await createKeyFile(path('publisher.key'))
  const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20, name: 'test' })
  const operator = async () => new Operator(dataset, [publicKey, FORGER.publicKey], await freePort())
  const operators = [await operator(), await operator()] as const
  for (const each of operators) await each.start()
  const built = await readFile(join(dataset, 'manifest.bin'))
  const { databaseId, epoch } = decodeManifest(built)
  const record = new PublisherRecord(path('record'))
  await record.addManifest({ databaseId: toHex(databaseId), epoch, hash: toHex(blake3(built)) })
  let files = 0
  return {
    dir,
    operators,
    record,
    baseHash: toHex(blake3(built)),
    key: await readKeyFile(path('publisher.key')),
    async publish(operations: readonly object[] | Uint8Array | undefined, ...args: (string | Via)[]): Promise<Outcome> {
      const file = join(dir, `batch-${files++}.jsonl`)
      const linesOf = (each: readonly object[]) => each.map(operation => `${JSON.stringify(operation)}\n`).join('')
      if (operations !== undefined)
        await writeFile(file, operations instanceof Uint8Array ? operations : linesOf(operations))
      const via = args.find(each => typeof each !== 'string')
      const urls = via?.urls ?? operators.map(({ url }) => url)
      const batch = operations === undefined ? [] : [file]
      const others = args.filter(each => typeof each === 'string')
      const key = others.includes('--key') ? [] : ['--key', path('publisher.key')]
      return keyhush('publish', '--servers', urls.join(), ...key, '--record', path('record'), ...others, ...batch)
    },
  }
}

/** Where publishing is to find the two servers. */
interface Via {
  readonly urls: readonly [string, string]
}

const edit = (value: string) => [{ op: 'edit', key: 'one', value }]

describe('keyhush publish', () => {
  test('takes batches as editors on any system write them, and names the line of what it cannot take', async () => {
    const { publish } = await rig()
    const lines = ['{"op":"edit","key":"one","value":"x"}', '{"op":"delete","key":"two"}']
    expect(await publish(Buffer.from(`\ufeff${lines.join('\r\n')}`))).toMatchObject({ code: 0 })
    // What counts is what the servers get.
    expect((await publish(Buffer.from(`${lines.join('\n')}\n`))).stdout).toContain('published before')
    await expectRefused(publish(Buffer.from(`${lines[0]}\n\n`)), 'line 2: expected one JSON object, got an empty line')
    await expectRefused(publish(Buffer.from(`\ufeff${lines[0]}\n`, 'utf16le')), ':1: expected UTF-8')
    await expectRefused(publish(Buffer.from(`${lines[0]}\n`, 'utf16le')), 'UTF-16')
  })

  test('brings both servers to the same epoch, and again to none', async () => {
    const { operators, publish } = await rig()
    const first = await publish([...edit('x'), { op: 'add', key: 'four', value: 'fourth' }])
    expect(first).toMatchObject({ code: 0, stderr: '' })
    expect(first.stdout).toMatch(/^epoch: 2 of generation 1\nchanges: 2\nmanifest hash: [0-9a-f]{64}\n$/)
    const again = await publish([...edit('x'), { op: 'add', key: 'four', value: 'fourth' }])
    expect(again.stdout).toBe(first.stdout.replace('changes: 2', 'changes: 2 (published before)'))
    expect(operators[0].manifest).toEqual(operators[1].manifest)
    expect(operators[0].epoch).toBe(2)
  })

  test('sends nothing while a server is away, and goes on when it is back', async () => {
    const { operators, publish } = await rig()
    await operators[1].stop()
    const away = await publish(edit('x'))
    expect([away.code, operators[0].epoch]).toEqual([3, 1])
    expect(away.stderr).toContain(`${operators[1].url}: expected a reply, got none`)
    await operators[1].start()
    expect((await publish(edit('x'))).code).toBe(0)
    expect(operators[1].epoch).toBe(2)
  })

  test('publishes what expires in so many days, and nothing that has expired already', async () => {
    const { operators, publish } = await rig()
    await expectRefused(publish(edit('x'), '--valid-days', '0'), 'It must be from 1 to')
    await expectRefused(publish(undefined, '--valid-days', '7'), 'expected a batch, got none')
    expect(operators[0].epoch).toBe(1)
    expect((await publish(edit('x'), '--valid-days', '7')).code).toBe(0)
    const left = decodeManifest(operators[0].manifest).expires - Date.now() / 1000
    expect(left).toBeGreaterThan(6 * 24 * 3600)
    expect(left).toBeLessThanOrEqual(7 * 24 * 3600)
  })

  test('says why a server has nothing for publishers', async () => {
    const { operators, publish } = await rig()
    const [{ url }, other] = operators
    const wrong = await publish(edit('x'), { urls: [`${url}/names`, other.url] })
    expect([wrong.code, wrong.stderr]).toEqual([
      1,
      expect.stringMatching(/databases at \/: is the path of the URL right/),
    ])
    await other.knows()
    const closed = await publish(edit('x'))
    const reason = `${other.url}: 404 not_found: expected a server that takes batches, got one that does not`
    expect([closed.code, closed.stderr]).toEqual([1, expect.stringContaining(reason)])
  })

  describe('a server that is behind', () => {
    // The second makes as many partitions as a generation is begun for.
    const batches = [
      edit('x'),
      Array.from({ length: 18 }, (_, i) => ({ op: 'add', key: `new ${i}`, value: 'x' })),
      [{ op: 'delete', key: 'two' }],
    ]

    test('gets what it lacks from the record, through a new generation, signed epoch by epoch', async () => {
      const { operators, publish, key } = await rig()
      for (const batch of batches) expect((await publish(batch, '--valid-days', '1000')).code).toBe(0)
      const [ahead, behind] = operators
      await behind.restartEmpty()
      const signed: number[] = []
      behind.updatable.signed.listen(() => signed.push(...behind.updatable.signed.list().map(({ epoch }) => epoch)))
      const caughtUp = await publish(undefined)
      expect(caughtUp.stdout).toMatch(/^epoch: 5 of generation 2\n[\s\S]*caught up: 4 epochs\n$/)
      expect(behind.manifest).toEqual(ahead.manifest)
      expect(new Set(signed)).toEqual(new Set([1, 2, 3, 4, 5])) // the first, too, before it is sent more
      expect(behind.updatable.signed.list().every(({ publicKey }) => publicKey === toHex(key.publicKey))).toBe(true)
      expect((await publish(undefined)).stdout).not.toContain('caught up')
    })

    test('is caught up by a run that publishes something else, too', async () => {
      const { operators, publish } = await rig()
      for (const batch of batches) await publish(batch)
      await operators[1].restartEmpty()
      expect((await publish(edit('y'))).stdout).toMatch(/^epoch: 6 of generation 2\n[\s\S]*caught up: 4 epochs\n$/)
      expect(operators[1].manifest).toEqual(operators[0].manifest)
    })

    test('gets nothing, and nothing is signed, that leads to an epoch which is not this publisher’s', async () => {
      const { operators, publish } = await rig()
      for (const batch of batches) await publish(batch)
      await operators[1].restartEmpty()
      const forged = batchOn(operators[0].updatable, edit('forged'))
      expect((await send(operators[0], forged, signed(forged, FORGER))).status).toBe(200)
      for (const operations of [undefined, edit('other')]) {
        await expectRefused(publish(operations), 'has or your key has signed', 4)
      }
      expect(operators[1].epoch).toBe(1)
    })

    test('a batch that a server begun anew cannot bear out is not published twice', async () => {
      const { dir, operators, publish } = await rig()
      await publish(edit('x'))
      const out = join(dir, 'exported')
      const { publicKey } = await readKeyFile(join(dir, 'publisher.key'))
      const vouched = ['--publisher-key', toHex(publicKey)]
      expect((await keyhush('export', '--server', operators[1].url, ...vouched, '--out', out)).code).toBe(0)
      await operators[0].restartEmpty(out)
      expect((await publish(edit('x'))).stdout).toContain('epoch: 2 of generation 1\nchanges: 1 (published before)\n')
      expect((await publish(undefined)).stdout).toMatch(/^epoch: 2 of generation 1\n/)
      expect((await publish(edit('y'))).stdout).toMatch(/^epoch: 3 /)
    })
  })

  test('shows nothing of a server’s error that would steer a terminal', async () => {
    const { operators, publish } = await rig()
    const steering = 'no\u001b[2J\u001b]0;x\u0007\r\nkeyhush: published\u009b1A\u202e\u2066\u2028\u2029\u200b'
    const hostile = await serve((_request, response) => {
      response.writeHead(401).end(JSON.stringify({ code: 'unauthorized', message: steering }))
    })
    onTestFinished(hostile.close)
    const { code, stderr } = await publish(edit('x'), { urls: [hostile.url, operators[1].url] })
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^keyhush: http[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*\n$/u)])
  })

  test('signs what both agree on, and the newest epoch without a batch', async () => {
    const { operators, publish, key } = await rig()
    for (const operations of [undefined, edit('x')]) {
      expect(await publish(operations)).toMatchObject({ code: 0, stderr: '' })
      const manifest = operators[0].manifest
      const { epoch } = decodeManifest(manifest)
      for (const operator of operators) {
        const entry = operator.updatable.signed.list().find(signature => signature.epoch === epoch)!
        expect([entry.publicKey, entry.generation]).toEqual([toHex(key.publicKey), 1])
        expect(ed25519.verify(fromHex(entry.signature), signedBytes(manifest), key.publicKey)).toBe(true)
      }
    }
  })

  describe('when a new generation pays', () => {
    // Three keys make 16 partitions of one record: the 21st is 25 % above the plan and more.
    const adds = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => ({ op: 'add', key: `new ${from + i}`, value: 'x' }))

    test('begins it after the batch, once, and signs that', async () => {
      const { operators, publish } = await rig()
      const grown = await publish(adds(0, 18))
      expect(grown.stdout).toMatch(/^epoch: 3 of generation 2\nchanges: 18\n/)
      expect(grown.stdout).toContain('new generation: begun: the database has 21 partitions where 16 suffice')
      const manifest = operators[0].manifest
      expect(manifest).toEqual(operators[1].manifest)
      const { generation, epoch, records, partitions, partitionRecords } = decodeManifest(manifest)
      // Room for a tenth more: 24 records.
      expect([generation, epoch, records, partitions, partitionRecords]).toEqual([2, 3, 21, 16, 2])
      expect(operators[1].updatable.signed.list().map(({ epoch }) => epoch)).toEqual([2, 3])
      // The batch made epoch 2, and is known to have.
      const again = await publish(adds(0, 18))
      expect(again.stdout).toBe(
        grown.stdout.replace('changes: 18', 'changes: 18 (published before)').replace(/new gen.*\n/, ''),
      )
    })

    test('only says so if asked to', async () => {
      const { publish } = await rig()
      const due = await publish(adds(0, 18), '--no-generation')
      expect(due.stdout).toMatch(/^epoch: 2 of generation 1\n/)
      expect(due.stdout).toContain(
        'new generation: due, but not begun (--no-generation): the database has 21 partitions',
      )
      const begun = await publish(adds(0, 18))
      expect(begun.stdout).toMatch(/^epoch: 3 of generation 2\nchanges: 18 \(published before\)\n/)
    })

    test('completes one that an interrupted publisher began at one server alone', async () => {
      const { operators, publish, record, key } = await rig()
      await publish(adds(0, 18), '--no-generation')
      const body = batchOn(operators[0].updatable, [{ op: 'generation', headroom: 3 }])
      const { databaseId, epoch, operations } = decodeBatch(body)
      const [hash, digest] = [toHex(blake3(body)), toHex(blake3(operations))]
      await record.addBatch({ databaseId: toHex(databaseId), epoch, hash, does: 'generation', digest }, body)
      expect((await send(operators[0], body, signed(body, key))).status).toBe(200)
      expect((await publish(edit('x'))).stdout).toMatch(/^epoch: 4 of generation 2\n/)
      expect(operators[0].manifest).toEqual(operators[1].manifest)
    })

    test('begins one before a batch that the generation has no room for, and none behind it', async () => {
      const { operators, publish } = await rig()
      const many = adds(0, 6000) // several times the 1024 keys that a directory is planned for at least
      await expectRefused(
        publish(many, '--no-generation'),
        `echo '{"op":"generation","headroom":6000}' > generation.jsonl`,
      )
      const grown = await publish(many)
      expect(grown).toMatchObject({ code: 0, stderr: '' })
      expect(grown.stdout).toMatch(/^epoch: 3 of generation 2\nchanges: 6000\n/)
      expect(grown.stdout).toContain('new generation: begun: the batch adds more than the generation has room for\n')
      expect(operators[0].manifest).toEqual(operators[1].manifest)
      for (const { updatable } of operators)
        expect(updatable.signed.list().map(({ epoch }) => epoch)).toEqual([1, 2, 3])
      expect((await publish(edit('x'), '--no-generation')).stdout).toMatch(/^epoch: 4 of generation 2\n/)
    })

    test('begins one by hand', async () => {
      const { operators, publish } = await rig()
      const generation = [{ op: 'generation', headroom: 50 }]
      const begun = await publish(generation)
      expect(begun.stdout).toMatch(/^epoch: 2 of generation 2\nchanges: 0\n/)
      expect((await publish(generation)).stdout).toMatch(/^epoch: 2 of generation 2\nchanges: 0 \(published before\)\n/)
      await expectRefused(publish([...generation, ...edit('x')]), '422 batch_refused: line 1')
      expect(operators[0].epoch).toBe(2)
    })
  })

  describe('what was published before', () => {
    test('is told from what is new: 0 if nothing came since, else 5; --again publishes it anew', async () => {
      const { operators, publish } = await rig()
      for (const value of ['x', 'y']) expect((await publish(edit(value))).code).toBe(0)
      expect((await publish(edit('y'))).stdout).toContain('changes: 1 (published before)')
      await expectRefused(publish(edit('x')), 'these operations made epoch 2, and the servers are at epoch 3', 5)
      expect(operators.map(({ epoch }) => epoch)).toEqual([3, 3])
      expect((await publish(edit('x'), '--again')).stdout).toMatch(/^epoch: 4 [\s\S]*changes: 1\n/)
      // Another encoding is another batch.
      const hex = [{ op: 'edit', key: 'one', value: '78' }]
      for (const encoding of ['hex', 'utf8']) expect((await publish(hex, '--value-encoding', encoding)).code).toBe(0)
      expect(operators[1].epoch).toBe(6)
    })

    test('is still the newest after a renewal and a generation, which change no record', async () => {
      const { publish } = await rig()
      await publish(edit('x'), '--valid-days', '5')
      const renewed = await publish([{ op: 'renew' }], '--valid-days', '7')
      expect(renewed.stdout).toMatch(/^epoch: 3 of generation 1\nchanges: 0\n/)
      await publish([{ op: 'generation' }], '--valid-days', '7')
      expect((await publish(edit('x'))).stdout).toContain('epoch: 4 of generation 2\nchanges: 1 (published before)\n')
      await publish(edit('y'), '--valid-days', '7')
      await expectRefused(publish([{ op: 'generation' }], '--valid-days', '7'), 'these operations made epoch 4', 5)
    })
  })

  test('a renewal makes an epoch each time, with a later expiry, or fails', async () => {
    const { operators, publish } = await rig()
    const renew = [{ op: 'renew' }]
    for (const days of ['5', '6', '6']) expect((await publish(renew, '--valid-days', days)).code).toBe(0)
    expect(operators.map(({ epoch }) => epoch)).toEqual([4, 4])
    expect(decodeManifest(operators[0].manifest).expires).toBeGreaterThan(Date.now() / 1000 + 5.9 * 24 * 3600)
    await expectRefused(publish(renew, '--valid-days', '5'), 'expected a later expiry than')
    await expectRefused(publish(renew), '--valid-days: expected it for a renewal')
    expect(operators[0].epoch).toBe(4)
  })

  test('a clock that is wrong is told, and nothing is sent that has expired for a server', async () => {
    const { operators, record, key } = await rig()
    const now = Math.floor(Date.now() / 1000)
    const DAYS = 24 * 60 * 60
    const publishAt = (clock: number, days: number) =>
      publish({
        ...{ servers: operators.map(({ url }) => url), key, record, expires: clock + days * DAYS, now: () => clock },
        operations: Buffer.from(`${JSON.stringify(edit('x')[0])}\n`),
      })
    const slow = now - 2 * DAYS
    const error = await publishAt(slow, 1).catch((error: unknown) => error)
    expect(error).toMatchObject({ name: 'PublishError', exit: 4 })
    const said = new Date(slow * 1000).toISOString().slice(0, 19)
    expect((error as Error).message).toContain(`your clock says ${said}Z, `)
    for (const { url } of operators) expect((error as Error).message).toContain(`${url} says 2`)
    expect(operators.map(({ epoch }) => epoch)).toEqual([1, 1])
    expect(await publishAt(slow, 3)).toMatchObject({ epoch: 2 })
  })

  test('a proxy’s status is said as such', async () => {
    const { operators, publish } = await rig()
    for (const [status, exit, words] of [
      [502, 3, 'got 502 Bad Gateway of a proxy: the server behind it is away or busy; run it again'],
      [404, 1, 'got 404 Not Found of something else; is the URL right?'],
    ] as const) {
      const proxy = await serve((_request, response) => void response.writeHead(status).end('<html>proxy</html>'))
      onTestFinished(proxy.close)
      await expectRefused(publish(edit('x'), { urls: [operators[0].url, proxy.url] }), words, exit)
    }
    expect(operators[0].epoch).toBe(1)
  })

  test('refuses one server given twice, and a key nobody knows', async () => {
    const { dir, operators, publish } = await rig()
    const [{ url }] = operators
    expect((await publish(edit('x'), { urls: [url, `${url}/`] })).stderr).toContain('got one origin twice')
    const unknown = join(dir, 'unknown.key')
    await createKeyFile(unknown)
    expect((await publish(edit('x'), '--key', unknown)).stderr).toContain('401 unauthorized')
    expect(operators[0].epoch).toBe(1)
  })
})

const send = (operator: Operator, body: Uint8Array<ArrayBuffer>, headers: Headers) =>
  fetch(`${operator.url}/v1/epochs`, { method: 'POST', body, headers })

describe('an operator who wants to forge', () => {
  test('cannot publish at the other server with all that publishing sends it', async () => {
    const { operators, publish } = await rig()
    // Operator A keeps all headers of what is posted to it.
    const seen: Headers[] = []
    const url = await standIn(operators[0].url, {
      request: (method, headers) => void (method === 'POST' && seen.push(headers)),
    })
    const published = await publish(edit('honest'), { urls: [url, operators[1].url] })
    expect(published).toMatchObject({ code: 0, stderr: '' })
    expect(seen.length).toBe(4) // signatures of both manifests, a check, and the batch

    const before = operators[1].manifest
    const forged = batchOn(operators[1].updatable, edit('forged'))
    const own = ed25519.keygen()
    const [checked, first] = seen.filter(headers => 'keyhush-batch-signature' in headers) as [Headers, Headers]
    const publisherKey = fromHex(first['keyhush-batch-signature']!.slice(0, 64))
    for (const headers of [
      {},
      first,
      checked,
      signed(forged, own),
      signed(forged, { ...own, publicKey: publisherKey }),
    ]) {
      const reply = await send(operators[1], forged, headers)
      expect([reply.status, ((await reply.json()) as { code: string }).code]).toEqual([401, 'unauthorized'])
    }
    expect(operators[1].manifest).toEqual(before)
    // Nor does a signature of its own get in beside the publisher's.
    const signature = toHex(ed25519.sign(signedBytes(before), own.secretKey))
    const junk = { publicKey: toHex(own.publicKey), generation: 1, epoch: 2, signature }
    const refused = await fetch(`${operators[1].url}/v1/signatures`, { method: 'POST', body: JSON.stringify(junk) })
    expect(refused.status).toBe(401)
    expect((await publish(edit('next'))).code).toBe(0)
  })

  test('does not get its forgery signed: the publisher builds on nothing that is not its own', async () => {
    const { operators, publish } = await rig()
    expect((await publish(edit('honest'))).code).toBe(0)
    const forged = batchOn(operators[1].updatable, edit('forged'))
    for (const operator of operators) {
      expect((await send(operator, forged, signed(forged, FORGER))).status).toBe(200)
    }
    const before = operators[1].manifest
    for (const operations of [undefined, edit('next')]) {
      const outcome = await publish(operations)
      expect([outcome.code, outcome.stdout]).toEqual([4, ''])
      expect(outcome.stderr).toContain('has or your key has signed')
    }
    for (const operator of operators) {
      expect(operator.manifest).toEqual(before)
      expect(operator.updatable.signed.list().map(({ epoch }) => epoch)).toEqual([2])
    }
    expect((await publish(edit('next'), '--trust-base', toHex(blake3(before)))).code).toBe(0)
  })

  test('cannot pass its forgery off as the very batch that is being published', async () => {
    const { operators, publish } = await rig()
    const wanted = toHex(blake3(batchOn(operators[1].updatable, edit('honest'))))
    const forged = batchOn(operators[1].updatable, edit('forged'))
    for (const operator of operators) await send(operator, forged, signed(forged, FORGER))
    const url = await standIn(operators[0].url, {
      reply: (path, body) =>
        path === '/v1/epochs/2' ? Buffer.from(body.toString().replace(toHex(blake3(forged)), wanted)) : body,
    })
    for (const urls of [
      [url, operators[1].url],
      [operators[1].url, url],
    ] as const) {
      const outcome = await publish(edit('honest'), { urls })
      expect([outcome.code, outcome.stdout]).toEqual([4, ''])
      expect(outcome.stderr).toContain('has or your key has signed')
    }
  })

  test('cannot choose the expiry of what is sent again', async () => {
    const { operators, publish } = await rig()
    const body = batchOn(operators[0].updatable, edit('x'))
    const batch = encodeBatch({ ...decodeBatch(body), expires: 4_000_000_000 })
    expect((await send(operators[0], batch, signed(batch, FORGER))).status).toBe(200)
    await expectRefused(publish(edit('x')), 'has or your key has signed', 4)
    expect(operators[1].epoch).toBe(1)
  })
})

describe('what a publisher is told', () => {
  test('a first publish needs a base that is known: recorded by build, or given by its hash', async () => {
    const { dir, operators, baseHash, publish } = await rig()
    const record = ['--record', join(dir, 'another')]
    await expectRefused(publish(edit('x'), ...record), '--trust-base', 4)
    const wrong = await publish(
      edit('x'),
      ...record,
      '--trust-base',
      baseHash.replace(/^./, d => (d === '0' ? '1' : '0')),
    )
    expect([wrong.code, operators[0].epoch]).toEqual([4, 1])
    const data = join(dir, 'a.csv')
    await writeFile(data, KEYED)
    const choices = ['--max-value-bytes', '20', '--name', 'test', ...record]
    expect((await keyhush('build', data, '--out', join(dir, 'out'), ...choices)).stdout).toContain(baseHash)
    expect((await publish(edit('x'), ...record)).code).toBe(0)
    // Its own signature of the newest epoch is as good as a record.
    expect((await publish(edit('y'), '--record', join(dir, 'a third'))).code).toBe(0)
    expect((await publish(edit('z'), '--record', join(dir, 'a fourth'), '--trust-base', baseHash)).code).toBe(0)
  })

  test('servers that have gone back are refused', async () => {
    const { operators, publish } = await rig()
    expect((await publish(edit('x'))).code).toBe(0)
    for (const operator of operators) await operator.restartEmpty()
    await expectRefused(publish(edit('y')), 'they have gone back', 4)
    expect(operators[0].epoch).toBe(1)
  })

  // As docs/operations/keys.md says: nobody who looks up is without a signature on the way.
  test('it changes its key: epochs have both signatures while operators know both keys, and then the new one alone', async () => {
    const { dir, operators, publish, key } = await rig()
    const next = await createKeyFile(join(dir, 'next.key'))
    const withNext = ['--key', join(dir, 'next.key')]
    const withBoth = [...withNext, '--key', join(dir, 'publisher.key')]
    const both = [key, next].map(({ publicKey }) => toHex(publicKey)).sort()
    const signers = ({ updatable, epoch }: Operator) => {
      const ofNewest = updatable.signed.list().filter(signature => signature.epoch === epoch)
      return ofNewest.map(({ publicKey }) => publicKey).sort()
    }
    await publish(edit('a'))
    for (const operator of operators) await operator.knows(key.publicKey, next.publicKey)
    await publish(undefined, ...withNext)
    expect(operators.map(signers)).toEqual([both, both])
    // Also over a generation that the batch begins: no epoch on the way lacks either signature.
    const adds = Array.from({ length: 18 }, (_, i) => ({ op: 'add', key: `new ${i}`, value: 'x' }))
    expect((await publish(adds, ...withBoth)).stdout).toMatch(/^epoch: 4 of generation 2\n/)
    expect(operators.map(signers)).toEqual([both, both])
    for (const { updatable } of operators) {
      const signed = updatable.signed.list().map(({ epoch, publicKey }) => `${epoch} ${publicKey}`)
      expect(signed.sort()).toEqual([3, 4].flatMap(epoch => both.map(publicKey => `${epoch} ${publicKey}`)))
    }
    for (const operator of operators) await operator.knows(next.publicKey)
    await expectRefused(publish(edit('c')), '401 unauthorized')
    await publish(edit('c'), ...withNext)
    expect(operators.map(({ epoch }) => epoch)).toEqual([5, 5])
    expect(operators.map(signers)).toEqual(Array(2).fill([toHex(next.publicKey)]))
  })

  test('a key that everybody may read is warned of', async () => {
    const { dir, operators, publish } = await rig()
    await chmod(join(dir, 'publisher.key'), 0o644)
    const outcome = await publish(edit('x'))
    expect(outcome.stderr).toBe(
      `keyhush: warning: ${join(dir, 'publisher.key')}: every user of this machine can read it; chmod 600 it\n`,
    )
    expect([outcome.code, operators[1].epoch]).toEqual([0, 2])
  })
})

test("a publisher's record survives a reader's mistakes by refusing them, and forgets the oldest", async () => {
  const folder = join(await temporaryDirectory(), 'record')
  const record = await PublisherRecord.open(folder)
  const [id, other] = ['0a'.repeat(16), '0b'.repeat(16)]
  const hashOf = (epoch: number) => toHex(blake3(Uint8Array.of(epoch & 0xff, epoch >> 8)))
  const batch = (epoch: number, does: 'change' | 'renew' = 'change') => {
    return { databaseId: id, epoch, hash: hashOf(epoch + 1000), does, digest: hashOf(epoch + 2000) }
  }
  await record.addManifest({ databaseId: other, epoch: 1, hash: hashOf(1) })
  for (let epoch = 1; epoch <= 260; epoch++) {
    await record.addBatch(batch(epoch, epoch === 260 ? 'renew' : 'change'), Uint8Array.of(epoch & 0xff))
    await record.addManifest({ databaseId: id, epoch, hash: hashOf(epoch), batch: hashOf(epoch + 1000) })
  }
  await record.addBatch(batch(261), Uint8Array.of(1, 2, 3))
  const again = await PublisherRecord.open(folder)
  expect([again.newestEpoch(id), again.newestEpoch(other), again.newestEpoch('0c'.repeat(16))]).toEqual([260, 1, 0])
  expect([4, 5, 260, 261].map(epoch => again.hasManifest(id, hashOf(epoch)))).toEqual([false, true, true, false])
  expect([again.hasManifest(other, hashOf(1)), again.hasManifest(other, hashOf(260))]).toEqual([true, false])
  expect([5, 6, 261, 262].map(epoch => again.hasBatch(id, hashOf(epoch + 1000)))).toEqual([false, true, true, false])
  expect(await again.batch(id, hashOf(1261))).toEqual(Uint8Array.of(1, 2, 3))
  expect([5, 6, 261].map(epoch => again.publishedAt(id, hashOf(epoch + 2000)))).toEqual([undefined, 6, undefined])
  expect([again.changesNothing(id, 259), again.changesNothing(id, 260)]).toEqual([false, true])
  expect(await record.batch(id, hashOf(1006))).toEqual(await again.batch(id, hashOf(1006)))
  const names = await readdir(folder)
  expect(names.length).toBe(1 + 256 + 256)
  for (const path of [folder, join(folder, names[0]!)]) expect((await stat(path)).mode & 0o077).toBe(0)
  for (const wrong of [names[0]!.slice(1), names[0]!.toUpperCase(), `${names[0]}0`, 'notes.txt']) {
    await writeFile(join(folder, wrong), '')
    await expect(PublisherRecord.open(folder)).rejects.toThrow(wrong)
    await rm(join(folder, wrong))
  }
  await expect(PublisherRecord.open(join(folder, names[0]!))).rejects.toThrow('which is a folder, got a file')
})

test('two runs at once lose nothing of one record', async () => {
  const folder = join(await temporaryDirectory(), 'record')
  const [a, b] = [await PublisherRecord.open(folder), await PublisherRecord.open(folder)]
  const id = '0a'.repeat(16)
  const hashOf = (n: number) => toHex(blake3(Uint8Array.of(n)))
  const all = Array.from({ length: 100 }, (_, n) => n)
  await Promise.all(
    all.map(n => (n % 2 === 0 ? a : b).addManifest({ databaseId: id, epoch: 1 + (n >> 1), hash: hashOf(n) })),
  )
  const whole = await PublisherRecord.open(folder)
  expect(all.filter(n => !whole.hasManifest(id, hashOf(n)))).toEqual([])
})

test('key files are made for their owner alone, and read strictly', async () => {
  const dir = await temporaryDirectory()
  const file = join(dir, 'key')
  expect((await keyhush('keygen', '--out', file)).stdout).toMatch(/^public key: [0-9a-f]{64}\n$/)
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  expect((await keyhush('keygen', '--out', file)).stderr).toContain('exists already')
  const text = await readFile(file, 'utf8')
  expect((await readKeyFile(file)).secretKey.length).toBe(32)
  const flipped = text.replace(/secret ./, letter => `secret ${letter.endsWith('0') ? '1' : '0'}`)
  for (const wrong of ['', text.slice(0, -3), text.replace('v1', 'v2'), flipped, text.toUpperCase()]) {
    await writeFile(file, wrong)
    await expect(readKeyFile(file)).rejects.toThrow(file)
  }
  const digits = /public (\w{64})/.exec(text)![1]!
  expect(toHex(await readPublicKey(digits))).toBe(digits)
  for (const right of [digits, `${digits}\n`, `public key: ${digits}\n`]) {
    await writeFile(file, right)
    expect(toHex(await readPublicKey(file))).toBe(digits)
  }
  // The last two: a point of small order, and none.
  for (const wrong of [text, digits.slice(1), digits.toUpperCase(), `01${'00'.repeat(31)}`, `02${'00'.repeat(31)}`]) {
    await writeFile(file, wrong)
    await expect(readPublicKey(file)).rejects.toThrow(file)
  }
})
