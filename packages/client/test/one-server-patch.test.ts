// Lookups with one server after edits: asked at the base, the same for every key, and right at the newest epoch. What a patch must be is
// checked before anything is sent.

import { baseOf, HEADER_BYTES, instantLayout, ONE_SERVER_PATH, patchEntries } from '@keyhush/protocol'
import { oneServerCosts } from '@keyhush/wasm/one-server'
import { describe, expect, test } from 'vitest'
import { sampled } from '../../../tests/support/thorough.js'
import type { Change } from '../src/index.js'
import { Patched } from '../src/scheme/one-server/patched.js'
import { rest } from './support/clock.js'
import { core, hex } from './support/harness.js'
import { A, bytesOf, epochUnknown, type Misbehave, type Network, ok, on, problem } from './support/network.js'
import {
  entry,
  type Hinted,
  keylessEpochs,
  lookups,
  NAMES,
  openedOn,
  patched,
  rebased,
  serverOf,
  type World,
  withFields,
  withPatch,
  world,
} from './support/one-server.js'
import { drawing } from './support/random.js'
import { publishSigned } from './support/signed.js'
import { textOf, told } from './support/watched.js'

const ABSENT = ['nobody', 'no one']

/** Keys of every fate since the base. */
const FATES = {
  unchanged: ['name-0.example', 'name-39.example'],
  edited: ['name-1.example', 'name-4.example'],
  deleted: ['name-2.example', 'name-5.example'],
  moved: ['name-3.example', 'name-6.example'],
  added: ['new-1', 'new-2'],
  'added and deleted': ['gone', 'also gone'],
  absent: ABSENT,
} as const

function changed(): World {
  const made = world()
  made.change(['gone', 'here'], ['gone', undefined], ['new-1', 'one']) // the first slot behind the base's is never written
  made.change(['name-1.example', 'edited'], ['name-2.example', undefined])
  made.change(['name-3.example', undefined], ['name-3.example', 'moved'], ['name-6.example', undefined])
  made.change(['also gone', 'here'])
  made.change(['name-4.example', 'twice'], ['name-5.example', undefined], ['new-2', 'two'], ['also gone', undefined])
  made.change(['name-4.example', 'thrice'], ['name-6.example', 'again'])
  return made
}

/** A map on a server with a patch that holds all of this. */
async function opened(made = changed(), options: Parameters<typeof openedOn>[1] = {}) {
  const network = serverOf(made.epochs)
  return { made, network, ...(await openedOn(network, options)) }
}

/** All that a server sees, but for what is drawn anew. */
function seenOf(network: Network, skip: number): string[] {
  return network.seen
    .slice(skip)
    .map(({ path, method, body }) => `${method} ${path} ${body.length} ${hex(body.subarray(0, HEADER_BYTES))}`)
}

describe('a key', () => {
  test.each(Object.entries(FATES))('that is %s has its newest value, by key and by index', async (_, keys) => {
    const { made, harness, map } = await opened()
    for (const key of keys) expect(await harness.drive(map.getText(key)), key).toBe(made.values.get(key))
  })

  test.each(Object.entries(FATES))('that is %s is asked for as one that is absent', async (_, keys) => {
    const { network, harness, map } = await opened()
    const shown = async (ask: (keys: readonly string[]) => Promise<unknown>, keys: readonly string[]) => {
      const before = network.seen.length
      await harness.drive(ask(keys))
      return seenOf(network, before)
    }
    const ways = {
      get: ([key]: readonly string[]) => map.get(key!),
      has: ([key]: readonly string[]) => map.has(key!),
      getMany: (keys: readonly string[]) => map.getMany(keys),
      padded: (keys: readonly string[]) => map.getMany(keys, { padTo: 5 }),
    }
    for (const [way, ask] of Object.entries(ways)) {
      const view = await shown(ask, keys)
      expect(view, way).toHaveLength(2)
      expect(view, way).toEqual(await shown(ask, ABSENT))
    }
  })

  test('of any fate has its value in a batch, padded or not', async () => {
    const { made, harness, map } = await opened()
    const keys = Object.values(FATES).flatMap(([key]) => key)
    for (const padTo of [keys.length, keys.length + 2]) {
      const values = await harness.drive(map.getMany(keys, { padTo }))
      expect(values.map(textOf)).toEqual(keys.map(key => made.values.get(key)))
    }
  })
})

test('at() says what the newest epoch has at every index, and is asked for alike', async () => {
  const { made, network, harness, map } = await opened()
  const { byIndex, manifest } = made.newest
  expect(map.size).toBe(manifest.records)
  const { baseRecords } = manifest.oneServer!
  const written = [...patchEntries(made.newest.patch, manifest.recordBytes)].map(({ index }) => index)
  expect([manifest.records, written.includes(baseRecords)]).toEqual([baseRecords + 2, false])
  const views = new Set<string>()
  for (let index = 0; index < map.size; index++) {
    const before = network.seen.length
    expect(textOf(await harness.drive(map.at(index))), `${index}`).toBe(textOf(byIndex[index]))
    views.add(String(seenOf(network, before)))
  }
  expect(views.size).toBe(1)
  expect(await harness.failure(map.at(map.size))).toMatchObject({ code: 'usage' })
})

test('where the directory is at hand, one record is asked for, whatever has become of the key', async () => {
  const { made, network, harness, map } = await opened(changed(), { filter: { cover: 1, meanwhile: 'wait' } })
  const views = new Set<string>()
  for (const key of Object.values(FATES).flat()) {
    const before = network.seen.length
    expect(await harness.drive(map.getText(key)), key).toBe(made.values.get(key))
    views.add(String(seenOf(network, before).filter(line => line.includes(ONE_SERVER_PATH))))
  }
  expect([...views].map(view => view.split(',').length)).toEqual([1])
})

test('of a database without keys, records that were added are read from the patch', async () => {
  const epochs = keylessEpochs()
  const network = serverOf(epochs)
  const { harness, map } = await openedOn(network)
  const { byIndex } = epochs.at(-1)!
  for (const [index, value] of byIndex.entries()) {
    expect(hex((await harness.drive(map.at(index)))!), `${index}`).toBe(hex(value!))
  }
  expect(lookups(network)).toHaveLength(byIndex.length)
})

test('a patch is read in as many steps, wherever the key is in it', () => {
  const { newest } = changed()
  const { manifest, patch } = newest
  const read = new Patched(manifest, manifest.oneServer!.baseRecords, patch)
  const steps = (key: string) => {
    let steps = 0
    const print = new Proxy(core.fingerprint(new TextEncoder().encode(key)), {
      get(target, name) {
        steps++
        return Reflect.get(target, name, target)
      },
    })
    read.places([print])
    return steps
  }
  const counts = Object.values(FATES).flatMap(keys => keys.map(steps))
  expect(new Set(counts).size).toBe(1)
  expect(counts[0]).toBeGreaterThanOrEqual((16 * patch.length) / (5 + manifest.recordBytes))
})

describe('of a patch', () => {
  test('the beginning is kept, and the hint: after an edit one entry is downloaded', async () => {
    const { made, network, harness, map } = await opened()
    await harness.drive(map.get('new-1'))
    const before = network.seen.length
    const entryBytes = 5 + made.newest.manifest.recordBytes
    const received: number[] = []
    network.misbehave[A] = on('/v1/blobs/', async genuine => {
      const bytes = await bytesOf(genuine)
      received.push(bytes.length)
      return new Response(bytes as Uint8Array<ArrayBuffer>, { status: genuine.status })
    })
    made.change(['name-7.example', 'later'])
    publishSigned(network, made.newest)
    await harness.drive(map.sync())
    expect(textOf(await harness.drive(map.get('name-7.example')))).toBe('later')
    const ranges = network.seen.slice(before).flatMap(({ init }) => new Headers(init.headers).get('range') ?? [])
    expect(ranges).toEqual([`bytes=${made.newest.patch.length - entryBytes}-`])
    expect(received).toEqual([entryBytes])
  })

  test('the beginning is kept, and the hint, while they are on their way: epochs that come meanwhile download the end', async () => {
    const made = changed()
    const network = serverOf(made.epochs)
    let release = () => {}
    const released = new Promise<void>(resolve => {
      release = resolve
    })
    network.misbehave[A] = on('/v1/blobs/', genuine => released.then(() => genuine))
    const { harness, map } = await openedOn(network)
    for (const value of ['later', 'latest']) {
      made.change(['name-7.example', value])
      publishSigned(network, made.newest)
      await harness.drive(map.sync())
    }
    const asked = map.get('name-7.example')
    release()
    expect(textOf(await harness.drive(asked))).toBe('latest')
    const blobs = network.seen.filter(({ path }) => path.startsWith('/v1/blobs/'))
    const hintPath = `/v1/blobs/${hex(made.newest.manifest.oneServer!.hintHash)}`
    expect(blobs.filter(({ path }) => path === hintPath)).toHaveLength(1)
    const isWhole = ({ init }: (typeof blobs)[number]) => !new Headers(init.headers).has('range')
    expect(blobs.filter(({ path }) => path !== hintPath).map(isWhole)).toEqual([true, false, false])
  })

  test('hint and patch have the bytes that are computed beforehand', async () => {
    const made = changed()
    const network = serverOf(made.epochs)
    let received = 0
    network.misbehave[A] = on('/v1/', async (genuine, { path }) => {
      const bytes = await bytesOf(genuine)
      if (path.startsWith('/v1/blobs/') || path === '/v1/manifest') received += bytes.length
      return ok(bytes)
    })
    const { harness, map } = await openedOn(network)
    await harness.drive(map.get('new-1'))
    const { manifest } = made.newest
    const sizes = (['records', 'directory'] as const).map(of =>
      core.oneServerSizes(instantLayout(baseOf(manifest), of)),
    )
    const { firstBytes, prepareBytes, dayBytes } = oneServerCosts(manifest, sizes, {
      lookupsPerDay: 0,
      changesPerDay: 2,
    })
    const marks = 32
    expect(received).toBe(firstBytes + marks)
    expect(prepareBytes).toBe(made.newest.hint.length + made.newest.patch.length)
    expect(dayBytes).toBe(made.newest.manifestBytes.length - marks + 2 * 2 * (5 + manifest.recordBytes))
  })

  test('an epoch that changes nothing is another manifest, and no download', async () => {
    const { made, network, harness, map } = await opened()
    await harness.drive(map.get('new-1'))
    network.misbehave[A] = on('/v1/blobs/', () => problem(404, 'not_found'))
    made.change()
    publishSigned(network, made.newest)
    await harness.drive(map.sync())
    expect(map.epoch).toBe(made.newest.manifest.epoch)
    expect(textOf(await harness.drive(map.get('new-1')))).toBe('one')
  })

  const whole = new Map<string, Uint8Array<ArrayBuffer>>()
  const ends: Record<string, Misbehave> = {
    'is another': on('/v1/blobs/', async (genuine, { init }) => {
      const bytes = await bytesOf(genuine)
      if (!new Headers(init.headers).has('range')) return ok(bytes)
      bytes[7]! ^= 1
      return new Response(bytes as Uint8Array<ArrayBuffer>, { status: 206 })
    }),
    'is the whole': on('/v1/blobs/', (genuine, { path, init }) => {
      return new Headers(init.headers).has('range') ? new Response(whole.get(path)) : genuine
    }),
    'is refused': on('/v1/blobs/', (genuine, { init }) => {
      return new Headers(init.headers).has('range') ? new Response(null, { status: 416 }) : genuine
    }),
    'does not come': on('/v1/blobs/', (genuine, { init }) => {
      if (new Headers(init.headers).has('range')) throw new TypeError('no preflight is answered')
      return genuine
    }),
  }
  test.each(Object.entries(ends))('the whole is downloaded, once, if its end %s', async (_, misbehave) => {
    const { made, network, harness, map } = await opened()
    await harness.drive(map.get('new-1'))
    made.change(['name-7.example', 'later'])
    whole.set(`/v1/blobs/${hex(made.newest.manifest.oneServer!.patchHash)}`, Uint8Array.from(made.newest.patch))
    network.misbehave[A] = misbehave
    const before = network.seen.length
    publishSigned(network, made.newest)
    await harness.drive(map.sync())
    expect(textOf(await harness.drive(map.get('name-7.example')))).toBe('later')
    const asked = network.seen.slice(before).filter(({ path }) => path.startsWith('/v1/blobs/'))
    expect(asked.map(({ init }) => new Headers(init.headers).has('range'))).toEqual([true, false])
  })
})

test('a watched key is followed from where the patch has it', async () => {
  const { made, network, harness, map } = await opened()
  const keys = Object.values(FATES).map(([key]) => key)
  const heard: Record<string, string> = {}
  for (const key of keys) {
    const hear = (change: Change) => {
      heard[key] = told(change)
    }
    const watch = await harness.drive(map.watch(key, hear, { save: () => {} }))
    expect(textOf(watch.value), key).toBe(made.values.get(key))
  }
  const before = keys.map(key => made.values.get(key))
  made.change(...keys.map((key, i) => [key, made.values.has(key) && i % 2 === 0 ? undefined : `now ${i}`] as const))
  publishSigned(network, made.newest)
  await harness.drive(map.sync())
  await rest()
  const { epoch } = made.newest.manifest
  const changes = keys.map((key, i) => [key, `${before[i]} → ${made.values.get(key)} at ${epoch}, list`])
  expect(heard).toEqual(Object.fromEntries(changes))
})

test('of the same entropy, requests at two epochs of a base share no secret', async () => {
  const made = changed()
  const askedAt = async (epochs: readonly Hinted[]) => {
    const network = serverOf(epochs)
    const { harness, map } = await openedOn(network)
    await harness.drive(map.get('name-1.example'))
    return lookups(network).map(({ body }) => hex(body.subarray(HEADER_BYTES, 10_000)))
  }
  const [once, again] = [await askedAt(made.epochs), await askedAt(made.epochs)]
  expect(again).toEqual(once)
  expect(new Set([...once, ...(await askedAt(made.epochs.slice(0, -1)))]).size).toBe(4)
})

test('without streams a map follows at a lookup after five minutes, whatever is asked', async () => {
  const views = new Set<string>()
  for (const key of ['name-7.example', 'name-8.example', 'nobody']) {
    const { made, network, harness, map } = await opened()
    await harness.drive(map.get(key))
    made.change(['name-7.example', 'later'])
    publishSigned(network, made.newest)
    harness.clock.sleep(250_000)
    expect(textOf(await harness.drive(map.get('name-7.example')))).toBe('first value 7')
    harness.clock.sleep(100_000)
    const before = network.seen.length
    expect(await harness.drive(map.getText(key))).toBe(made.values.get(key))
    views.add(String(seenOf(network, before)))
    expect(map.epoch).toBe(made.newest.manifest.epoch)
  }
  expect(views.size).toBe(1)
})

test('a map that cannot look for a newer epoch after five minutes looks up where it is', async () => {
  const { made, network, harness, map } = await opened()
  made.change(['name-7.example', 'later'])
  publishSigned(network, made.newest)
  network.misbehave[A] = on('/v1/info', () => problem(404, 'not_found'))
  harness.clock.sleep(350_000)
  expect(textOf(await harness.drive(map.get('name-7.example')))).toBe('first value 7')
})

test('the patch that is in force when a lookup begins counts', async () => {
  const { made, network, harness, map } = await opened()
  await harness.drive(map.get('new-1'))
  let followed: Promise<void> | undefined
  network.misbehave[A] = (seen, genuine) => {
    if (seen.path !== ONE_SERVER_PATH || followed !== undefined) return genuine
    made.change(['name-7.example', 'later'])
    publishSigned(network, made.newest)
    followed = map.sync()
    return followed.then(() => genuine)
  }
  expect(textOf(await harness.drive(map.get('name-7.example')))).toBe('first value 7')
  expect(map.epoch).toBe(made.newest.manifest.epoch)
  expect(textOf(await harness.drive(map.get('name-7.example')))).toBe('later')
})

describe('nothing is looked up', () => {
  const entryBytes = ({ manifest }: Hinted) => 5 + manifest.recordBytes
  const isPatch = (of: Hinted, path: string) => path.endsWith(hex(of.manifest.oneServer!.patchHash))
  const lies: Record<string, readonly [string, (genuine: Uint8Array, of: Hinted) => Response]> = {
    'is withheld': ['version', () => problem(404, 'not_found')],
    'is cut': ['protocol', (patch, of) => ok(patch.subarray(entryBytes(of)))],
    'is in another order': [
      'tampered',
      (patch, of) => ok(Buffer.concat([patch.subarray(entryBytes(of)), patch.subarray(0, entryBytes(of))])),
    ],
    'is changed': ['tampered', patch => ok(patch.map((byte, i) => (i === patch.length - 1 ? byte ^ 1 : byte)))],
  }
  test.each(Object.entries(lies))('while the patch %s', async (_, [code, lie]) => {
    const made = changed()
    const network = serverOf(made.epochs)
    network.misbehave[A] = on('/v1/blobs/', async (genuine, { path }) =>
      isPatch(made.newest, path) ? lie(await bytesOf(genuine), made.newest) : genuine,
    )
    const { harness, map } = await openedOn(network)
    for (const key of ['name-1.example', 'name-0.example', 'nobody']) {
      expect(await harness.failure(map.get(key)), key).toMatchObject({ code, server: A })
    }
    expect(await harness.failure(map.at(0))).toMatchObject({ code })
    expect(lookups(network)).toEqual([])
    network.misbehave[A] = undefined
    expect(textOf(await harness.drive(map.get('name-1.example')))).toBe('edited')
  })

  const deleted = ({ newest: { manifest, patch } }: World) => {
    const record = new Uint8Array(manifest.recordBytes)
    record.set(patch.subarray(5, 5 + 16))
    return record
  }
  const filled = ({ newest: { manifest } }: World) => new Uint8Array(manifest.recordBytes).fill(7)
  const malformed: Record<string, (made: World) => readonly [number, number, Uint8Array]> = {
    'of kind 0': made => [0, 0, deleted(made)],
    'of kind 4': made => [0, 4, deleted(made)],
    'beyond the last record': made => [made.newest.manifest.records, 3, deleted(made)],
    'with a record that is none': made => [0, 2, filled(made)],
    'that adds an empty slot': made => [0, 1, new Uint8Array(made.newest.manifest.recordBytes)],
    'that deletes nobody': made => [0, 3, new Uint8Array(made.newest.manifest.recordBytes)],
    'that deletes more than a fingerprint': made => [0, 3, filled(made)],
  }
  test.each(Object.entries(malformed))('if the publisher has signed an entry %s', async (_, entryOf) => {
    const made = changed()
    const { patch, manifest } = made.newest
    const { recordBytes } = manifest
    const wrong = entry(...entryOf(made), recordBytes)
    for (const bytes of [Buffer.concat([wrong, patch]), Buffer.concat([patch, wrong])]) {
      const network = serverOf([...made.epochs.slice(0, -1), withPatch(made.newest, bytes)])
      const { harness, map } = await openedOn(network)
      for (const key of ['name-1.example', 'nobody']) {
        expect(await harness.failure(map.get(key))).toMatchObject({ code: 'protocol', server: A })
      }
      expect(await harness.failure(map.at(39))).toMatchObject({ code: 'protocol', server: A })
      expect(lookups(network)).toEqual([])
    }
  })

  test('if the publisher has signed a patch that is longer than the hint: it is not even downloaded', async () => {
    const made = changed()
    const { patch, hint, manifest } = made.newest
    const each = 5 + manifest.recordBytes
    const most = Math.floor(hint.length / each)
    const patchOf = (entries: number) => Buffer.concat(Array.from({ length: entries }, () => patch.subarray(-each)))
    for (const [entries, code] of [
      [most, undefined],
      [most + 1, 'protocol'],
    ] as const) {
      const network = serverOf([...made.epochs.slice(0, -1), withPatch(made.newest, patchOf(entries))])
      const { harness, map } = await openedOn(network)
      const asked = map.get('name-0.example').then(
        () => undefined,
        error => error.code,
      )
      expect(await harness.drive(asked)).toBe(code)
      expect(lookups(network)).toHaveLength(code === undefined ? 2 : 0)
      const blobs = network.seen.filter(({ path }) => path.startsWith('/v1/blobs/'))
      if (code !== undefined) expect(blobs).toEqual([])
    }
  })
})

describe('a base', () => {
  test('that changes during a lookup: all of it is made again, of new secrets, at the new one', async () => {
    const { made, network, harness, map } = await opened()
    await harness.drive(map.get('new-1'))
    const next = rebased(made.newest, made.operations([['name-1.example', 'anew']]))
    const after = rebased(next, made.operations([['name-8.example', 'anew']]))
    const skip = lookups(network).length
    let asked = 0
    network.misbehave[A] = (seen, genuine) => {
      if (seen.path !== ONE_SERVER_PATH || ++asked !== 2) return genuine
      publishSigned(network, next, after)
      return epochUnknown(after.manifest)
    }
    expect(textOf(await harness.drive(map.get('name-1.example')))).toBe('anew')
    expect(map.epoch).toBe(after.manifest.epoch)
    const bodies = lookups(network, skip).map(({ body }) => body)
    expect(bodies.map(body => body[6])).toEqual([10, 9, 10, 9])
    expect(new Set(bodies.map(body => hex(body.subarray(HEADER_BYTES)))).size).toBe(4)
  })

  test('that changes at each attempt ends the lookup after three', async () => {
    const made = world()
    const { network, harness, map } = await opened(made)
    network.misbehave[A] = on(ONE_SERVER_PATH, () => {
      const next = patched(made.newest, [])
      made.epochs.push(withFields(next, { baseEpoch: next.manifest.epoch })) // of the same records: its hint is the same
      publishSigned(network, made.newest)
      return epochUnknown(made.newest.manifest)
    })
    expect(await harness.failure(map.get('name-1.example'))).toMatchObject({ code: 'version' })
    expect(lookups(network)).toHaveLength(3)
  })

  test('that is older than that of the map, or another under its number, is refused', async () => {
    const made = changed()
    const next = rebased(made.newest, [])
    const network = serverOf([...made.epochs, next])
    const { harness, map } = await openedOn(network)
    await harness.drive(map.get('new-1'))
    const later = patched(next, [])
    const wrong = [
      withFields(later, { baseEpoch: made.newest.manifest.epoch }),
      withFields(later, { hintHash: new Uint8Array(32).fill(1) }),
      withFields(later, { baseRecords: next.manifest.records - 1 }),
    ]
    for (const epoch of wrong) {
      const lying = serverOf([...made.epochs, next, epoch])
      network.misbehave[A] = ({ url, init }) => lying.fetch(url, init)
      expect(await harness.failure(map.sync())).toMatchObject({ code: 'signature' })
      expect(map.epoch).toBe(next.manifest.epoch)
    }
    network.misbehave[A] = undefined
    expect(textOf(await harness.drive(map.get('new-1')))).toBe('one')
  })

  test('that is being prepared is waited for, thirty seconds longer than usual, with the same bytes', async () => {
    const { network, harness, map } = await opened()
    const unready = () => problem(503, 'not_ready', { 'retry-after': '5' })
    const from = harness.clock.now()
    network.misbehave[A] = (seen, genuine) => {
      const isReady = harness.clock.now() - from >= 40_000
      return seen.path === ONE_SERVER_PATH && !isReady ? unready() : genuine
    }
    expect(textOf(await harness.drive(map.get('new-1')))).toBe('one')
    const bodies = lookups(network).map(({ body }) => hex(body))
    expect(bodies).toHaveLength(9 + 1)
    expect(new Set(bodies).size).toBe(2)
  })

  test('that is never prepared ends the lookup with the server’s refusal; so does its hint', async () => {
    const made = changed()
    for (const path of [ONE_SERVER_PATH, `/v1/blobs/${hex(made.newest.manifest.oneServer!.hintHash)}`]) {
      const network = serverOf(made.epochs)
      network.misbehave[A] = on(path, () => problem(503, 'not_ready', { 'retry-after': '5' }))
      const { harness, map } = await openedOn(network)
      const start = harness.clock.now()
      expect(await harness.failure(map.get('new-1'))).toMatchObject({ code: 'network', refusal: 'not_ready' })
      const waited = harness.clock.now() - start
      expect([waited >= 40_000, waited <= 60_000], `${path}: ${waited} ms`).toEqual([true, true])
    }
  })
})

const SEEDS = Array.from({ length: 50 }, (_, seed) => seed)
test.each(sampled(SEEDS, 25))('in a random world every key has its newest value, seed %i', async seed => {
  const below = drawing(seed)
  const made = world()
  const keys = [...NAMES.slice(0, 20), ...Array.from({ length: 8 }, (_, i) => `new ${i}`)]
  const anyChange = (): [string, string | undefined] => {
    const key = keys[below(keys.length)]!
    const stays = !made.values.has(key) || below(3) > 0
    return [key, stays ? `${below(1e6)}` : undefined]
  }
  const network = serverOf(made.epochs)
  const { harness, map } = await openedOn(network, {}, seed)
  for (const _ of [1, 2]) {
    for (let epochs = below(4); epochs > 0; epochs--) {
      // One at a time: what comes later in a batch depends on what came before.
      const operations = Array.from({ length: below(7) }, () => made.operations([anyChange()])[0]!)
      made.epochs.push(patched(made.newest, operations))
      publishSigned(network, made.newest)
    }
    await harness.drive(map.sync())
    const values = await harness.drive(map.getMany([...keys, 'nobody']))
    expect(values.map(textOf)).toEqual([...keys, 'nobody'].map(key => made.values.get(key)))
    for (let index = 0; index < map.size; index += 1 + below(20)) {
      expect(textOf(await harness.drive(map.at(index)))).toBe(textOf(made.newest.byIndex[index]))
    }
  }
})
