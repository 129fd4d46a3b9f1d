// Light hints at a server, with real worker threads: right at both epochs whatever happens meanwhile, of one epoch each,
// bounded, apart from everything else, and gone without a trace.

import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import {
  decodeInstantAnswer,
  decodeLightReply,
  type EntryProofs,
  encodeInstantQuery,
  encodeLightRequest,
  HEADER_BYTES,
  INSTANT_PATH,
  type LightPart,
  lightPath,
  lightReplyBytes,
  lightRequestBytes,
  type Manifest,
  parseErrorReply,
  parseInfo,
} from '@keyhush/protocol'
import { type Core, type LayoutHandle, loadCore } from '@keyhush/wasm'
import type { FastifyInstance } from 'fastify'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { Unsent } from '../dist/http/unsent.js'
import type { ComputationsOptions, KeyhushOptions } from '../dist/index.js'
import {
  CONTENT,
  changing,
  entropy,
  fixed,
  held,
  hex,
  loggingServer,
  RECORD_BYTES,
  serverFor,
  withComputations,
} from './computing.js'
import { builtDataset, pseudoRandom, queryAt } from './helpers.js'
import { batchOn, opened, storageOf } from './updatable-helpers.js'

const PARTS = ['hint', 'tags'] as const
const KINDS = ['merkle', 'tags'] as const

let core: Core
beforeAll(async () => {
  core = await loadCore()
})

function layoutOf({ records, recordBytes, partitions, partitionRecords, blockRecords }: Manifest): LayoutHandle {
  return core.layout(records, recordBytes, partitions, partitionRecords, blockRecords)
}

/** Both requests of a hint, and whether the replies make one. */
function attempt(manifest: Manifest, proofs: EntryProofs = 'merkle') {
  const layout = layoutOf(manifest)
  const attempt = core.newLightAttempt(layout, manifest.commitments, entropy(), proofs)
  layout.free()
  const secrets = { hint: Buffer.from(attempt.paritiesRequest()), tags: Buffer.from(attempt.tagsRequest()) }
  const body = (part: LightPart) => Buffer.from(encodeLightRequest(part, manifest, secrets[part], proofs))
  const accepts = (replies: Record<LightPart, Uint8Array>) => {
    const [hint, tags] = PARTS.map(part => decodeLightReply(part, manifest, replies[part], proofs))
    for (const [party, reply] of [tags!, hint!].entries()) {
      new Uint8Array(core.memory.buffer, attempt.replyPointer(party, reply.length), reply.length).set(reply)
    }
    const outcome = attempt.finish()
    const client = outcome.takeHint()
    client?.free()
    outcome.free()
    return client !== undefined
  }
  onTestFinished(() => attempt.free())
  return { secrets, bodies: { hint: body('hint'), tags: body('tags') }, accepts }
}

const post = (app: FastifyInstance, part: LightPart, payload: Buffer, prefix = '') =>
  app.inject({ method: 'POST', url: prefix + lightPath(part), payload })

/** Whether a hint comes of it, or the code that one of the replies had. */
async function made(app: FastifyInstance, manifest: Manifest, proofs?: EntryProofs): Promise<boolean | string> {
  const { bodies, accepts } = attempt(manifest, proofs)
  const [hint, tags] = await Promise.all(PARTS.map(part => post(app, part, bodies[part])))
  const refused = [hint!, tags!].find(({ statusCode }) => statusCode !== 200)
  if (refused !== undefined) return parseErrorReply(refused.body).code
  return accepts({ hint: hint!.rawPayload, tags: tags!.rawPayload })
}

/** The plugin with computations that the test can look into. */
async function withQueue(options: KeyhushOptions, choices: ComputationsOptions = {}) {
  const { app, computations } = await withComputations(options, choices)
  return { app, computations, hints: computations.light! }
}

describe('a light hint', () => {
  test.each([1, 3])('comes of both replies, %i computed at a time, many asked for at once', async computations => {
    const dataset = await fixed()
    const app = await serverFor({ datasets: [{ dataset }], light: { computations, waiting: 100 } })
    const all = await Promise.all(Array.from({ length: 20 }, (_, i) => made(app, dataset.manifest, KINDS[i % 2])))
    expect(all).toEqual(Array(20).fill(true))
  })

  test.each(KINDS)('has replies of lengths that follow from the manifest, sent as answers are: %s', async proofs => {
    const dataset = await fixed()
    const app = await serverFor({ datasets: [{ dataset }] })
    const { bodies } = attempt(dataset.manifest, proofs)
    for (const part of PARTS) {
      const reply = await post(app, part, bodies[part])
      expect(reply.headers).toMatchObject({
        'content-length': String(lightReplyBytes(part, dataset.manifest, proofs)),
        'cache-control': 'no-store, no-transform',
        'content-type': 'application/octet-stream',
      })
      expect(reply.headers['content-encoding']).toBeUndefined()
      expect(reply.rawPayload.length).toBe(lightReplyBytes(part, dataset.manifest, proofs))
      // Whole replies only, and by POST alone.
      const ranged = await app.inject({
        ...{ method: 'POST', url: lightPath(part), payload: bodies[part], headers: { range: 'bytes=0-9' } },
      })
      expect([ranged.statusCode, ranged.rawPayload.equals(reply.rawPayload)]).toEqual([200, true])
      expect(parseErrorReply((await app.inject(lightPath(part))).body).code).toBe('not_found')
      const encoded = await app.inject({
        ...{ method: 'POST', url: lightPath(part), payload: bodies[part], headers: { 'content-encoding': 'identity' } },
      })
      expect(encoded.statusCode).toBe(415)
    }
  })

  test('is offered where there are commitments, unless the operator has switched it off', async () => {
    const dataset = await fixed()
    const bare = await builtDataset('a.bin', CONTENT, { recordBytes: RECORD_BYTES, proofs: 'tags' })
    const offers = async (app: FastifyInstance, prefix = '') =>
      parseInfo((await app.inject(`${prefix}/v1/info`)).json()).offers.light
    const on = await serverFor({ datasets: [{ dataset }, { name: 'bare', dataset: bare }] })
    expect([await offers(on), await offers(on, '/bare')]).toEqual([true, false])
    const { bodies } = attempt(dataset.manifest)
    bodies.tags.set(bare.manifest.databaseId, 8)
    expect(parseErrorReply((await post(on, 'tags', bodies.tags, '/bare')).body).code).toBe('bad_request')
    const off = await serverFor({ datasets: [{ dataset }], light: false })
    expect(await offers(off)).toBe(false)
    expect(await made(off, dataset.manifest)).toBe('not_found')
    expect(parseInfo((await off.inject('/v1/info')).json()).offers.instant).toBe(true)
  })

  test('that is asked for in another form is refused, and so is the other server’s request', async () => {
    const dataset = await fixed()
    const app = await serverFor({ datasets: [{ dataset }] })
    for (const part of PARTS) {
      const good = attempt(dataset.manifest).bodies[part]
      const changed = (change: (body: Buffer) => void) => {
        const body = Buffer.from(good)
        change(body)
        return body
      }
      const faults: [string, Buffer, string][] = [
        ['nothing', Buffer.alloc(0), 'bad_request'],
        ['the other magic', changed(body => body.write(part === 'hint' ? 'PIRT' : 'PIRH')), 'bad_request'],
        ['another format', changed(body => body.writeUInt16LE(2, 4)), 'bad_request'],
        ['another kind', changed(body => body.writeUInt16LE(3, 6)), 'bad_request'],
        ['another database', changed(body => body.fill(7, 8, 24)), 'wrong_database'],
        ['another generation', changed(body => body.writeUInt32LE(2, 24)), 'epoch_unknown'],
        ['another epoch', changed(body => body.writeUInt32LE(2, 28)), 'epoch_unknown'],
        ['another Q', changed(body => body.writeUInt32LE(15, 32)), 'bad_request'],
        ['reserved bytes', changed(body => body.writeUInt16LE(1, 36)), 'bad_request'],
        ['more reserved bytes', changed(body => body.writeUInt16LE(1, 38)), 'bad_request'],
        ['a byte too few', good.subarray(0, -1), 'bad_request'],
        ['a byte too many', Buffer.concat([good, Buffer.alloc(1)]), 'bad_request'],
        ['the other kind', changed(body => body.writeUInt16LE(2, 6)), 'bad_request'],
        ['more than any is long', Buffer.alloc(lightRequestBytes(part, 'tags') + 1), 'too_large'],
      ]
      const codes = []
      for (const [name, body] of faults) codes.push([name, parseErrorReply((await post(app, part, body)).body).code])
      expect(codes).toEqual(faults.map(([name, , code]) => [name, code]))
    }
    expect(await made(app, dataset.manifest)).toBe(true)
  })

  test('counts against limits of its own, of an address and of all', async () => {
    const dataset = await fixed()
    const { bodies } = attempt(dataset.manifest)
    const statuses = async (app: FastifyInstance, addresses: readonly string[]) => {
      const all = []
      for (const remoteAddress of addresses) {
        const reply = await app.inject({
          ...{ method: 'POST', url: lightPath('tags'), payload: Buffer.from(bodies.tags), remoteAddress },
        })
        all.push(reply.statusCode)
      }
      return all
    }
    const each = await serverFor({ datasets: [{ dataset }], lightRateLimit: 2 })
    expect(await statuses(each, ['10.0.0.1', '10.0.0.1', '10.0.0.1', '10.0.0.2'])).toEqual([200, 200, 429, 200])
    const all = await serverFor({ datasets: [{ dataset }], light: { rateLimit: 3 } })
    expect(await statuses(all, ['10.0.0.1', '10.1.0.1', '10.2.0.1', '10.3.0.1'])).toEqual([200, 200, 200, 429])
    for (const app of [each, all]) {
      expect((await app.inject({ ...answer(dataset.manifest) })).statusCode).toBe(200)
    }
    const other = await serverFor({ datasets: [{ dataset }], rateLimit: 1, instantRateLimit: 1 })
    expect(await statuses(other, ['10.0.0.1', '10.0.0.1'])).toEqual([200, 200])
  })

  test('leaves nothing in the log but route, status, size and duration', async () => {
    const dataset = await fixed()
    const { app, expectLogged } = await loggingServer({ datasets: [{ dataset }] })
    const { bodies, secrets } = attempt(dataset.manifest)
    const sent = [secrets.hint.subarray(0, 32), secrets.hint.subarray(32), secrets.tags].map(part => Buffer.from(part))
    const tags = await post(app, 'tags', Buffer.from(bodies.tags))
    await post(app, 'hint', Buffer.from(bodies.hint))
    await post(app, 'hint', bodies.hint.subarray(0, -1))
    expectLogged(
      [
        ['POST /v1/tags', 200],
        ['POST /v1/hint', 200],
        ['POST /v1/hint', 400],
      ],
      [...sent, Buffer.from(tags.rawPayload.subarray(HEADER_BYTES, HEADER_BYTES + 8))],
    )
  })
})

const answer = (manifest: Manifest) => ({ method: 'POST', url: '/v1/answer', payload: queryAt(manifest, 0) }) as const

describe('while the database changes', () => {
  test('replies are of one epoch, the newest or the one before, and those asked for at one make a hint', async () => {
    const updatable = await changing()
    const { app } = await withQueue({ updatable }, { light: { computations: 2, waiting: 100 } })
    const manifests = [updatable.newest.manifest]
    for (let epoch = 2; epoch <= 6; epoch++) {
      const value = () => hex(entropy()).slice(0, 2 * RECORD_BYTES)
      const edits = [3, 100 + epoch, 299].map(index => ({ op: 'edit', index, value: value() }))
      const added = Array.from({ length: 12 }, () => ({ op: 'add', value: value() }))
      const before = manifests.at(-1)!
      const early = [made(app, before), made(app, before)]
      const publishing = updatable.publish(batchOn(updatable, [...edits, ...added], { encoding: 'hex' }))
      const meanwhile = made(app, before)
      await publishing
      manifests.push(updatable.newest.manifest)
      const late = [made(app, before), made(app, updatable.newest.manifest)]
      expect(await Promise.all([...early, meanwhile, ...late])).toEqual(Array(5).fill(true))
      if (epoch > 2) expect(await made(app, manifests.at(-3)!)).toBe('epoch_unknown')
    }
    expect(updatable.newest.manifest.partitions).toBeGreaterThan(manifests[0]!.partitions)
  })

  test('the last epoch of a generation that has ended makes hints as long as it is listed', async () => {
    let seconds = 1000
    const storage = await storageOf('a.bin', CONTENT, { recordBytes: RECORD_BYTES })
    const updatable = await opened(storage, { lingerHours: 1, now: () => seconds })
    const { app } = await withQueue({ updatable })
    const { manifest: old } = updatable.newest
    await updatable.publish(batchOn(updatable, [{ op: 'generation' }]))
    const { manifest: first } = updatable.newest
    const edit = { op: 'edit', index: 9, value: hex(pseudoRandom(RECORD_BYTES, 79)) }
    await updatable.publish(batchOn(updatable, [edit], { encoding: 'hex' }))
    const { manifest: newest } = updatable.newest
    const all = () => Promise.all([old, first, newest].map(manifest => made(app, manifest)))
    expect(await all()).toEqual([true, true, true])
    seconds += 3600
    expect(await all()).toEqual(['epoch_unknown', true, true])
  })

  test('a batch waits for what is computed, and what waited meanwhile is computed at the epoch before', async () => {
    const updatable = await changing()
    const { app, hints } = await withQueue({ updatable })
    const { manifest } = updatable.newest
    const { readers } = updatable.newest.shared()
    const end = readers.begin() // as a computation does
    const edit = () =>
      updatable.publish(
        batchOn(updatable, [{ op: 'edit', index: 9, value: hex(pseudoRandom(RECORD_BYTES, 77)) }], { encoding: 'hex' }),
      )
    const publishing = edit()
    await expect.poll(() => readers.open).toBe(false)
    const before = made(app, manifest)
    await expect.poll(() => hints.waiting).toBe(2)
    expect([updatable.newest.manifest.epoch, hints.computing]).toEqual([1, 0])
    end()
    await publishing
    expect(await before).toBe(true)
    // Two epochs later it is too late.
    const release = readers.begin()
    const again = edit()
    await expect.poll(() => readers.open).toBe(false)
    const late = made(app, manifest)
    await expect.poll(() => hints.waiting).toBe(2)
    release()
    await again
    expect(await late).toBe('epoch_unknown')
  })

  test('a reply asked for before an update and read after it is that of its epoch', async () => {
    const updatable = await changing()
    const { app } = await withQueue({ updatable })
    const { manifest } = updatable.newest
    const url = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
    const { bodies, accepts } = attempt(manifest)
    const replies = {} as Record<LightPart, Uint8Array>
    const publish = (index: number) =>
      updatable.publish(
        batchOn(updatable, [{ op: 'edit', index, value: hex(pseudoRandom(RECORD_BYTES, 78)) }], { encoding: 'hex' }),
      )
    for (const part of PARTS) {
      const reply = await new Promise<IncomingMessage>((resolve, reject) => {
        httpRequest(new URL(lightPath(part), url), { method: 'POST' }, resolve)
          .on('error', reject)
          .end(bodies[part])
      })
      // The head is there, and the body has not been read.
      if (part === 'hint') await publish(9)
      const chunks: Buffer[] = []
      for await (const chunk of reply) chunks.push(chunk as Buffer)
      replies[part] = Buffer.concat(chunks)
    }
    expect(accepts(replies)).toBe(true)
  })
})

describe('the queue', () => {
  test('is bounded: beyond it there is 503 with a constant Retry-After, and answers go on', async () => {
    const updatable = await changing()
    const { app, hints } = await withQueue({ updatable }, { light: { waiting: 8 } })
    const { manifest } = updatable.newest
    const release = held(updatable.newest.shared().readers)
    const inside = Array.from({ length: 4 }, () => made(app, manifest))
    await expect.poll(() => hints.waiting).toBe(8)
    for (const part of PARTS) {
      for (let i = 0; i < 2; i++) {
        const reply = await post(app, part, attempt(manifest).bodies[part])
        expect([reply.statusCode, parseErrorReply(reply.body).code]).toEqual([503, 'light_full'])
        expect(reply.headers['retry-after']).toBe('1')
      }
    }
    expect((await app.inject(answer(manifest))).statusCode).toBe(200)
    const others = Array.from({ length: 2 }, (_, i) =>
      app.inject({
        ...{ method: 'POST', url: lightPath('tags'), payload: attempt(manifest).bodies.tags },
        remoteAddress: `10.${i}.0.1`,
      }),
    )
    // They get in, in the place of what came last of the network that has most.
    expect(await inside[3]).toBe('light_full')
    expect(hints.waiting).toBe(8)
    await release()
    expect(await Promise.all(inside)).toEqual([true, true, true, 'light_full'])
    expect((await Promise.all(others)).map(({ statusCode }) => statusCode)).toEqual([200, 200])
    expect(hints.waiting).toBe(0)
  })

  test('holds no room for replies that are not computed yet: others’ are sent meanwhile', async () => {
    const updatable = await changing()
    const { manifest } = updatable.newest
    const bytes = lightReplyBytes('tags', manifest)
    const { app, hints } = await withQueue({ updatable, unsent: new Unsent({ total: 4 * bytes }) })
    const release = held(updatable.newest.shared().readers)
    const inside = Array.from({ length: 5 }, (_, i) =>
      app.inject({
        ...{ method: 'POST', url: lightPath('tags'), payload: attempt(manifest).bodies.tags },
        remoteAddress: `10.${i}.0.1`,
      }),
    )
    await expect.poll(() => hints.waiting).toBe(5)
    expect((await app.inject(answer(manifest))).statusCode).toBe(200)
    await release()
    expect((await Promise.all(inside)).map(({ statusCode }) => statusCode)).toEqual(Array(5).fill(200))
  })

  test('is left by clients that have gone, also while theirs is computed', async () => {
    const updatable = await changing()
    const { app, hints } = await withQueue({ updatable })
    const { manifest } = updatable.newest
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    const release = held(updatable.newest.shared().readers)
    const { bodies } = attempt(manifest)
    const request: ClientRequest = httpRequest(`${url}/v1/tags`, { method: 'POST' })
    request.on('error', () => {})
    request.end(bodies.tags)
    await expect.poll(() => hints.waiting).toBe(1)
    request.destroy()
    await expect.poll(() => hints.waiting).toBe(0)
    await release()
    const submit = () => {
      const secrets = Buffer.from(attempt(manifest).secrets.tags)
      return hints.submit({ part: 'tags', epochs: updatable, generation: 1, epoch: 1, secrets, network: 'a' })
    }
    await made(app, manifest) // so that there are threads
    const gone = submit()
    expect(hints.computing).toBe(1)
    const { length } = await gone.reply
    gone.cancel()
    expect(length).toBe(lightReplyBytes('tags', manifest) - HEADER_BYTES)
    expect([hints.computing, await made(app, manifest)]).toEqual([0, true])
  })

  test('has no more memory in replies than is unsent at most: slow readers wait for room, or are cut off', async () => {
    // Replies of 16 MB: more than an operating system takes off a server's hands.
    const dataset = await builtDataset('large.bin', Buffer.alloc(2_000_000 * 8, 'content'), { recordBytes: 8 })
    const { manifest } = dataset
    const bytes = lightReplyBytes('tags', manifest)
    const app = await serverFor({
      datasets: [{ dataset }],
      unsent: { total: 3 * bytes, patienceMilliseconds: 0 },
      trustProxy: 'loopback',
    })
    const { port } = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
    // Ask, and do not read: sockets whose buffers fill up.
    const closed: number[] = []
    const ask = (number: number): Socket => {
      const socket = connect({ port: Number(port), host: '127.0.0.1' })
      socket.on('error', () => {})
      socket.pause()
      socket.once('close', () => closed.push(number))
      const body = attempt(manifest).bodies.tags
      const head = [
        'POST /v1/tags HTTP/1.1',
        'Host: a',
        `X-Forwarded-For: 10.${number}.0.1`,
        `Content-Length: ${body.length}`,
      ]
      socket.write(Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body]))
      onTestFinished(() => void socket.destroy())
      return socket
    }
    const sockets = []
    for (let number = 0; number < 6; number++) {
      const socket = ask(number)
      sockets.push(socket)
      // Its reply has begun to arrive before the next one asks.
      await new Promise(resolve => socket.once('readable', resolve))
    }
    for (const socket of sockets) socket.resume()
    await expect.poll(() => closed.length, { timeout: 20_000 }).toBeGreaterThanOrEqual(3)
    expect(await made(app, manifest)).toBe(true)
  })
})

describe('worker threads', () => {
  test('serve instant lookups between the steps of a light hint, also where there is one thread', async () => {
    const records = 400_000
    const content = pseudoRandom(records * 48, 9)
    const dataset = await builtDataset('large.bin', content, { recordBytes: 48 })
    const { manifest } = dataset
    const { app, hints } = await withQueue({ dataset }, { instant: { workers: 1 }, light: { computations: 1 } })
    const order: string[] = []
    const light = made(app, manifest).then(outcome => {
      order.push('light')
      return outcome
    })
    await expect.poll(() => hints.computing).toBe(1)
    const layout = layoutOf(manifest)
    const query = core.newInstantQuery(layout, Uint32Array.of(1234), entropy())
    const replies = await Promise.all(
      ([0, 1] as const).map(async party => {
        const payload = Buffer.from(encodeInstantQuery(manifest, 'records', 1, query.request(party)))
        return (await app.inject({ method: 'POST', url: INSTANT_PATH, payload })).rawPayload
      }),
    )
    order.push('instant')
    const [zero, one] = replies.map(reply =>
      decodeInstantAnswer(manifest, 'records', 1, layout.instantAnswerBytes, reply),
    )
    expect(hex(query.recon(manifest.commitments, zero!, one!)!)).toBe(hex(content.subarray(1234 * 48, 1235 * 48)))
    expect(await light).toBe(true)
    expect(order).toEqual(['instant', 'light'])
    query.free()
    layout.free()
  })

  test('closing answers what waits, takes nothing on, and leaves no thread', async () => {
    const dataset = await fixed()
    const threads = () => process.getActiveResourcesInfo().filter(name => name === 'Worker' || name === 'MessagePort')
    const before = threads().length
    const { app, computations, hints } = await withQueue({ dataset }, { light: { computations: 2 } })
    const waiting = Array.from({ length: 5 }, () => made(app, dataset.manifest))
    await expect.poll(() => hints.computing, { interval: 1 }).toBeGreaterThan(0) // all five take some 50 ms
    const closing = computations.close()
    expect(await made(app, dataset.manifest)).toBe('not_ready')
    await closing
    expect([hints.computing, hints.waiting]).toEqual([0, 0])
    expect(await Promise.all(waiting)).toEqual(Array(5).fill(true))
    expect(threads().length).toBe(before)
    await app.close()
  })
})
