// The publisher's signature (docs/protocol.md, Signatures): two servers that lie together can hold a map back, and no
// more. They cannot make up a record, and cannot take a map back to where it has been before.

import { encodeEvent, encodeManifest, type Manifest, toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { describe, expect, test } from 'vitest'
import { pause } from '../src/platform/environment.js'
import { type EpochId, Signing } from '../src/servers/signatures.js'
import { ManualClock, settle } from './support/clock.js'
import { buildDatabase, type Contents, type Database, later, someValues } from './support/database.js'
import { laidOutAnew, nextEpoch, type Operation } from './support/epochs.js'
import { core, Harness, NAMES, openedOn, refusedBy, sameOnBoth } from './support/harness.js'
import { edit, Living, utf8 } from './support/living.js'
import { A, B, blobs, flip, hang, having, type Network, ok, on, problem, showing } from './support/network.js'
import { DAY, epochsOf, NOW, publisherKey, SECRET, signatureOf, signedOnBoth } from './support/signed.js'
import { World } from './support/world.js'

const KEY = ed25519.getPublicKey(SECRET)
const OTHER = new Uint8Array(32).fill(8)

/** A publisher of a keyless database of 15 values of 5 bytes, and the servers it has. */
class Publishing extends Living {
  constructor(change: Partial<Contents> = {}) {
    const first = buildDatabase(core, { values: someValues(15, 5), partitions: 4, ...change })
    super(sameOnBoth(first), first)
    this.sign()
  }

  /** Signs the newest epoch; servers hand on no other signature than this. */
  sign(secret = SECRET): void {
    this.network.signatures.splice(0, Number.POSITIVE_INFINITY, signatureOf(this.newest, secret))
  }

  publishSigned(operations: readonly Operation[], change: Partial<Manifest> = {}): void {
    this.publish(operations, [A, B], change)
    this.sign()
  }

  /** Both servers lie, and lie alike: from now on they have these and nothing else. */
  replaceBy(...databases: Database[]): Network {
    const lying = sameOnBoth(...databases)
    lying.signatures.push(...this.network.signatures)
    return lying
  }
}

/** A publisher, and a device that its servers have seen nothing of. */
function published(change: Partial<Contents> = {}) {
  const publishing = new Publishing(change)
  return { publishing, device: new World({ living: publishing }) }
}

/** A map with the key on this disk, or the error with which it does not open. */
const openedOnDisk = (world: World, options = {}) => world.life().open({ publisherKey, ...options })
const failureOf = (world: World, options = {}) => {
  const life = world.life()
  return life.failure(life.openIdle({ publisherKey, ...options }))
}

const answers = (network: Network) => network.queries().length

describe('publisherKey', () => {
  test.each<[string, string | Uint8Array]>([
    ['64 hex digits', publisherKey],
    ['upper case', publisherKey.toUpperCase()],
    ['32 bytes', KEY],
  ])('as %s', async (_what, key) => {
    const { network, newest } = new Publishing()
    const { harness, map } = await openedOn({ network }, { publisherKey: key })
    for (let i = 0; i < 15; i++) expect(await harness.drive(map.at(i))).toEqual(newest.byIndex[i])
  })

  test.each<[string, unknown]>([
    ['31 bytes', KEY.slice(1)],
    ['33 bytes', Uint8Array.of(...KEY, 0)],
    ['63 digits', publisherKey.slice(1)],
    ['65 digits', `${publisherKey}0`],
    ['other digits', `g${publisherKey.slice(1)}`],
    ['a blank before', ` ${publisherKey.slice(1)}`],
    ['the line that keygen writes', `public ${publisherKey}`],
    ['nothing', ''],
    ['null', null],
    ['a number', 7],
  ])('%s: UsageError, before any traffic', async (_what, key) => {
    const { network } = new Publishing()
    expect((await refusedBy({ network }, { publisherKey: key as string })).code).toBe('usage')
    expect(network.seen).toEqual([])
  })

  /** What WebCrypto is asked to verify: it knows these as genuine. */
  function counting(...genuine: string[]) {
    const verified: string[] = []
    const subtle = {
      importKey: async () => ({}),
      verify: async (_algorithm: string, _key: CryptoKey, signature: Uint8Array) => {
        verified.push(toHex(signature))
        return genuine.includes(toHex(signature))
      },
    } as unknown as SubtleCrypto
    return { subtle, verified }
  }

  test.each(['full', 'instant', 'local'] as const)(
    'of hundreds of signatures that a server lists a few are verified, and the other server is still believed (mode %s)',
    async mode => {
      const { network, newest } = new Publishing()
      const genuine = network.signatures[0]!
      const digits = (i: number) => i.toString(16).padStart(8, '0').repeat(8)
      const wrong = Array.from({ length: 200 }, (_, i) => ({ ...genuine, signature: digits(i + 1) + '0'.repeat(64) }))
      network.misbehave[A] = showing(network, A, info => ({ ...info, signatures: wrong }))
      const { subtle, verified } = counting(genuine.signature)
      const harness = new Harness(network, 1, { subtle })
      const map = await harness.open({ publisherKey, mode })
      expect(await harness.drive(map.at(3))).toEqual(newest.byIndex[3])
      expect(verified.length).toBeGreaterThan(0)
      expect(verified.length).toBeLessThan(20)
    },
  )

  test('of hundreds of epochs with false signatures that a server lists a few are looked at', async () => {
    const { network, newest } = new Publishing()
    const genuine = network.signatures[0]!
    const of = Array.from({ length: 150 }, (_, i) => ({ generation: 1, epoch: i + 2 }))
    const epochs = of.map(epoch => ({ ...epoch, manifest: '0'.repeat(64) }))
    const signatures = of.map(epoch => ({ ...genuine, ...epoch, signature: '5a'.repeat(64) }))
    network.misbehave[A] = showing(network, A, info => ({ ...info, epochs, signatures }))
    const { subtle, verified } = counting(genuine.signature)
    const harness = new Harness(network, 1, { subtle })
    const map = await harness.open({ publisherKey, mode: 'local' })
    expect(await harness.drive(map.at(3))).toEqual(newest.byIndex[3])
    expect(new Set(verified)).toEqual(new Set([genuine.signature]))
    expect(network.seen.filter(({ path }) => path.startsWith('/v1/manifest')).length).toBeLessThanOrEqual(1 + 4)
  })

  test('without one no signature is looked at', async () => {
    const { network, newest } = new Publishing()
    const { subtle, verified } = counting()
    network.both(showing(network, A, info => ({ ...info, signatures: [{ ...network.signatures[0], epoch: 9 }] })))
    const harness = new Harness(network, 1, { subtle })
    const map = await harness.open()
    expect(await harness.drive(map.at(3))).toEqual(newest.byIndex[3])
    expect(verified).toEqual([])
  })
})

describe('two servers that lie together: a fresh map', () => {
  const forge = (change: Partial<Manifest>, { newest }: Publishing): Database => {
    const manifest = { ...newest.manifest, ...change }
    return { ...newest, manifest, manifestBytes: encodeManifest(manifest) }
  }

  const forged = buildDatabase(core, { values: someValues(15, 5).reverse(), partitions: 4 })
  const showing = (network: Network, ...signatures: Network['signatures']): Network => {
    network.signatures.splice(0, 1, ...signatures)
    return network
  }
  /** The genuine signature, changed: its R, its S, or both. */
  const spoiled =
    (change: (signature: string) => string) =>
    ({ network, newest }: Publishing) => {
      const genuine = signatureOf(newest)
      return showing(network, { ...genuine, signature: change(genuine.signature) })
    }

  const lies: Record<string, (publishing: Publishing) => Network> = {
    'no signature': ({ network }) => showing(network),
    'other records under the genuine signature': publishing => publishing.replaceBy(forged),
    'other records, signed by another': publishing => showing(publishing.replaceBy(forged), signatureOf(forged, OTHER)),
    "other records, signed by another in the publisher's name": publishing =>
      showing(publishing.replaceBy(forged), { ...signatureOf(forged, OTHER), publicKey: publisherKey }),
    'the signature of another epoch, under this one’s number': publishing => {
      const genuine = publishing.network.signatures[0]!
      const second = publishing.publish([edit(3, 'three')])
      return showing(publishing.replaceBy(second), { ...genuine, epoch: 2 })
    },
    'a later expiry': publishing => publishing.replaceBy(forge({ expires: NOW + 1000 * DAY }, publishing)),
    'a signature without the context': publishing =>
      spoiled(() => toHex(ed25519.sign(publishing.newest.manifestBytes, SECRET)))(publishing),
    'a signature of zeros': spoiled(() => '0'.repeat(128)),
    'R that is no point': spoiled(genuine => `02${'0'.repeat(62)}${genuine.slice(64)}`),
    // y = p + 1, the neutral element written another way
    'R that is not canonical': spoiled(genuine => `ee${'f'.repeat(60)}7f${genuine.slice(64)}`),
    'S beyond the order of the group': spoiled(genuine => {
      const s = BigInt(`0x${Buffer.from(genuine.slice(64), 'hex').reverse().toString('hex')}`)
      const beyond = (s + (1n << 252n) + 27742317777372353535851937790883648493n).toString(16).padStart(64, '0')
      return genuine.slice(0, 64) + Buffer.from(beyond, 'hex').reverse().toString('hex')
    }),
  }

  test.each(Object.entries(lies))('%s: SignatureError, and nothing is downloaded', async (_what, lie) => {
    const network = lie(new Publishing())
    expect((await refusedBy({ network }, { publisherKey })).code).toBe('signature')
    expect(blobs(network).length).toBe(0)
    expect(answers(network)).toBe(0)
  })

  test('a key of small order, under which anybody can sign, vouches for nothing', async () => {
    for (const small of ['0'.repeat(64), `01${'0'.repeat(62)}`, `ec${'f'.repeat(60)}7f`]) {
      const { network, newest } = new Publishing()
      const { generation, epoch } = newest.manifest
      // R the neutral element, S zero: holds under keys of small order, if nobody looks
      const signature = `01${'0'.repeat(62)}${'0'.repeat(64)}`
      network.signatures.splice(0, 1, { publicKey: small, generation, epoch, signature })
      expect((await refusedBy({ network }, { publisherKey: small })).code).toBe('signature')
    }
  })

  test('an older epoch that is genuine and has not expired is accepted: nothing tells a fresh map of a newer', async () => {
    const publishing = new Publishing({ manifest: { expires: NOW + DAY } })
    const old = publishing.newest
    publishing.publish([edit(3, 'three')])
    const network = publishing.replaceBy(old)
    const map = await new Harness(network).open({ publisherKey })
    expect(map.epoch).toBe(1)
  })

  test('an older epoch that has expired is refused', async () => {
    const { network } = new Publishing({ manifest: { expires: NOW - 1 } })
    expect((await refusedBy({ network }, { publisherKey })).code).toBe('signature')
    expect(blobs(network).length).toBe(0)
  })

  test('an expiry beyond what a date can say is refused with words, too', async () => {
    const { network } = new Publishing({ manifest: { expires: NOW - 1 } })
    const harness = new Harness(network, 1, { clock: { ...new Harness(network).clock, date: () => 8.64e15 } })
    expect((await harness.failure(harness.open({ publisherKey }))).code).toBe('signature')
  })
})

describe('signatures are handed on by servers that are worth nothing', () => {
  /** Lists the genuine signature, changed, so many times. */
  const lists =
    (change: object, times = 1) =>
    (network: Network, server: string) => {
      const signatures = Array(times).fill({ ...network.signatures[0], ...change })
      return on('/v1/info', () => Response.json({ ...network.info(server), signatures }))
    }

  type Useless = Record<string, (network: Network, server: string) => Network['misbehave'][string]>
  /** They say well what is worth nothing. */
  const worthless: Useless = {
    'has none': lists({}, 0),
    'has a false one': lists({ signature: '5a'.repeat(64) }),
    'has a hundred of others': lists({ publicKey: 'ab'.repeat(32) }, 100),
  }
  const broken: Useless = {
    'is silent': () => hang('/v1/info'),
    'is out of order': () => on('/v1/info', () => problem(500, 'internal')),
    'says what is no JSON': () => on('/v1/info', () => ok(new Uint8Array(9))),
    'says too much': () => on('/v1/info', () => ok(new Uint8Array(1 << 20))),
    'has malformed hex': lists({ signature: 'xyz' }),
    'has half a signature': lists({ signature: '00'.repeat(32) }),
    'has a key too long': lists({ publicKey: `${publisherKey}00` }),
    'has thousands': lists({ publicKey: 'ab'.repeat(32) }, 5000),
  }
  const useless = Object.entries({ ...worthless, ...broken })
  const inMode = (mode: 'full' | 'instant' | 'local') => (kinds: Useless) =>
    Object.entries(kinds).map(([what, misbehave]) => [mode, what, misbehave] as const)

  test.each([
    ...(['full', 'instant'] as const).flatMap(mode => inMode(mode)(worthless)),
    ...inMode('local')({ ...worthless, ...broken }),
  ])('mode %s, one %s: the other suffices', async (mode, _what, misbehave) => {
    for (const server of [A, B]) {
      const { network, newest } = new Publishing()
      network.misbehave[server] = misbehave(network, server)
      const { harness, map } = await openedOn({ network }, { publisherKey, mode })
      expect(await harness.drive(map.at(3))).toEqual(newest.byIndex[3])
    }
  })

  test.each((['full', 'instant'] as const).flatMap(mode => inMode(mode)(broken)))(
    'mode %s, one %s: open() fails, and names it',
    async (mode, _what, misbehave) => {
      for (const server of [A, B]) {
        const { network } = new Publishing()
        network.misbehave[server] = misbehave(network, server)
        const error = await refusedBy({ network }, { publisherKey, mode })
        expect([['network', 'protocol'].includes(error.code), error.server]).toEqual([true, server])
        expect(blobs(network).length).toBe(0)
      }
    },
  )

  test.each(useless)('both: %s, and open() fails with an error of ours', async (_what, misbehave) => {
    for (const mode of ['full', 'instant', 'local'] as const) {
      const { network } = new Publishing()
      for (const server of [A, B]) network.misbehave[server] = misbehave(network, server)
      const { code } = await refusedBy({ network }, { publisherKey, mode })
      expect(['signature', 'network', 'protocol']).toContain(code)
      expect(blobs(network).length).toBe(0)
    }
  })

  test('a genuine one among false ones is found', async () => {
    const { network } = new Publishing()
    const [genuine] = network.signatures
    network.signatures.unshift({ ...genuine!, signature: '5a'.repeat(64) }, { ...genuine!, epoch: 9 })
    await new Harness(network).open({ publisherKey })
  })

  test('comparing the servers is not skipped because both have a manifest that is signed', async () => {
    const one = buildDatabase(core, { values: someValues(15, 5), partitions: 4 })
    const two = buildDatabase(core, { values: someValues(15, 5).reverse(), partitions: 4 })
    const split = sameOnBoth(one)
    split.replace(B, two)
    split.signatures.push(signatureOf(one), signatureOf(two))
    for (const mode of ['full', 'instant', 'local'] as const) {
      expect((await refusedBy({ network: split }, { publisherKey, mode })).code).toBe('servers_disagree')
    }
  })
})

describe('a map that has state', () => {
  test.each(['full', 'instant'] as const)('mode %s: at the newest that is signed until the next is', async mode => {
    const publishing = new Publishing()
    const { harness, map } = await openedOn(publishing, { publisherKey, mode })
    publishing.publish([edit(2, 'two..')])
    publishing.publish([edit(3, 'three')])
    publishing.sign() // epoch 3 alone
    publishing.publish([edit(4, 'four.')])
    expect(await harness.drive(map.at(3))).toEqual(utf8('three'))
    await harness.drive(map.sync())
    expect(map.epoch).toBe(3)
    expect(await harness.drive(map.at(4))).not.toEqual(utf8('four.'))
    publishing.sign()
    await harness.drive(map.sync())
    expect(map.epoch).toBe(4)
    expect(await harness.drive(map.at(4))).toEqual(utf8('four.'))
  })

  test('hears of the signature, and follows in less than a second, though each server has announced the epoch before', async () => {
    const publishing = new Publishing()
    const { network } = publishing
    network.push = true
    const harness = new Harness(network)
    const map = await harness.open({ publisherKey, push: true })
    for (let epoch = 2; epoch < 6; epoch++) {
      publishing.publish([edit(3, 'three')], [A])
      await settle()
      network.publish(B, publishing.newest)
      await settle()
      expect(map.epoch).toBe(epoch - 1)
      publishing.sign()
      for (const stream of network.streams) stream.tell(encodeEvent(publishing.newest.manifest))
      const signed = harness.clock.now()
      for (await settle(); map.epoch < epoch; await settle()) harness.clock.advance()
      expect(harness.clock.now() - signed).toBeLessThan(1_000)
    }
  })

  test('opened again while the newest is unsigned: it answers from the one before', async () => {
    const { publishing, device } = published()
    const map = await openedOnDisk(device)
    await device.drive(map.close())
    publishing.publish([edit(3, 'three')])
    const again = await openedOnDisk(device)
    expect(again.epoch).toBe(1)
    expect(await device.drive(again.at(4))).toEqual(publishing.newest.byIndex[4])
  })

  test.each<[string, (publishing: Publishing) => void]>([
    ['is not signed', () => {}],
    ['is signed by another', publishing => publishing.network.signatures.push(signatureOf(publishing.newest, OTHER))],
    [
      'has the signature of the epoch before',
      ({ network }) => network.signatures.push({ ...network.signatures[0]!, epoch: 2 }),
    ],
  ])('an epoch that %s is not adopted, also when servers answer no other', async (_what, sign) => {
    const publishing = new Publishing()
    const { harness, map } = await openedOn(publishing, { publisherKey })
    const genuine = publishing.newest.byIndex
    publishing.publish([edit(3, 'false')])
    sign(publishing)
    await harness.drive(map.sync())
    expect(map.epoch).toBe(1)
    expect(await harness.drive(map.at(3))).toEqual(genuine[3])
    publishing.publish([edit(4, 'false')])
    const { code } = await harness.failure(map.at(3))
    expect(['version', 'signature']).toContain(code)
    expect(map.epoch).toBe(1)
  })

  /** A device that has been at epoch 3, and what the servers had before. */
  async function beenAtThree(options = {}) {
    const { publishing, device } = published()
    const first = publishing.newest
    const old = publishing.replaceBy({ ...first }) // its signature with it
    const map = await openedOnDisk(device, options)
    for (let epoch = 2; epoch <= 3; epoch++) {
      publishing.publishSigned([edit(epoch, `ep. ${epoch}`)])
      await device.drive(map.sync())
    }
    return { publishing, device, map, old, first }
  }

  test('shown an older epoch that was signed once: refused at open(), and ever after', async () => {
    const { device, old } = await beenAtThree()
    const back = device.facing(old)
    for (let i = 0; i < 3; i++) expect((await failureOf(back)).code).toBe('signature')
    expect(answers(old)).toBe(0)
    expect(blobs(old).length).toBe(0)
    expect((await back.head())!.record).toBeDefined()
  })

  test('a history in which only the first epoch is genuine is refused, and the map keeps its own', async () => {
    const { publishing, device, first } = await beenAtThree()
    const { hintId } = (await device.head())!.record
    const forged = buildDatabase(core, { values: someValues(15, 5).reverse(), partitions: 4, manifest: later(4) })
    const lying = sameOnBoth(forged)
    lying.signatures.push(...publishing.network.signatures)
    const back = device.facing(lying)
    for (let i = 0; i < 3; i++) expect((await failureOf(back)).code).toBe('signature')
    // Had the state been discarded for it, the map would now be fresh, and believe what is old.
    const old = signedOnBoth(first)
    const older = back.facing(old)
    expect((await failureOf(older)).code).toBe('signature')
    expect((await older.head())!.record.hintId).toEqual(hintId)
    const home = older.facing(publishing.network)
    expect((await openedOnDisk(home)).epoch).toBe(3)
  })

  test.each(['full', 'local'] as const)('mode %s: not made to forget by a download broken off', async mode => {
    const epochs = epochsOf(5)
    const before = new World({ network: signedOnBoth(...epochs.slice(0, 3)) })
    const map = await before.life().open({ publisherKey, mode })
    expect(map.epoch).toBe(3)
    await before.drive(map.close())

    // Genuine and signed, but without the updates to it; and once the map has dropped its state, nothing of the new one.
    const stalling = signedOnBoth(epochs[4]!)
    stalling.both(on('/v1/blobs/', () => problem(503, 'not_ready')))
    const meanwhile = new World({ network: stalling, before })
    const life = meanwhile.life()
    // (A copy of all records needs no new download to answer.)
    if (mode === 'local') expect((await life.open({ publisherKey, mode })).epoch).toBe(3)
    else expect((await life.failure(life.openIdle({ publisherKey, mode }))).code).toBe('network')
    expect((await meanwhile.head())?.stage).toBe(mode === 'local' ? 'whole' : 'partial')

    // The map has been at epoch 3; epoch 1 is two older.
    const back = new World({ network: signedOnBoth(epochs[0]!), before: meanwhile })
    const later = back.life()
    // A copy of all records opens all the same, at its own epoch.
    if (mode === 'local') expect((await later.open({ publisherKey, mode })).epoch).toBe(3)
    else expect((await later.failure(later.openIdle({ publisherKey, mode }))).code).toBe('signature')
  })

  test('reset() does not make it forget how far it has been', async () => {
    const { publishing, device } = published()
    const first = publishing.newest
    const life = device.life()
    const map = await life.open({ publisherKey })
    publishing.publishSigned([edit(3, 'three')])
    await device.drive(map.sync())
    for (const server of [A, B]) publishing.network.misbehave[server] = having(server, [signatureOf(first)], first)
    expect((await life.failure(map.reset())).code).toBe('signature')
    publishing.network.both(undefined)
    await device.drive(map.reset())
    expect(map.epoch).toBe(2)
  })

  test('nor does condemnation, in this life or a later one', async () => {
    const { publishing, device, map, first } = await beenAtThree()
    publishing.network.misbehave[A] = flip(50)
    await device.life().failure(map.at(3))
    const old = signedOnBoth(first)
    const back = device.facing(old)
    const life = back.life()
    const condemned = await life.open({ publisherKey })
    expect((await life.failure(condemned.at(3))).code).toBe('condemned')
    for (let i = 0; i < 2; i++) expect((await life.failure(condemned.reset())).code).toBe('signature')
    publishing.network.misbehave[A] = undefined
    const home = back.facing(publishing.network)
    const again = await openedOnDisk(home)
    await home.drive(again.reset())
    expect(again.epoch).toBe(3)
  })

  test('shown a genuine, signed map of the same publisher that is another: refused', async () => {
    const { publishing, device } = await beenAtThree()
    for (const epoch of [1, 3, 4]) {
      const databaseId = core.databaseId(utf8('another'))
      const change = { ...(epoch > 1 && later(epoch)), databaseId }
      const other = buildDatabase(core, { values: someValues(15, 5), partitions: 4, manifest: change })
      const network = signedOnBoth(other)
      const back = device.facing(network)
      expect((await failureOf(back)).code).toBe('signature')
      expect(answers(network) + blobs(network).length).toBe(0)
    }
    const home = device.facing(publishing.network)
    expect((await openedOnDisk(home)).epoch).toBe(3)
  })

  test('stored without a key, then opened with one: checked before it is used, and kept', async () => {
    const { publishing, device } = published()
    const map = await openedOnDisk(device, { publisherKey: undefined })
    await device.drive(map.at(1))
    const [genuine] = publishing.network.signatures.splice(0, 1, signatureOf(publishing.newest, OTHER))
    const sent = answers(publishing.network)
    expect((await failureOf(device)).code).toBe('signature')
    expect(answers(publishing.network)).toBe(sent)
    publishing.network.signatures.splice(0, 1, genuine!)
    const again = await openedOnDisk(device)
    expect(await device.drive(again.at(1))).toEqual(publishing.newest.byIndex[1])
  })

  test('a half-made hint of a map without a key: checked before it is used', async () => {
    const { publishing, device } = published()
    await device.halfDownloaded(1)
    expect((await device.head())!.stage).toBe('partial')
    publishing.network.signatures.length = 0
    expect((await failureOf(device)).code).toBe('signature')
    expect(answers(publishing.network)).toBe(0)
  })

  test('a half-made hint follows no further than what is signed', async () => {
    const { publishing, device } = published()
    await device.halfDownloaded(1, { publisherKey })
    publishing.publishSigned([edit(3, 'three')])
    publishing.publish([edit(4, 'false')])
    const next = device.life()
    // The partitions of epoch 2 are still to be had, as they would be from a mirror.
    const map = await next.open({ publisherKey })
    expect(next.events).toContainEqual({ type: 'resumed', what: 'download', pending: false })
    expect(map.epoch).toBe(2)
    expect(await device.drive(map.at(3))).toEqual(utf8('three'))
  })

  test('another tab without the key takes the state to an epoch that is not signed: it is not read there', async () => {
    const { publishing, device } = published()
    const life = device.life()
    const map = await life.open({ publisherKey })
    const lax = await device.life().open()
    publishing.publish([edit(3, 'false')])
    await device.drive(lax.sync())
    expect(await device.drive(lax.at(3))).toEqual(utf8('false'))
    const sent = answers(publishing.network)
    // The store is ahead of this tab, which finds that out when it wants to store an intent.
    for (let i = 0; i < 3; i++) expect((await life.failure(map.at(3))).code).toBe('signature')
    expect(answers(publishing.network)).toBe(sent)
    publishing.sign()
    expect(await device.drive(map.at(3))).toEqual(utf8('false'))
  })
})

describe('two epochs that another key alone has signed, where servers still show and sign an older generation', () => {
  const first = buildDatabase(core, { values: someValues(15, 5), partitions: 4 })
  const second = laidOutAnew(first, 3)
  const third = nextEpoch(core, second, [edit(3, 'three')])
  const older = { generation: 1, epoch: 1, manifest: toHex(core.blake3(first.manifestBytes)) }

  test.each(['full', 'instant', 'local'] as const)('mode %s: SignatureError, and not that generation', async mode => {
    const network = signedOnBoth(first)
    const { harness, map } = await openedOn({ network }, { publisherKey, mode })
    network.publishOnBoth(second, third)
    network.signatures.push(signatureOf(second, OTHER), signatureOf(third, OTHER))
    for (const server of [A, B]) {
      network.misbehave[server] = showing(network, server, info => ({ ...info, epochs: [older, ...info.epochs] }))
    }
    expect((await harness.failure(map.sync())).code).toBe('signature')
    expect(map.epoch).toBe(1)
    const asked = network.seen.length
    expect((await refusedBy({ network }, { publisherKey, mode })).code).toBe('signature')
    expect(network.seen.slice(asked).filter(({ path }) => path !== '/v1/info' && path !== '/v1/manifest')).toEqual([])
    expect((await new Harness(network).open({ publisherKey: toHex(ed25519.getPublicKey(OTHER)), mode })).epoch).toBe(3)
  })
})

describe('expiry', () => {
  const brief = { manifest: { expires: NOW + DAY } }

  /** A map whose clock can be set. */
  async function dated(change: Partial<Contents> = brief, mode: 'full' | 'instant' | 'local' = 'full') {
    const publishing = new Publishing(change)
    let seconds = 0
    const harness = new Harness(publishing.network)
    const { now, setTimeout, clearTimeout, date } = harness.clock
    const clock = { now, setTimeout, clearTimeout, date: () => date() + 1000 * seconds }
    Object.assign(harness.environment, { clock })
    const map = await harness.open({ publisherKey, mode })
    return { publishing, harness, map, pass: (more: number) => (seconds += more) }
  }

  test('while the map is open: refused at the next lookup, before anything is sent; also at the next', async () => {
    const { publishing, harness, map, pass } = await dated()
    expect(await harness.drive(map.at(3))).toEqual(publishing.newest.byIndex[3])
    pass(DAY - 60)
    expect(await harness.drive(map.at(3))).toEqual(publishing.newest.byIndex[3])
    pass(120)
    const sent = answers(publishing.network)
    for (let i = 0; i < 2; i++) expect((await harness.failure(map.at(3))).code).toBe('signature')
    expect(answers(publishing.network)).toBe(sent)
  })

  test.each(['full', 'instant'] as const)('mode %s: a newer one that is signed is followed', async mode => {
    const { publishing, harness, map, pass } = await dated(brief, mode)
    publishing.publishSigned([edit(3, 'three')], { expires: NOW + 3 * DAY })
    pass(DAY)
    expect(await harness.drive(map.at(3))).toEqual(utf8('three'))
    expect(map.epoch).toBe(2)
  })

  test('and the newer one is not signed, or has expired, too: refused', async () => {
    const { publishing, harness, map, pass } = await dated()
    publishing.publish([edit(3, 'three')], [A, B], { expires: NOW + 3 * DAY })
    pass(DAY)
    expect((await harness.failure(map.at(3))).code).toBe('signature')
    publishing.sign()
    pass(3 * DAY)
    expect((await harness.failure(map.at(3))).code).toBe('signature')
    expect(answers(publishing.network)).toBe(0)
  })

  test.each(['full', 'instant', 'local'] as const)(
    'mode %s: servers still show the epoch before, which lasts: the error says what has expired',
    async mode => {
      const { publishing, harness, map, pass } = await dated({}, mode)
      publishing.publishSigned([edit(3, 'two..')], { expires: NOW + DAY })
      await harness.drive(map.sync())
      pass(DAY)
      for (const call of [() => map.at(3), () => map.sync()]) {
        const { code, message } = await harness.failure(call())
        expect([code, message]).toEqual(['signature', expect.stringContaining('got 2, expired at')])
      }
    },
  )

  test('an epoch that another key has signed: the error begins that key', () => {
    const signing = new Signing(publisherKey, { clock: new ManualClock(), subtle: undefined, pause })
    const shown = { generation: 1, epoch: 3, manifest: '00'.repeat(32) }
    const by = (publicKey: string, epoch: number) => ({ publicKey, generation: 1, epoch, signature: '00'.repeat(64) })
    const other = 'c0ffee99'.repeat(8)
    expect(signing.unsigned(shown, [by(publisherKey, 3), by(other, 3)]).message).toContain(
      'got one under another key, c0ffee99…',
    )
    expect(signing.unsigned(shown, [by(publisherKey, 3), by(other, 2)]).message).toContain('got none that is valid')
  })

  test('servers that show an older epoch: one that has expired is called that, any other a step back', () => {
    const clock = { ...new ManualClock(), date: () => NOW * 1000 }
    const signing = new Signing(publisherKey, { clock, subtle: undefined, pause })
    const [seen, older] = [2, 1].map(epoch => ({ databaseId: new Uint8Array(16), epoch })) as [EpochId, EpochId]
    const succession = (expires: number) => () => signing.checkSuccession({ ...seen, expires }, older)
    expect(succession(NOW)).toThrow(/expected an epoch that has not expired, got 2/)
    expect(succession(NOW)).toThrow(`this device's date is ${new Date(NOW * 1000).toISOString()}`)
    for (const expires of [0, NOW + DAY]) expect(succession(expires)).toThrow(/gone back/)
  })

  test('of an epoch that a lookup follows to on its way, also one that runs out meanwhile: no record leaves', async () => {
    const { publishing, harness, map, pass } = await dated({})
    for (const text of ['two..', 'three']) publishing.publishSigned([edit(3, text)], { expires: NOW + DAY })
    pass(DAY)
    expect((await harness.failure(map.at(3))).code).toBe('signature')
    expect([map.epoch, answers(publishing.network)]).toEqual([1, 2]) // its lookup was not answered at epoch 1 any more

    const late = await dated()
    late.publishing.network.both(
      on('/v1/answer', genuine => {
        late.pass(DAY)
        return genuine
      }),
    )
    expect((await late.harness.failure(late.map.at(3))).code).toBe('signature')
  })

  test('of stored state, at open()', async () => {
    const { publishing, device } = published(brief)
    await device.drive((await openedOnDisk(device)).close())
    device.clock.sleep(1000 * DAY)
    expect((await failureOf(device)).code).toBe('signature')
    publishing.publishSigned([edit(3, 'three')], { expires: 0 })
    const map = await openedOnDisk(device)
    expect(await device.drive(map.at(3))).toEqual(utf8('three'))
  })

  test('without a publisher’s key nobody asks', async () => {
    const { network, newest } = new Publishing({ manifest: { expires: NOW - DAY } })
    const { harness, map } = await openedOn({ network })
    expect(await harness.drive(map.at(3))).toEqual(newest.byIndex[3])
  })
})

test('what is asked for, and when signatures are fetched, have nothing to do with each other', async () => {
  const shapes = []
  for (const key of [NAMES[0]!, NAMES[7]!, 'absent.example']) {
    const values = NAMES.map((_, i) => utf8('v'.repeat(i)))
    const publishing = new Publishing({ keys: NAMES, values, variable: true, partitions: 5 })
    const { harness, map } = await openedOn(publishing, { publisherKey })
    const before = publishing.network.seen.length
    for (let i = 0; i < 3; i++) await harness.drive(map.get(key))
    shapes.push(
      publishing.network.seen.slice(before).map(({ server, path, body }) => `${server} ${path} ${body.length}`),
    )
  }
  expect(shapes[1]).toEqual(shapes[0])
  expect(shapes[2]).toEqual(shapes[0])
  expect(shapes[0]!.filter(line => line.includes('/v1/info'))).toEqual([])
})

// Without WebCrypto's Ed25519 each signature takes JavaScript milliseconds: a page has to be able to paint between them.
test('false signatures are looked at with the thread given back after each', async () => {
  const { publicKey, secretKey } = ed25519.keygen()
  const clock = { ...new Harness(sameOnBoth()).clock, date: Date.now }
  const signing = new Signing(toHex(publicKey), { clock, pause, subtle: undefined })
  const manifest = { generation: 1, epoch: 2, expires: 0 } as Manifest
  const signatures = Array.from({ length: 8 }, (_, i) => ({
    ...{ publicKey: toHex(publicKey), generation: 1, epoch: 2 },
    signature: toHex(ed25519.sign(Uint8Array.of(i), secretKey)),
  }))
  let turns = 0
  let over = false
  const turn = () => {
    turns++
    if (!over) setImmediate(turn)
  }
  setImmediate(turn)
  const claimed = { generation: 1, epoch: 2, manifest: '00'.repeat(32), signatures }
  const over300 = { manifest, bytes: new Uint8Array(300) }
  expect(await signing.signatureOf(over300, claimed, async () => 'none')).toBeUndefined()
  over = true
  expect(turns).toBeGreaterThanOrEqual(8)
})
