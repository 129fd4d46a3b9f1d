// Threads that answer beside the one that has the core: the same bytes and refusals, at both epochs, while the database changes
// under them; one fence and one rate for all; and what becomes of them when one dies, or all are to end.

import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  decodeAnswer,
  decodeManifest,
  encodeParityQuery,
  entryBytes,
  type FenceClaim,
  HEADER_BYTES,
  type Manifest,
  parseErrorReply,
  splitVerdict,
  withClaim,
} from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { startServerProcess } from '../../tests/support/processes.js'
import { slice } from '../dist/base/pace.js'
import { keepOut, Readers } from '../dist/database/readers.js'
import { Entrance, Gate } from '../dist/http/answering/gate.js'
import { Lines } from '../dist/http/answering/lines.js'
import { createServer, Metrics, type UpdatableDatabase } from '../dist/index.js'
import { serving } from './answering.js'
import { builtDataset, builtDirectory, pseudoRandom, queryAt, verifiedRecord } from './helpers.js'
import { deaf } from './sockets.js'
import { batchOn, keyed, opened, storageOf } from './updatable-helpers.js'

const CONTENT = pseudoRandom(600 * 24)

/** A query of suite 3. */
async function parityQuery(epochs: UpdatableDatabase, manifest: Manifest): Promise<Uint8Array> {
  const core = await loadCore()
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = manifest
  const layout = core.layout(records, recordBytes, partitions, partitionRecords, blockRecords)
  const builder = core.newSingleBuilder(layout, manifest.contentHashes, pseudoRandom(32, 5), 50)
  for (let q = 0; q < partitions; q++) {
    const hash = Buffer.from(manifest.contentHashes.subarray(32 * q, 32 * (q + 1))).toString('hex')
    const blob = (await epochs.findBlob(hash))!
    const bytes = Buffer.concat(await (await blob.open(0, blob.bytes - 1)).toArray())
    builder.begin(0, q)
    new Uint8Array(core.memory.buffer, builder.lanePointer(0), bytes.length).set(bytes)
    builder.absorb(0, bytes.length)
    expect(builder.fold(0)).toBe(true)
  }
  const hints = builder.finish(0)
  hints.query(Uint32Array.of(3, 599), pseudoRandom(32, 6))
  const query = encodeParityQuery(manifest, 2, hints.request())
  hints.free()
  layout.free()
  return query
}

const claimOf = ({ databaseId }: UpdatableDatabase, version: number, more: Partial<FenceClaim> = {}): FenceClaim => ({
  ...{ databaseId, hintId: pseudoRandom(16), version, requestHash: pseudoRandom(32, version), ...more },
})

const PATIENCE = { timeout: 20_000 } // for a machine that is busy

describe('an answer of a thread', () => {
  test('has the bytes and headers that the server’s own has, in every suite, at both epochs and by every name', async () => {
    const updatable = await opened(await storageOf('a.bin', CONTENT, { recordBytes: 24 }))
    const before = updatable.newest.manifest
    const parity = await parityQuery(updatable, before)
    const edits = [3, 299, 599].map(index => ({ op: 'edit', index, value: Buffer.alloc(24, index).toString('base64') }))
    await updatable.publish(batchOn(updatable, edits, { encoding: 'base64' }))
    const bare = await builtDataset('b.bin', CONTENT, { recordBytes: 8, proofs: 'tags' })
    const { sendAll } = await serving({
      datasets: [
        { name: 'one', updatable },
        { name: 'two', dataset: bare },
      ],
    })
    const after = updatable.newest.manifest
    const bodies = new Set<string>()
    for (const manifest of [before, after]) {
      for (const proofs of ['merkle', 'tags'] as const) {
        for (const offset of [3, before.partitionRecords - 1]) {
          for (const count of [1, manifest.maxBatch]) {
            const { status, body } = await sendAll(queryAt(manifest, offset, count, proofs), '/one/v1/answer')
            expect(status).toBe(200)
            bodies.add(body.toString('hex'))
            if (proofs === 'tags') continue
            const entries = decodeAnswer(manifest, count, body)
            for (let q = 0; q < manifest.partitions; q++) {
              verifiedRecord(
                manifest,
                q,
                offset,
                entries.subarray(q * entryBytes(manifest), (q + 1) * entryBytes(manifest)),
              )
            }
          }
        }
      }
    }
    expect(bodies.size).toBe(16) // the headers' epochs alone are different
    expect(await sendAll(parity, '/one/v1/answer')).toMatchObject({ status: 200 })
    expect(await sendAll(queryAt(bare.manifest, 1, 2, 'tags'), '/two/v1/answer')).toMatchObject({ status: 200 })
  })

  test('may be longer than what a thread answers at a time', async () => {
    const content = Buffer.alloc(40 * 60_000, pseudoRandom(60_001))
    const dataset = await builtDataset('a.bin', content, { recordBytes: 60_000, partitions: 8 })
    const { sendAll } = await serving({ datasets: [{ dataset }] })
    const { manifest } = dataset
    const { status, body } = await sendAll(queryAt(manifest, 2, 2))
    expect([status, body.length]).toEqual([200, HEADER_BYTES + 16 * entryBytes(manifest)])
    expect(body.length).toBeGreaterThan(3 * 256 * 1024)
  })

  test('is refused for the same reasons and by the same words, whatever is wrong', async () => {
    const updatable = await opened(await storageOf('a.bin', CONTENT, { recordBytes: 24 }), { history: 1 })
    const first = updatable.newest.manifest
    const parity = await parityQuery(updatable, first)
    const edit = (value: number) => [{ op: 'edit', index: 0, value: Buffer.alloc(24, value).toString('base64') }]
    for (const value of [1, 2]) await updatable.publish(batchOn(updatable, edit(value), { encoding: 'base64' }))
    const dataset = await builtDataset('b.bin', CONTENT, { recordBytes: 24 })
    const { sendAll } = await serving({
      datasets: [{ updatable }, { name: 'fixed', dataset }],
      allowOrigins: ['https://a.example'],
    })
    const { manifest } = updatable.newest
    const query = queryAt(manifest, 0)
    const changed = (at: number, ...by: number[]) => {
      const copy = Buffer.from(query)
      copy.set(by, at)
      return copy
    }
    const claimed = (change: Partial<FenceClaim>) => withClaim(query, claimOf(updatable, 1, change))
    const wrong: Record<string, [Uint8Array | undefined, string?, object?]> = {
      nothing: [undefined],
      short: [query.subarray(0, 39)],
      cut: [query.subarray(0, query.length - 1)],
      longer: [Buffer.concat([query, Buffer.alloc(1)])],
      magic: [changed(0, 0x51)],
      suite: [changed(6, 9)],
      instant: [changed(6, 4)],
      proved: [changed(6, 6)],
      parities: [changed(6, 3)],
      'parities of an epoch that is gone': [parity],
      database: [changed(8, 1, 2, 3)],
      generation: [changed(24, 7)],
      'epoch to come': [changed(28, manifest.epoch + 1)],
      'epoch that is gone': [changed(28, first.epoch)],
      partitions: [changed(32, manifest.partitions + 1)],
      'none at all': [changed(36, 0)],
      'more than it has': [changed(36, 9)],
      'too many': [queryAt({ ...manifest, maxBatch: 200 }, 0, manifest.maxBatch + 1)],
      reserved: [changed(38, 1)],
      'offset of M': [queryAt(manifest, manifest.partitionRecords)],
      'last offset beyond all': [changed(query.length - 2, 0xff, 0xff)],
      'very long': [undefined, '/v1/answer', { agent: false, headers: { 'content-length': 9_000_000 } }], // refused unread
      'claim of another database': [claimed({ databaseId: pseudoRandom(16, 9) })],
      'claim of no request': [claimed({ requestHash: new Uint8Array(32) })],
      'claim without a fence': [
        withClaim(queryAt(dataset.manifest, 0), claimOf(updatable, 1, { databaseId: dataset.manifest.databaseId })),
        '/fixed/v1/answer',
      ],
      encoded: [query, '/v1/answer', { headers: { 'content-encoding': 'gzip' } }],
      'from another origin': [query, '/v1/answer', { headers: { origin: 'https://b.example' } }],
      elsewhere: [query, '/v1/nothing'],
      'malformed URL': [query, '/%zz/v1/answer'],
    }
    const codes: Record<string, string> = {}
    for (const [name, of] of Object.entries(wrong)) {
      const { status, body } = await sendAll(...of)
      codes[name] = status === 200 ? 'none' : parseErrorReply(body.toString()).code
    }
    expect(codes).toMatchObject({
      database: 'wrong_database',
      'epoch to come': 'epoch_unknown',
      'very long': 'too_large',
    })
    expect(
      Object.entries(codes)
        .filter(([, code]) => code === 'none')
        .map(([name]) => name),
    ).toEqual(['from another origin'])
    // Pages ask first.
    const preflight = { 'access-control-request-method': 'POST', origin: 'https://a.example' }
    expect(await sendAll(undefined, '/v1/answer', { method: 'OPTIONS', headers: preflight })).toMatchObject({
      status: 204,
    })
  })

  test('is of one epoch or the other, never of both, while batch after batch is written under it', async () => {
    const milliseconds = slice.milliseconds
    slice.milliseconds = 0 // as many slices as there can be
    onTestFinished(() => {
      slice.milliseconds = milliseconds
    })
    const RECORDS = 4000
    const updatable = await opened(await storageOf('a.bin', pseudoRandom(RECORDS * 24), { recordBytes: 24 }))
    const { ports, send } = await serving({ datasets: [{ updatable }] })
    let over = false
    const seen = { newest: 0, previous: 0, unknown: 0 }
    const asker = async (port: number, offset: number) => {
      while (!over) {
        const known = updatable.answerable().map(({ manifest }) => manifest)
        const manifest = known[offset % known.length]!
        const { status, body } = await send(port, queryAt(manifest, offset % manifest.partitionRecords))
        offset += 7
        if (status !== 200) {
          expect(parseErrorReply(body.toString()).code).toBe('epoch_unknown') // two epochs have come meanwhile
          seen.unknown++
          continue
        }
        const entries = decodeAnswer(manifest, 1, body)
        const bytes = entryBytes(manifest)
        for (let q = 0; q < manifest.partitions; q++) {
          verifiedRecord(
            manifest,
            q,
            (offset - 7) % manifest.partitionRecords,
            entries.subarray(q * bytes, (q + 1) * bytes),
          )
        }
        seen[manifest === updatable.newest.manifest ? 'newest' : 'previous']++
      }
    }
    const askers = ports.slice(1).flatMap(port => [1, 2, 3].map(offset => asker(port, offset)))
    for (let round = 1; round <= 5; round++) {
      const value = (index: number) => Buffer.from(pseudoRandom(24, (round + index) % 256)).toString('base64')
      const edits = Array.from({ length: RECORDS / 2 }, (_, i) => ({ op: 'edit', index: 2 * i, value: value(i) }))
      const adds = Array.from({ length: round % 3 === 0 ? 700 : 0 }, (_, i) => ({ op: 'add', value: value(i) }))
      await updatable.publish(batchOn(updatable, [...edits, ...adds], { encoding: 'base64' }))
      await nextTurn()
    }
    over = true
    await Promise.all(askers)
    expect(seen.newest).toBeGreaterThan(10)
    expect(seen.previous).toBeGreaterThan(10)
  })

  test('goes on in the next generation and in the one that lingers, and ends with that', async () => {
    let now = 1_000_000
    const updatable = await keyed({}, { lingerHours: 1, now: () => now })
    const old = updatable.newest.manifest
    const { sendAll } = await serving({ datasets: [{ updatable }] })
    await updatable.publish(batchOn(updatable, [{ op: 'generation', headroom: 100 }]))
    const next = updatable.newest.manifest
    expect(next.generation).toBe(old.generation + 1)
    for (const manifest of [old, next]) expect(await sendAll(queryAt(manifest, 0))).toMatchObject({ status: 200 })
    now += 3601
    expect(await sendAll(queryAt(next, 0))).toMatchObject({ status: 200 })
    updatable.list() // which is when it is over
    await vi.waitFor(async () => expect(await sendAll(queryAt(old, 0))).toMatchObject({ status: 404 }), PATIENCE)
  })
})

describe('threads together', () => {
  test('have one fence: what one of them has confirmed no other grants again', async () => {
    const updatable = await keyed()
    const { ports, send } = await serving({ datasets: [{ updatable }] })
    const query = queryAt(updatable.newest.manifest, 0)
    const judged = async (port: number, version: number, requestHash: Uint8Array) => {
      const { status, body } = await send(port, withClaim(query, claimOf(updatable, version, { requestHash })))
      expect(status).toBe(200)
      const { answer, verdict } = splitVerdict(body)
      expect(Buffer.from(answer)).toEqual((await send(port, query)).body)
      return verdict
    }
    const [own, one, two] = ports as [number, number, number]
    const [h, g] = [pseudoRandom(32, 1), pseudoRandom(32, 2)]
    await updatable.fence.judge({ kind: 'register', ...claimOf(updatable, 0, { requestHash: new Uint8Array(32) }) })
    expect(await judged(one, 1, h)).toBe('granted')
    expect(await Promise.all(ports.map(port => judged(port, 1, h)))).toEqual(['granted', 'granted', 'granted'])
    expect(await judged(two, 1, g)).toBe('refused')
    expect(await judged(own, 2, g)).toBe('granted')
    expect(await Promise.all(ports.map(port => judged(port, 1, h)))).toEqual(['refused', 'refused', 'refused'])
    // Of many at once one alone is granted.
    const rivals = Array.from({ length: 30 }, (_, i) => judged(ports[i % 3]!, 3, pseudoRandom(32, 100 + i)))
    expect((await Promise.all(rivals)).filter(verdict => verdict === 'granted')).toHaveLength(1)
  })

  test('tell no verdict that is not stored', async () => {
    const storage = await storageOf('a.bin', CONTENT, { recordBytes: 24 })
    const updatable = await opened(storage)
    const { ports, send } = await serving({ datasets: [{ updatable }] })
    await updatable.fence.judge({ kind: 'register', ...claimOf(updatable, 0, { requestHash: new Uint8Array(32) }) })
    storage.fails = () => true
    const query = queryAt(updatable.newest.manifest, 0)
    for (const port of ports) {
      const { status, body } = await send(port, withClaim(query, claimOf(updatable, 1)))
      expect([status, parseErrorReply(body.toString()).code]).toEqual([503, 'not_ready'])
      expect((await send(port, query)).status).toBe(200)
    }
  })

  test('count a client’s requests together, the server’s own among them', async () => {
    const dataset = await builtDataset('a.bin', CONTENT, { recordBytes: 24 })
    const { ports, send } = await serving({ datasets: [{ dataset }], rateLimit: 20, trustProxy: 'loopback' })
    const query = queryAt(dataset.manifest, 0)
    const from = (address: string, i: number) =>
      send(ports[i % 3]!, query, '/v1/answer', { headers: { 'x-forwarded-for': address } })
    const replies = await Promise.all(Array.from({ length: 50 }, (_, i) => from('192.0.2.1', i)))
    const refused = replies.filter(({ status }) => status === 429)
    expect([replies.filter(({ status }) => status === 200).length, refused.length]).toEqual([20, 30])
    for (const { headers } of refused) expect(Number(headers['retry-after'])).toBeGreaterThan(50)
    for (const i of [0, 1, 2]) expect((await from('192.0.2.2', i)).status).toBe(200)
    // A batch is as many as it carries.
    const batch = queryAt(dataset.manifest, 0, 20)
    const options = { headers: { 'x-forwarded-for': '192.0.2.3' } }
    expect((await send(ports[1]!, batch, '/v1/answer', options)).status).toBe(200)
    expect((await send(ports[2]!, query, '/v1/answer', options)).status).toBe(429)
  })

  test('have shares of the memory for replies that nobody reads, which are no more than all of it', async () => {
    const dataset = await builtDataset('a.bin', pseudoRandom(64 * 60_000), { recordBytes: 60_000, partitions: 4 })
    const answer = HEADER_BYTES + 4 * entryBytes(dataset.manifest)
    const total = 30 * answer
    const metrics = new Metrics()
    const options = { datasets: [{ dataset }], metrics, unsent: { total }, trustProxy: 'loopback' }
    const { app, ports } = await serving(options)
    const query = queryAt(dataset.manifest, 0)
    const figures = await metrics.server(app.readiness)
    const unsent = async () => {
      const { body } = await figures.inject('/metrics')
      return Number(/^keyhush_unsent_bytes (\d+)$/m.exec(body)![1])
    }
    for (const [i, port] of ports.slice(1).entries()) {
      for (let client = 0; client < 20; client++) {
        const head = `POST /v1/answer HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 10.${client}.${i}.1\r\n`
        const one = Buffer.concat([Buffer.from(`${head}Content-Length: ${query.length}\r\n\r\n`), query])
        await deaf(port, ...Array<Buffer>(40).fill(one))
      }
    }
    // What fits into the system's buffers has left; of the rest as much stands as there is room for.
    await vi.waitFor(async () => expect(await unsent()).toBeGreaterThan(total / 3), PATIENCE)
    for (let times = 0; times < 10; times++) expect(await unsent()).toBeLessThanOrEqual((2 * total) / 3)
    await figures.close()
  })

  test('log what they answer, and are counted, with the server’s own', async () => {
    const dataset = await builtDataset('a.bin', CONTENT, { recordBytes: 24 })
    const lines: string[] = []
    const metrics = new Metrics()
    const { app, ports, send } = await serving({
      ...{ datasets: [{ dataset }], metrics },
      log: { level: 'trace', stream: { write: text => lines.push(...text.trimEnd().split('\n')) } },
    })
    const canary = 'canary7f3a'
    for (const port of ports) {
      await send(port, queryAt(dataset.manifest, 0), `/v1/answer?${canary}`, { headers: { 'user-agent': canary } })
      await send(port, Buffer.from(canary), `/${canary}`)
    }
    const requests = () => lines.map(line => JSON.parse(line)).filter(line => 'route' in line)
    await vi.waitFor(() => expect(requests()).toHaveLength(6), PATIENCE)
    const answered = requests().filter(({ route, status }) => route === 'POST /v1/answer' && status === 200)
    expect(answered).toHaveLength(3)
    expect(lines.join()).not.toContain(canary)
    const figures = await metrics.server(app.readiness)
    const { body } = await figures.inject('/metrics')
    expect(body).toMatch(/^keyhush_request_seconds_count\{route="POST \/v1\/answer",status="200"\} 3$/m)
    expect(body).toMatch(/^keyhush_answer_threads 2$/m)
    expect(body).toMatch(/^process_resident_memory_bytes /m)
    for (const [, name] of body.matchAll(/^# TYPE (\S+)/gm)) expect(body.split(`# TYPE ${name} `)).toHaveLength(2)
    expect(body).not.toContain(canary)
    await figures.close()
  })
})

test('lines of a thread’s log wait while others are on their way; none but the too many is lost, and that is told', async () => {
  const sent: string[] = []
  let arrived = () => {}
  const lines = new Lines(text => {
    sent.push(text)
    return new Promise<void>(resolve => {
      arrived = resolve
    })
  })
  lines.tell = lost => lines.write(`${lost} lost\n`)
  lines.write('one\n')
  lines.write('two\n')
  await vi.waitFor(() => expect(sent).toEqual(['one\ntwo\n']), PATIENCE)
  lines.write('three\n')
  lines.write('x'.repeat(2 ** 20))
  arrived()
  await vi.waitFor(() => expect(sent.slice(1)).toEqual(['three\n']), PATIENCE)
  arrived()
  await vi.waitFor(() => expect(sent.slice(2)).toEqual(['1 lost\n']), PATIENCE)
  arrived()
  await lines.written()
})

describe('a thread that dies', () => {
  test('is replaced, on its port; the others, and updates, do not notice', async () => {
    const updatable = await keyed()
    const lines: string[] = []
    const log = { level: 'error', stream: { write: (line: string) => lines.push(line) } }
    const { app, ports, send, sendAll, workers } = await serving({ datasets: [{ updatable }], log })
    const query = () => queryAt(updatable.newest.manifest, 0)
    await sendAll(query())
    for (let time = 1; time <= 2; time++) {
      const [worker] = workers.splice(0, 1)
      const ended = once(worker!, 'exit')
      // While it is asked, too.
      const asked = Promise.allSettled(
        ports.slice(1).flatMap(port => Array.from({ length: 20 }, () => send(port, query()))),
      )
      await worker!.terminate()
      await ended
      for (const outcome of await asked) if (outcome.status === 'fulfilled') expect(outcome.value.status).toBe(200)
      await updatable.publish(batchOn(updatable, [{ op: 'edit', key: 'one', value: `value ${time}` }]))
      const all = () => sendAll(query())
      await vi.waitFor(async () => expect(await all()).toMatchObject({ status: 200 }), PATIENCE)
    }
    expect([app.answerThreads!.running, app.answerThreads!.ends]).toEqual([2, 2])
    expect(lines.filter(line => line.includes('another one is to take its place'))).toHaveLength(2)
  })

  test('leaves no trace at the gate', async () => {
    const [gate, calls] = [
      new Gate(
        2,
        () => {},
        () => {},
      ),
      [] as string[],
    ]
    onTestFinished(keepOut(gate))
    const [one, two] = [0, 1].map(thread => new Entrance(gate.words, thread))
    expect([one!.enter(), two!.enter()]).toEqual([true, true])
    const done = new Readers().exclusively(() => calls.push('changed'))
    for (let turn = 0; turn < 5; turn++) await nextTurn()
    one!.leave()
    for (let turn = 0; turn < 5; turn++) await nextTurn()
    expect(calls).toEqual([])
    expect(one!.enter()).toBe(false) // the one who changes something is not kept waiting by those to come
    // One that comes meanwhile is kept out, too, and told of what there is now.
    const late = new Gate(
      1,
      () => {},
      () => calls.push('told'),
    )
    onTestFinished(keepOut(late))
    const third = new Entrance(late.words, 0)
    expect(third.enter()).toBe(true)
    gate.ended(1)
    for (let turn = 0; turn < 5; turn++) await nextTurn()
    expect(calls).toEqual([])
    third.leave()
    await done
    expect(calls).toEqual(['changed', 'told'])
    expect([one!.enter(), gate.version]).toEqual([true, 1])
  })
})

describe('`keyhush serve --answer-threads`', () => {
  test('says where they answer, on the ports behind its own or others, and stops with 0', async () => {
    const dataset = await builtDirectory('a.bin', CONTENT, { recordBytes: 24 })
    const server = await startServerProcess('--dataset', dataset, '--answer-threads', '2', '--answer-port', '0')
    const manifest = decodeManifest(Buffer.from(await (await fetch(`${server.url}/v1/manifest`)).arrayBuffer()))
    expect(new Set([server.url, ...server.answering]).size).toBe(3)
    const replies = [server.url, ...server.answering].map(async url => {
      const reply = await fetch(`${url}/v1/answer`, { method: 'POST', body: queryAt(manifest, 1) })
      return Buffer.from(await reply.arrayBuffer())
    })
    const [own, ...others] = await Promise.all(replies)
    expect(own!.length).toBeGreaterThan(HEADER_BYTES)
    for (const other of others) expect(other).toEqual(own)
    await server.stop()
  })
})

describe('a server that ends', () => {
  test('sends clients of its threads elsewhere, answers what is under way there, and then they are gone', async () => {
    const updatable = await keyed()
    const { app, ports, send, sendAll, workers } = await serving({ datasets: [{ updatable }] })
    const query = queryAt(updatable.newest.manifest, 0)
    expect((await sendAll(query)).headers.connection).toBe('keep-alive')
    app.readiness.leave('this server is shutting down')
    await vi.waitFor(async () => {
      for (const port of ports) {
        const { status, headers } = await send(port, query)
        expect([status, headers.connection]).toEqual([200, 'close'])
      }
    }, PATIENCE)
    // Under way: the fence, which all of these wait for, takes its time.
    let judge = () => {}
    const held = new Promise<void>(resolve => {
      judge = resolve
    })
    const before = updatable.fence.judge.bind(updatable.fence)
    const judging = vi.spyOn(updatable.fence, 'judge').mockImplementation(async (...claim) => {
      await held
      return before(...claim)
    })
    const claimed = ports.map((port, i) =>
      send(port, withClaim(query, claimOf(updatable, 1, { hintId: pseudoRandom(16, i) }))),
    )
    await vi.waitFor(() => expect(judging).toHaveBeenCalledTimes(3), PATIENCE)
    const exits = workers.map(worker => once(worker, 'exit'))
    const closed = app.close()
    await nextTurn()
    judge()
    for (const { status } of await Promise.all(claimed)) expect(status).toBe(200)
    await closed
    await Promise.all(exits)
    expect(app.answerThreads!.running).toBe(0)
    for (const port of ports) await expect(send(port, query)).rejects.toThrow('ECONNREFUSED')
  })

  test('that has failed is answered for by none of its threads', async () => {
    const dataset = await builtDataset('a.bin', CONTENT, { recordBytes: 24 })
    const { app, sendAll } = await serving({ datasets: [{ dataset }] })
    app.readiness.stop('this server has failed and is restarting')
    await vi.waitFor(async () => {
      const { status, body } = await sendAll(queryAt(dataset.manifest, 0))
      expect([status, parseErrorReply(body.toString()).code]).toEqual([503, 'not_ready'])
    }, PATIENCE)
  })

  test('has failed when the memory it shares with them makes no sense to one of them', async () => {
    const dataset = await builtDataset('a.bin', CONTENT, { recordBytes: 24 })
    const described = dataset.database.entriesDescriptor.bind(dataset.database)
    vi.spyOn(dataset.database, 'entriesDescriptor').mockImplementation(previous => {
      const words = described(previous)
      words[4] = 0xffff_0000 // where records are
      return words
    })
    const onTrap = vi.fn()
    const { ports, send, sendAll } = await serving({ datasets: [{ dataset }], onTrap })
    const { status, body } = await send(ports[1]!, queryAt(dataset.manifest, 0))
    expect([status, parseErrorReply(body.toString()).code]).toEqual([500, 'internal'])
    await vi.waitFor(() => expect(onTrap).toHaveBeenCalledOnce(), PATIENCE)
    await vi.waitFor(async () => expect((await sendAll(queryAt(dataset.manifest, 0))).status).toBe(503), PATIENCE)
  })

  test('without the ports that its threads want says which, and none of them stays', async () => {
    const dataset = await builtDataset('a.bin', CONTENT, { recordBytes: 24 })
    const { ports } = await serving({ datasets: [{ dataset }] })
    const app = await createServer({ datasets: [{ dataset }], answerThreads: 1 })
    const taken = app.answerThreads!.listen({ host: '127.0.0.1', port: ports[1]! })
    await expect(taken).rejects.toMatchObject({ code: 'EADDRINUSE', syscall: 'listen', port: ports[1] })
    await app.close()
    expect(app.answerThreads!.running).toBe(0)
  })
})
