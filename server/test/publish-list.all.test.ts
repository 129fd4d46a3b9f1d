// `publishList`: the servers' list becomes what a new file has, by batches. A simulated owner brings a file each night, the publisher
// is disturbed and servers restart; the lists are compared with plain maps, and so is every epoch on the way.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { contentHash, decodeRecord, toHex } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { PUBLISHER } from '../../tests/support/publishing.js'
import { THOROUGH } from '../../tests/support/thorough.js'
import {
  BuildError,
  buildDataset,
  PublishError,
  type PublishListOptions,
  type PublishOptions,
  publish,
  publishList,
  type UpdatableDatabase,
} from '../dist/index.js'
import { builtDirectory, type Choices, pseudoRandom, temporaryDirectory } from './helpers.js'
import { chance, type Disturbance, FATES, outcomeOf, type Server, World } from './publish-world.js'
import { bodyOf, printOf } from './updatable-helpers.js'

type List = ReadonlyMap<string, string>
type Draw = (below: number) => number

const csvOf = (list: List) => `key,value\n${[...list].map(([key, value]) => `${key},${value}\n`).join('')}`
const numbered = (count: number, value = (i: number) => `value ${i}`, from = 0): Map<string, string> =>
  new Map(Array.from({ length: count }, (_, i) => [`key ${from + i}`, value(i)]))

/** Values by fingerprint. */
const printed = (list: List) => new Map([...list].map(([key, value]) => [printOf(key), value]))

/** The same of what a server has. */
async function listAt(updatable: UpdatableDatabase): Promise<Map<string, string>> {
  const { manifest } = updatable.newest
  const list = new Map<string, string>()
  for (let q = 0; q < manifest.partitions; q++) {
    const partition = await bodyOf(updatable, contentHash(manifest, q))
    for (let at = 0; at < partition.length; at += manifest.recordBytes) {
      const { empty, fingerprint, value } = decodeRecord(manifest, partition.subarray(at, at + manifest.recordBytes))
      if (!empty) list.set(toHex(fingerprint!), Buffer.from(value).toString())
    }
  }
  return list
}

/** A world whose servers have a list, and files for its publisher. */
async function begun(list: List | string, count = 2, choices: Choices = { maxValueBytes: 20 }) {
  const dataset = await builtDirectory('list.csv', typeof list === 'string' ? list : csvOf(list), choices)
  const world = await World.begin(dataset, count, [PUBLISHER])
  const folder = await temporaryDirectory()
  const bring = (
    contents: List | string | Uint8Array,
    options: Partial<PublishListOptions> = {},
    disturbance?: Disturbance,
  ) =>
    world.perform(async calm => {
      const data = join(folder, 'new.csv')
      await writeFile(data, contents instanceof Map ? csvOf(contents) : (contents as string))
      return await publishList({ ...calm, data, ...options })
    }, disturbance)
  const lists = () => Promise.all([...world.servers.values()].map(({ updatable }) => listAt(updatable())))
  return {
    world,
    bring,
    /** A run that is killed once the first server has its batch. */
    async leave(list: List) {
      let arrived = 0
      const fetch: PublishOptions['fetch'] = async (url, init) => {
        if (arrived > 0) throw new TypeError('killed')
        const reply = await world.fetch(`${url}`, init)
        if (init?.method === 'POST' && `${url}`.endsWith('/v1/epochs')) arrived += 1
        return reply
      }
      expect(await outcomeOf(bring(list, { fetch }))).toBeDefined()
      const epochs = [...world.servers.values()].map(({ updatable }) => updatable().newest.manifest.epoch)
      expect(new Set(epochs).size).toBe(2)
    },
    async expectAt(expected: List, seen = '') {
      for (const each of await lists()) expect([seen, each]).toEqual([seen, printed(expected)])
      await world.expectWhole(seen)
    },
    newest: () => [...world.servers.values()][0]!.updatable().newest,
  }
}

/** Collects what an epoch lacks of what all these files have. */
function watching(world: World) {
  const files: List[] = []
  const missing: string[] = []
  world.onEpoch = async ({ updatable }: Server) => {
    const there = await listAt(updatable())
    const [first, ...others] = files.map(printed)
    for (const [fingerprint, value] of first!) {
      if (others.some(other => !other.has(fingerprint))) continue
      const values = [value, ...others.map(other => other.get(fingerprint))]
      if (!values.includes(there.get(fingerprint))) missing.push(`${updatable().newest.manifest.epoch} ${fingerprint}`)
    }
  }
  return { files, missing }
}

describe('a file', () => {
  test('has its keys added, edited and deleted, also those whose text nobody kept', async () => {
    const { bring, expectAt, newest, world } = await begun(numbered(30))
    const list = numbered(28)
    list.set('key 3', 'edited').set('key 4', '').set('new, "quoted"', 'ünï').set('\u2028\u0000', 'x')
    const text = csvOf(list).replace('new, "quoted"', '"new, ""quoted"""')
    expect(await bring(text)).toMatchObject({ adds: 2, edits: 2, deletes: 2, batches: 1, published: { epoch: 2 } })
    await expectAt(list)
    const { manifestHash } = newest()
    const again = await bring(text)
    expect(again).toMatchObject({ adds: 0, edits: 0, deletes: 0, batches: 0, bytes: 0 })
    expect([again.published!.manifestHash, newest().manifestHash, world.sent]).toEqual([manifestHash, manifestHash, 0])
    await world.end()
  })

  test.each<[string, Partial<PublishListOptions>, string, string, string]>([
    ['tsv', { format: 'tsv' }, 'key\tvalue\none\t1\n', 'value\tkey\n\t"one"\n2\ttwo\n', ''],
    [
      'jsonl',
      { format: 'jsonl' },
      '{"key":"one","value":"1"}\n',
      '{"value":"","key":"one"}\n{"key":"two","value":"2"}\n',
      '',
    ],
    ['base64', { valueEncoding: 'base64' }, 'key,value\none,MQ==\n', 'key,value\none,\ntwo,Mg==\n', ''],
    ['hex', { valueEncoding: 'hex' }, 'key,value\none,31\n', 'key,value\none,\ntwo,32\n', ''],
    ['txt', { format: 'txt' }, 'one\r\nthree\r\n', '\ufeffone\n\ntwo\nthree', 'set'],
  ])('is read as build reads it: %s', async (_, reading, first, second, kind) => {
    const { bring, world, newest } = await begun(first, 2, { ...reading, ...(kind !== 'set' && { maxValueBytes: 3 }) })
    const counts = kind === 'set' ? { adds: 1, edits: 0, deletes: 0 } : { adds: 1, edits: 1, deletes: 0 }
    expect(await bring(second, reading)).toMatchObject(counts)
    const built = join(await temporaryDirectory(), 'dataset')
    const data = join(await temporaryDirectory(), 'data')
    await writeFile(data, second)
    const { manifest } = await buildDataset({ format: 'csv', ...reading, data, out: built, maxValueBytes: 3 })
    expect(manifest.records).toBe(newest().manifest.records)
    expect(await bring(second, reading)).toMatchObject({ batches: 0 })
    await world.end()
  })

  test('with values of other bytes than text arrives byte for byte', async () => {
    const bytes = Buffer.from(pseudoRandom(20, 3))
    const { bring, world, newest } = await begun('key,value\none,00\n', 2, { valueEncoding: 'hex', maxValueBytes: 20 })
    await bring(`key,value\none,${bytes.toString('base64')}\n`, { valueEncoding: 'base64' })
    const partition = await bodyOf([...world.servers.values()][0]!.updatable(), contentHash(newest().manifest, 0))
    expect(partition.subarray(18, 38)).toEqual(bytes)
    await world.end()
  })

  const rows = csvOf(numbered(10))
  test.each([
    ['a malformed last line', `${rows}key 10`, /new\.csv:12: expected two fields/],
    ['an open quote', `${rows}"key 10,value\n`, /new\.csv:12: expected a closing quote/],
    ['a key twice', `${rows}key 3,other\n`, /new\.csv:12: the same key as on line 5/],
    ['an empty key', `${rows},other\n`, /new\.csv:12: .* empty/],
    [
      'bytes that are no text',
      Buffer.concat([Buffer.from(rows), Buffer.from([0xff, 0x2c, 0x31, 0x0a])]),
      /:12: .*UTF-8/,
    ],
    ['nothing', '', /empty/],
    ['a header alone', 'key,value\n', /no records/],
  ])(
    'with %s has nothing sent, whatever it changes before, and whatever an earlier run left',
    async (_, contents, message) => {
      const { bring, world, expectAt, leave } = await begun(numbered(3))
      await leave(numbered(4))
      const error = await bring(contents, { batchBytes: 60 }).catch((reason: unknown) => reason)
      expect(error).toBeInstanceOf(BuildError)
      expect((error as BuildError).message).toMatch(message)
      expect(world.sent).toBe(0)
      await bring(numbered(4))
      await expectAt(numbered(4))
      await world.end()
    },
  )

  test('makes the same epochs wherever it is published', async () => {
    const list = new Map([...numbered(25, i => `edited ${i}`), ...numbered(30, i => `${i}`, 100)])
    const hashes = new Set<string>()
    for (let i = 0; i < 3; i++) {
      const { bring, world, newest } = await begun(numbered(40))
      expect((await bring(list, { batchBytes: 500, allowDeletes: 15 })).batches).toBeGreaterThan(5)
      hashes.add(newest().manifestHash)
      await world.end()
    }
    expect(hashes.size).toBe(1)
  })

  test('that deletes more than a tenth of the keys needs --allow-deletes, with no fewer', async () => {
    const { bring, expectAt, world } = await begun(numbered(100))
    expect(await bring(numbered(90, undefined))).toMatchObject({ deletes: 10 })
    const short = numbered(80)
    for (const allowDeletes of [undefined, 0, 9]) {
      const error = await bring(short.set('new', 'x'), { allowDeletes }).catch((reason: unknown) => reason)
      expect(error).toBeInstanceOf(PublishError)
      expect((error as Error).message).toMatch(/a tenth of the 90 keys, got one that deletes 10\..*--allow-deletes 10$/)
      expect(world.sent).toBe(0)
    }
    await expectAt(numbered(90))
    expect(await bring(short, { allowDeletes: 10 })).toMatchObject({ adds: 1, deletes: 10 })
    await expectAt(short)
    await world.end()
  })

  test('goes in several batches: adds, edits, deletes, each signed before the next; what both files have is in every epoch', async () => {
    const { bring, expectAt, world, newest } = await begun(numbered(40))
    const list = new Map([...numbered(40, i => `edited ${i}`), ...numbered(40, i => `${i}`, 40)])
    for (let i = 0; i < 4; i++) list.delete(`key ${i}`)
    const { files, missing } = watching(world)
    files.push(numbered(40), list)
    const sizes: number[] = []
    const watch = world.onEpoch
    world.onEpoch = async server => {
      await watch(server)
      if (server === [...world.servers.values()][0]) sizes.push((await listAt(server.updatable())).size)
    }
    const summary = await bring(list, { batchBytes: 700 })
    expect(summary).toMatchObject({ adds: 40, edits: 36, deletes: 4, published: { epoch: newest().manifest.epoch } })
    expect(summary.batches).toBeGreaterThan(5)
    const most = Math.max(...sizes)
    expect([most, sizes.at(-1), missing]).toEqual([80, 76, []])
    expect(sizes.slice(sizes.indexOf(most))).toEqual(sizes.slice(sizes.indexOf(most)).sort((a, b) => b - a))
    expect(sizes.slice(0, sizes.indexOf(most))).toEqual(sizes.slice(0, sizes.indexOf(most)).sort((a, b) => a - b))
    await expectAt(list) // and `broken` says if one was sent while another was not signed
    await world.end()
  })

  test('that brings back what an earlier one brought is published, though its operations were published before', async () => {
    const { bring, expectAt, world } = await begun(numbered(10))
    expect(await bring(numbered(11))).toMatchObject({ adds: 1, deletes: 0 })
    expect(await bring(numbered(10))).toMatchObject({ adds: 0, deletes: 1 })
    expect(await bring(numbered(11))).toMatchObject({ adds: 1, deletes: 0, published: { epoch: 4 } })
    await expectAt(numbered(11))
    await world.end()
  })

  test.each([0, 1])(
    'beside which somebody else publishes has nothing more sent after batch %i; the next run continues',
    async before => {
      const { bring, expectAt, world, newest } = await begun(numbered(10))
      const list = numbered(12)
      const other = async (calm: PublishOptions) =>
        await publish({ ...calm, operations: Buffer.from('{"op":"edit","key":"key 1","value":"other"}\n') })
      const onProgress: PublishListOptions['onProgress'] = ({ stage, done }) => {
        if (stage === 'publishing' && done === before)
          world.pause = async () => {
            world.pause = async () => {}
            await world.perform(other)
          }
      }
      await expect(bring(list, { onProgress, batchBytes: 1 })).rejects.toMatchObject({
        exit: 3,
        message: /published meanwhile/,
      })
      expect(newest().manifest.epoch).toBe(2 + before)
      expect(await bring(list)).toMatchObject({ adds: 2 - before, edits: 1 })
      await expectAt(list)
      await world.end()
    },
  )

  test('without changes renews the epoch, if it would be valid for longer', async () => {
    const { bring, world, newest } = await begun(numbered(3))
    for (const [expires, epoch] of [
      [4_000_000_000, 2],
      [4_000_000_000, 2],
      [3_900_000_000, 2],
      [4_000_000_001, 3],
    ] as const) {
      expect(await bring(numbered(3), { expires })).toMatchObject({ batches: 0, published: { epoch } })
    }
    expect(newest().manifest.expires).toBe(4_000_000_001)
    await world.end()
  })

  test('of values that are too long is refused before anything is sent, with the line that builds the next generation', async () => {
    const { bring, world, newest, leave } = await begun(numbered(3))
    await leave(numbered(4))
    const list = numbered(3).set('key 1', 'x'.repeat(25)).set('key 0', 'edited')
    const error = (await bring(list).catch((reason: unknown) => reason)) as BuildError
    expect(error).toBeInstanceOf(BuildError)
    expect(error.message).toMatch(
      /new\.csv:3: expected a value of at most 20 bytes, got 25\. Nothing was sent; other lengths need /,
    )
    const [, line] = /`keyhush build (.*?)`/.exec(error.message) ?? []
    expect(line).toMatch(/new\.csv --out next --succeeds manifest\.bin --max-value-bytes 25$/)
    expect(error.message).toContain('`curl -o manifest.bin http://a.example/v1/manifest`')
    expect(world.sent).toBe(0)
    const [data] = line!.split(' --out')
    const folder = await temporaryDirectory()
    await writeFile(join(folder, 'manifest.bin'), newest().manifestBytes)
    const succeeds = join(folder, 'manifest.bin')
    const { manifest } = await buildDataset({ data: data!, out: join(folder, 'next'), succeeds, maxValueBytes: 25 })
    expect([manifest.generation, manifest.valueBytes, manifest.records]).toEqual([2, 25, 3])
    await world.end()
  })

  test('of another length than all values of the list have is refused likewise', async () => {
    const { bring, world } = await begun('key,value\none,abc\ntwo,def\n', 2, {})
    await expect(bring('key,value\none,abc\ntwo,d\n')).rejects.toThrow(
      /:3: expected a value of exactly 3 bytes.* got 1\./,
    )
    await expect(bring('key,value\none,abc\ntwo,0a0b0c\n')).rejects.toThrow(
      / got 6\. .*; if it is hex, give --value-enc/,
    )
    expect(world.sent).toBe(0)
    await world.end()
  })

  test('is refused for a list without keys', async () => {
    const dataset = await builtDirectory('a.bin', pseudoRandom(64), { recordBytes: 8 })
    const world = await World.begin(dataset, 2, [PUBLISHER])
    const data = join(await temporaryDirectory(), 'new.csv')
    await writeFile(data, csvOf(numbered(3)))
    const refused = world.perform(calm => publishList({ ...calm, data }))
    await expect(refused).rejects.toThrow(/expected a list with keys at the servers, got records without/)
    expect(world.sent).toBe(0)
    await expect(world.perform(calm => publishList({ ...calm, data, format: 'bin' }))).rejects.toThrow(/got bin/)
    await world.end()
  })
})

describe('a dry run', () => {
  test('counts, and sends, signs and writes nothing, also what an earlier run left', async () => {
    const { bring, world, newest, leave } = await begun(numbered(30))
    await leave(numbered(31))
    const list = new Map([...numbered(28), ['key 3', 'edited'], ['new', 'x']])
    const epochs = () => [...world.servers.values()].map(({ updatable }) => updatable().newest.manifest.epoch)
    const before = epochs()
    const dry = await bring(list, { dryRun: true })
    expect([world.effects, epochs()]).toEqual([0, before])
    expect(dry).toMatchObject({ adds: 1, edits: 1, batches: 1, isRefused: false })
    expect([dry.published, dry.growth, dry.begins]).toEqual([undefined, undefined, false])
    expect(await bring(numbered(5), { dryRun: true })).toMatchObject({ isRefused: true })
    const { published, ...real } = await bring(list)
    expect([published!.epoch, dry]).toEqual([3, expect.objectContaining(real)])
    expect(newest().manifest.generation).toBe(1)
    await world.end()
  })

  test('says whether clients will download the list again, as they then have to', async () => {
    const seen = new Set<boolean>()
    for (const count of THOROUGH ? [16, 300, 1100, 1300, 2500] : [300, 2500]) {
      const { bring, world, newest } = await begun(numbered(300), 2, { maxValueBytes: 20, headroom: 300 })
      const list = new Map([...numbered(300), ...numbered(count, () => 'x', 1000)])
      const { begins } = await bring(list, { dryRun: true })
      await bring(list)
      expect([count, begins]).toEqual([count, newest().manifest.generation > 1])
      seen.add(begins!)
      await world.end()
    }
    expect(seen.size).toBe(2)
  })
})

test('a file that adds more than the generation has room for begins one, with room for the batches that follow', async () => {
  const { bring, expectAt, world, newest } = await begun(numbered(20))
  const { files, missing } = watching(world)
  const list = new Map([...numbered(20), ...numbered(4000, i => `${i}`, 100)])
  files.push(numbered(20), list)
  const summary = await bring(list, { batchBytes: 40_000 })
  expect(summary).toMatchObject({ adds: 4000, published: { began: true, growth: expect.stringMatching(/room/) } })
  expect([summary.batches > 3, newest().manifest.generation]).toEqual([true, 2])
  expect(missing).toEqual([])
  await expectAt(list)
  await world.end()
})

test.each([1, 2, 3])('a run that is disturbed at any effect is finished by the next, with %i servers', async count => {
  const [old, list] = [numbered(20), new Map([...numbered(19, i => `edited ${i}`), ...numbered(9, i => `${i}`, 50)])]
  const options = { batchBytes: 600 } // three batches
  const calm = await begun(old, count)
  expect((await calm.bring(list, options)).batches).toBe(3)
  const { effects } = calm.world
  await calm.world.end()
  const draw = chance(count)
  for (let effect = 1; effect <= effects; effect++) {
    for (const fate of FATES) {
      if (draw(THOROUGH && count === 2 ? 4 : 80) !== 0) continue
      const { world, bring, expectAt } = await begun(old, count)
      const { files, missing } = watching(world)
      files.push(old, list)
      const seen = `${fate} at effect ${effect}`
      const disturbance = { effect, fate, arrives: 1 + draw(8) }
      await outcomeOf(bring(list, options, disturbance))
      let left = await outcomeOf(bring(list, options, { ...disturbance, effect: 0 }))
      if (fate === 'late') {
        await world.arrive()
        left = await outcomeOf(bring(list, options))
      }
      expect([seen, left, missing]).toEqual([seen, undefined, []])
      await expectAt(list, seen)
      expect([seen, (await bring(list)).batches]).toEqual([seen, 0])
      await world.end()
    }
  }
})

/** The next night's file: keys come, go and change, in another order. */
function nextNight(list: List, draw: Draw): Map<string, string> {
  const value = () => 'x'.repeat(draw(15)) + draw(1000)
  const next = new Map([...list].filter(() => draw(12) !== 0).map(([key, old]) => [key, draw(5) === 0 ? value() : old]))
  for (let adds = draw(4) === 0 ? draw(400) : draw(8); adds > 0; adds--) next.set(`key ${draw(3000)}`, value())
  const shuffled = [...next].map(entry => ({ entry, at: draw(1e6) })).sort((a, b) => a.at - b.at)
  if (next.size === 0) return new Map([['key 0', value()]])
  return new Map(shuffled.map(({ entry }) => entry))
}

test('an owner brings a file each night: the lists become it, whatever kills the publisher or restarts servers', async () => {
  const seeds = THOROUGH ? [1, 2] : [1]
  for (const seed of seeds) {
    const draw = chance(seed)
    let list: List = numbered(1 + draw(60))
    const { world, bring, expectAt } = await begun(list, 1 + draw(3))
    const { files, missing } = watching(world)
    files.push(list)
    const options = { batchBytes: [200, 2000, 100_000][draw(3)]!, allowDeletes: 10_000 }
    for (let night = 1; night <= (THOROUGH ? 12 : 8); night++) {
      list = nextNight(list, draw)
      files.push(list)
      const seen = `seed ${seed}, night ${night}`
      for (let kills = draw(3); kills > 0; kills--) {
        const disturbance = { effect: 1 + draw(25), fate: FATES[draw(FATES.length)]!, arrives: 1 + draw(9) }
        await outcomeOf(bring(list, options, disturbance))
        await outcomeOf(world.arrive() as never)
        if (draw(2) === 0) await [...world.servers.values()][draw(world.servers.size)]!.restart()
      }
      if (draw(4) === 0) continue // the next file comes before this one was published
      expect([seen, await outcomeOf(bring(list, options)), missing]).toEqual([seen, undefined, []])
      await expectAt(list, seen)
      expect([seen, (await bring(list, options)).batches]).toEqual([seen, 0])
      files.splice(0, files.length, list)
    }
    await world.end()
  }
})
