// Priced lists: presence for whoever may evaluate, values one by one for tokens that pay.

import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { open } from '@keyhush/client'
import { type ConfidentialOptions, confidential } from '@keyhush/confidential'
import { createEvaluator, createOwnerKey, Meter, readShare, recoverOwnerKey } from '@keyhush/confidential/server'
import { afterEach, expect, test } from 'vitest'
import { readOwnerKey } from '../src/server/files.js'
import { type OwnedOptions, own, PLENTY } from './support/owned.js'

const LIST = { otter: 'river', heron: 'shore', crow: '' }
const closing: { close(): Promise<unknown> }[] = []
afterEach(async () => {
  for (const each of closing.splice(0).reverse()) await each.close()
})

/** A seller that takes each token once, and counts. */
function seller() {
  const [spent, coined] = [new Set<string>(), { count: 0 }]
  const authorizeUnlock = (token: Uint8Array, elements: number) => {
    const name = Buffer.from(token).toString('hex')
    if (elements !== 1 || token.length !== 8 || spent.has(name)) return undefined
    spent.add(name)
    return 'paid'
  }
  const authorize = () => {
    const token = Buffer.alloc(8)
    token.writeUInt32LE(++coined.count)
    return new Uint8Array(token)
  }
  return { spent, coined, authorizeUnlock, authorize }
}

type Answer = (url: string, ask: () => Promise<Response>) => Promise<Response>

async function sold(options: OwnedOptions = {}, answer: Answer = async (_, ask) => await ask()) {
  const shop = seller()
  const world = await own(LIST, { authorizeUnlock: shop.authorizeUnlock, ...options })
  closing.push(world)
  const { servers, publisherKey, evaluationKey, evaluators } = world
  const sent: { readonly url: string; readonly path: string; readonly body: Buffer }[] = []
  const fetched = async (url: string, init: RequestInit) => {
    const path = new URL(url).pathname
    if (init.body) sent.push({ url, path, body: Buffer.from(init.body as Uint8Array) })
    return path === '/v1/unlock' ? await answer(url, () => fetch(url, init)) : await fetch(url, init)
  }
  const common = { evaluationKey, evaluators, fetch: fetched, unlock: { authorize: shop.authorize } }
  const mapOf = async (more: Partial<ConfidentialOptions> = {}) => {
    const map = confidential(await open({ servers, publisherKey, mode: 'instant', fetch: fetched }), {
      ...common,
      ...more,
    })
    closing.push(map)
    return map as ReturnType<typeof confidential> & { unlock: (key: string, how?: object) => Promise<Uint8Array> }
  }
  const unlocks = () => sent.filter(({ path }) => path === '/v1/unlock').map(({ body }) => body)
  const text = async (value: Promise<Uint8Array | undefined>) =>
    value.then(bytes => bytes && Buffer.from(bytes).toString())
  return { ...shop, world, mapOf, sent, unlocks, text }
}

test('presence is free, with an empty value; unlock() gives the value of one key; an absent key costs nothing', async () => {
  const { mapOf, spent, coined, unlocks, text } = await sold()
  const map = await mapOf()
  expect(await map.hasMany(['otter', 'auk', 'crow'])).toEqual([true, false, true])
  expect(await map.getManyText(['otter', 'auk'])).toEqual(['', undefined])
  expect(await map.unlock('auk')).toBeUndefined()
  expect([coined.count, spent.size]).toEqual([0, 0])
  expect(await text(map.unlock('otter'))).toBe('river')
  expect(await text(map.unlock('crow'))).toBe('')
  expect([coined.count, spent.size]).toEqual([4, 4]) // one for each evaluator
  const bodies = unlocks()
  expect(bodies.map(body => [body.length, body.readUInt16LE(6)])).toEqual(bodies.map(() => [32 + 32 + 8, 1]))
  // Both evaluators get the same element, another each time.
  const elements = bodies.map(body => body.toString('hex', 32, 64))
  expect([elements[0], elements[2]]).toEqual([elements[1], elements[3]])
  expect(new Set(elements).size).toBe(2)
})

test('an evaluator takes one element for a purchase, and a token that pays', async () => {
  const { world, mapOf, sent } = await sold()
  await (await mapOf()).unlock('otter')
  const { body } = sent.find(({ url }) => url === `${world.evaluators[0]}/v1/unlock`)!
  const ask = async (path: string, change: (body: Buffer) => Buffer) => {
    const reply = await fetch(world.evaluators[0]! + path, {
      method: 'POST',
      body: Uint8Array.from(change(Buffer.from(body))),
    })
    return reply.status === 200 ? 'ok' : ((await reply.json()) as { code: string }).code
  }
  const token = (byte: number) => (bytes: Buffer) => bytes.fill(byte, 64)
  expect(await ask('/v1/unlock', bytes => bytes)).toBe('ok') // the same again
  expect(await ask('/v1/unlock', token(9))).toBe('ok')
  expect(await ask('/v1/unlock', bytes => bytes.subarray(0, 64).fill(0, 24, 26))).toBe('unauthorized')
  const two = (bytes: Buffer) => {
    bytes.writeUInt16LE(2, 6)
    return Buffer.concat([bytes.subarray(0, 64), bytes.subarray(32)])
  }
  expect(await ask('/v1/unlock', two)).toBe('bad_request')
  expect(await ask('/v1/evaluate', bytes => bytes)).toBe('bad_request')
})

test('an evaluator of a priced list does not start without who takes payments, nor another with', async () => {
  const { world } = await sold()
  const options = { shares: [await readShare(world.at('share-1'))] }
  const meter = await Meter.open({ ...PLENTY, countIn: world.at('count') })
  await expect(createEvaluator({ ...options, meter })).rejects.toThrow(/--authorize-unlock: expected a module/)
  await mkdir(world.at('plain'))
  await createOwnerKey(world.at('plain/owner.key'), { valueBytes: 1, evaluators: 1, atLeast: 1 })
  const plain = { shares: [await readShare(world.at('plain/share-1'))], meter, authorizeUnlock: () => 'paid' }
  await expect(createEvaluator(plain)).rejects.toThrow(/--authorize-unlock: expected none/)
  // Shares recover both secrets.
  await mkdir(world.at('again'))
  await recoverOwnerKey(world.at('again/owner.key'), [world.at('share-1'), world.at('share-2')])
  const [key, again] = [await readOwnerKey(world.key), await readOwnerKey(world.at('again/owner.key'))]
  expect(key.unlockSecret).toBeDefined()
  expect([again.secret, again.unlockSecret]).toEqual([key.secret, key.unlockSecret])
})

test('a purchase opens one version: another one is bought anew', async () => {
  const { world, mapOf, spent, unlocks, text } = await sold()
  const map = await mapOf()
  expect(await text(map.unlock('otter'))).toBe('river')
  await world.publish([{ op: 'edit', key: 'otter', value: 'river' }]) // which changes nothing but the version
  await map.sync()
  expect(await text(map.unlock('otter'))).toBe('river')
  expect(spent.size).toBe(4)
  expect(new Set(unlocks().map(body => body.toString('hex', 32, 64))).size).toBe(2)
})

test('a lost reply is not paid twice: the same bytes are sent again, also in a later call, or after one that is over', async () => {
  let how: Answer = async (_, ask) => await ask()
  const { mapOf, spent, coined, unlocks, text } = await sold({}, async (url, ask) => await how(url, ask))
  const map = await mapOf()
  how = async (_, ask) => {
    await ask()
    throw new TypeError('lost')
  }
  await expect(map.unlock('otter')).rejects.toMatchObject({ code: 'network' })
  const over = new AbortController()
  how = async (_, ask) => {
    over.abort()
    return await ask()
  }
  await expect(map.unlock('otter', { signal: over.signal })).rejects.toThrow()
  how = async (_, ask) => await ask()
  expect(await text(map.unlock('otter'))).toBe('river')
  expect([coined.count, spent.size, new Set(unlocks().map(body => body.toString('hex'))).size]).toEqual([2, 2, 2])
  expect(await text(map.unlock('otter'))).toBe('river')
  expect(spent.size).toBe(4) // which the app had
})

test('a reply of another secret is tampered, and not paid again; nothing is sent without all tokens', async () => {
  let lies = true
  const { mapOf, spent, unlocks, text } = await sold({}, async (url, ask) => {
    const bytes = new Uint8Array(await (await ask()).arrayBuffer())
    // The generator
    if (lies && url.startsWith(world.evaluators[1]!))
      bytes.set(Buffer.from('e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76', 'hex'), 32)
    return new Response(bytes, { headers: { 'content-length': `${bytes.length}` } })
  }).then(all => {
    world = all.world
    return all
  })
  const map = await mapOf()
  await expect(map.unlock('otter')).rejects.toMatchObject({ code: 'tampered' })
  lies = false
  expect(await text(map.unlock('otter'))).toBe('river')
  expect(spent.size).toBe(2)
  const before = unlocks().length
  const poor = await mapOf({
    unlock: {
      authorize: async evaluator => {
        if (evaluator === world.evaluators[0]) return new Uint8Array(8).fill(7)
        throw new Error('no money')
      },
    },
  })
  await expect(poor.unlock('heron')).rejects.toThrow('no money')
  expect(unlocks()).toHaveLength(before)
})
let world: Awaited<ReturnType<typeof own>>

test('a map takes no list of another kind: nothing is bought where nothing is priced', async () => {
  const { mapOf, sent } = await sold()
  const map = await mapOf({ unlock: undefined })
  await expect(map.hasMany(['otter'], null as never)).rejects.toMatchObject({ code: 'usage' }) // and nothing is unhandled
  const message = expect.stringContaining('got a priced one; pass unlock')
  await expect(map.has('otter')).rejects.toMatchObject({ code: 'unsupported', reason: 'offer', message })
  expect(sent).toEqual([])
})

test('shares are replaced without a purchase lost', async () => {
  const { world, mapOf, text } = await sold()
  await world.reshare()
  const first = await world.evaluate(['share-1-deal-2', 'share-1'])
  const map = await mapOf({ evaluators: [first, world.evaluators[1]!] })
  expect(await text(map.unlock('otter'))).toBe('river')
  const both = await Promise.all([1, 2].map(async i => await world.evaluate([`share-${i}-deal-2`])))
  expect(await text((await mapOf({ evaluators: both })).unlock('heron'))).toBe('shore')
})

const lost: Answer = async (_, ask) => {
  await ask()
  throw new TypeError('lost')
}

test('what is paid needs no lookup: a limit that is used up, or a new version, is not in the way', async () => {
  for (const limits of [{ perClientDay: 3, perNetworkDay: 9, totalDay: 1e8 }, PLENTY]) {
    let how = lost
    const { world, mapOf, spent, sent, text } = await sold({ limits }, async (url, ask) => await how(url, ask))
    const map = await mapOf()
    await expect(map.unlock('otter')).rejects.toMatchObject({ code: 'network' })
    if (limits === PLENTY) await world.publish([{ op: 'delete', key: 'otter' }])
    await map.sync()
    how = async (_, ask) => await ask()
    sent.length = 0
    expect(await text(map.unlock('otter'))).toBe('river')
    expect([spent.size, new Set(sent.map(({ path }) => path))]).toEqual([2, new Set(['/v1/unlock'])])
    if (limits === PLENTY) expect(await map.unlock('otter')).toBeUndefined()
  }
})

test('a call that is over while tokens come buys nothing, and its tokens are kept', async () => {
  const { mapOf, spent, coined, unlocks, text, authorize } = await sold()
  const over = new AbortController()
  let pay = () => {}
  const paying = new Promise<void>(resolve => {
    pay = resolve
  })
  let asked = () => {}
  const isAsked = new Promise<void>(resolve => {
    asked = resolve
  })
  const later = async () => {
    asked()
    await paying
    return authorize()
  }
  const map = await mapOf({ unlock: { authorize: later } })
  const call = map.unlock('otter', { signal: over.signal })
  await isAsked
  over.abort()
  await expect(call).rejects.toThrow()
  pay()
  expect(await text(map.unlock('otter'))).toBe('river')
  expect([unlocks().length, coined.count, spent.size]).toEqual([2, 2, 2])
})

test('a value that came when its call was over needs no request', async () => {
  const over = new AbortController()
  const { mapOf, spent, unlocks, text } = await sold({}, async (_, ask) => {
    over.abort()
    return await ask()
  })
  const map = await mapOf()
  await expect(map.unlock('otter', { signal: over.signal })).rejects.toThrow()
  expect(await text(map.unlock('otter'))).toBe('river') // waits for the replies
  expect(await text(map.unlock('otter'))).toBe('river')
  expect([spent.size, unlocks().length]).toEqual([4, 6])
})

test('an evaluator that refuses without a look at the token does not cost the tokens of others', async () => {
  let isBroken = true
  const { world, mapOf, spent, coined, text } = await sold({}, async (url, ask) => {
    if (!isBroken || url.startsWith(world.evaluators[0]!)) return await ask()
    return new Response('{"code":"bad_request","message":""}', { status: 400 })
  })
  const map = await mapOf()
  for (let i = 0; i < 2; i++) await expect(map.unlock('otter')).rejects.toMatchObject({ refusal: 'bad_request' })
  isBroken = false
  expect(await text(map.unlock('otter'))).toBe('river')
  expect([coined.count, spent.size]).toEqual([2, 2])
})

test('lookups of an account, of which there are many, do not push out what is paid for', async () => {
  const { world, mapOf, unlocks, authorizeUnlock } = await sold()
  await (await mapOf()).unlock('otter')
  const meter = await Meter.open({ perClientDay: 2, perNetworkDay: 2, totalDay: 9, countIn: world.at('count') })
  const shares = [await readShare(world.at('share-1'))]
  const app = await createEvaluator({ shares, meter, authorize: () => 'mallory', authorizeUnlock })
  closing.push(app)
  const status = async (url: string, payload: Buffer) => (await app.inject({ method: 'POST', url, payload })).statusCode
  const purchase = Buffer.from(unlocks()[0]!.fill(77, 64))
  expect(await status('/v1/unlock', purchase)).toBe(200)
  const lookup = Buffer.concat([purchase.subarray(0, 32), Buffer.alloc(64)])
  lookup.writeUInt16LE(2, 6)
  lookup.fill(0, 24, 30)
  for (let i = 0; i < 10_001; i++) {
    lookup.writeUInt32LE(i, 32)
    await status('/v1/evaluate', lookup)
  }
  expect(await status('/v1/unlock', purchase)).toBe(200)
})

test('a key file that was cut off is none, and not that of a list without prices', async () => {
  const { world } = await sold()
  const key = await readFile(world.key, 'utf8')
  for (let end = 0; end < key.trimEnd().length; end++) {
    await writeFile(world.at('cut.key'), key.slice(0, end))
    await expect(readOwnerKey(world.at('cut.key'))).rejects.toThrow(/damaged/)
  }
})

test('shares that do not fit the second key recover nothing', async () => {
  const { world } = await sold()
  const share = await readFile(world.at('share-2'), 'utf8')
  await mkdir(world.at('again'))
  for (const [i, bad] of [
    share.replace(/unlock-secret ../, before => `unlock-secret ${before.endsWith('11') ? '22' : '11'}`),
    share.replace(/unlock-.*\n/g, ''),
  ].entries()) {
    await writeFile(world.at(`bad-${i}`), bad)
    const shares = [world.at('share-1'), world.at(`bad-${i}`)]
    await expect(recoverOwnerKey(world.at('again/owner.key'), shares)).rejects.toThrow(/^expected/)
  }
})

test('a module that keeps which request a token has paid for takes both again after a restart', async () => {
  const paid = new Map<string, string>()
  const authorizeUnlock = (token: Uint8Array, _elements: number, request: string) => {
    const name = Buffer.from(token).toString('hex')
    if (!paid.has(name)) paid.set(name, request)
    return paid.get(name) === request ? 'paid' : undefined
  }
  const { world, mapOf, unlocks } = await sold()
  await (await mapOf()).unlock('otter')
  const shares = [await readShare(world.at('share-1'))]
  const purchase = unlocks()[0]!
  const other = Buffer.concat([purchase.subarray(0, 32), unlocks()[1]!.subarray(32, 64), purchase.subarray(64)])
  const statuses: number[] = []
  for (const payload of [purchase, purchase, Buffer.from(other.fill(0, 26, 30))]) {
    const meter = await Meter.open({ ...PLENTY, countIn: world.at('count') })
    const app = await createEvaluator({ shares, meter, authorizeUnlock })
    statuses.push((await app.inject({ method: 'POST', url: '/v1/unlock', payload })).statusCode)
    await app.close()
  }
  expect(statuses).toEqual([200, 200, 401])
})
