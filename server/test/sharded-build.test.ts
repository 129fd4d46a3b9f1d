// The shards of a sharded database: planned, split and built from parts, the same at every operator.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { decodeManifest, decodeRecord, encodeManifest, toHex } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { recordBytesView } from '../dist/dataset/view.js'
import { loadDataset, MemoryStorage } from '../dist/index.js'
import { expectRefused, keyhush, runKeyhush } from './command.js'
import { contentsOf, createIn, dataFile, temporaryDirectory } from './helpers.js'
import { command, started } from './spawned.js'
import { batchOn, opened } from './updatable-helpers.js'

const SHARDS = 4
const text = (bytes: Uint8Array) => Buffer.from(bytes).toString()

/** Keys that csv must quote, too. */
const LIST = new Map(
  Array.from({ length: 3000 }, (_, i) => {
    const key = [`key ${i}`, `"${i}", quoted`, `two\r\nlines ${i}`, `ключ ${i}`][i % 4]!
    return [key, `${i}`.padStart(5, '0')]
  }),
)
const jsonl = (entries: Iterable<[string, string]>) =>
  `${[...entries].map(([key, value]) => JSON.stringify({ key, value })).join('\n')}\n`

/** A shape for the list; and changed. */
async function shapeFile(change: object = {}, ...more: string[]): Promise<string> {
  const file = join(await temporaryDirectory(), 'shape.json')
  const args = ['--keyed', '--records', '3000', '--value-bytes', '5', '--shards', `${SHARDS}`]
  await runKeyhush('plan', ...args, '--out', file, ...more)
  await writeFile(file, JSON.stringify({ ...JSON.parse(await readFile(file, 'utf8')), ...change }))
  return file
}

async function split(shape: string, ...files: string[]): Promise<string> {
  const out = join(await temporaryDirectory(), 'parts')
  await runKeyhush('split', '--shape', shape, '--out', out, ...files)
  return out
}

const partsOf = async (parts: string, shard: number) =>
  (await readdir(join(parts, `${shard}`))).map(name => join(parts, `${shard}`, name))

/** Keys of a shard. */
const keysIn = async (files: readonly string[]) => {
  const texts = await Promise.all(files.map(file => readFile(file, 'utf8')))
  return texts.flatMap(part =>
    part
      .split('\n')
      .filter(line => line.startsWith('key '))
      .map(line => line.split(',')[0]!),
  )
}

const build = async (shape: string, shard: number, files: readonly string[], ...more: string[]) => {
  const out = join(await temporaryDirectory(), 'dataset')
  const outcome = keyhush('build', ...files, '--shape', shape, '--shard', `${shard}`, '--out', out, ...more)
  return {
    out,
    outcome,
    printed: async () => (await outcome).stdout,
    refused: (words: string) => expectRefused(outcome, words),
  }
}

/** As docs/protocol.md and docs/protocol/sharded.md have it. */
function shardOf(fingerprint: Uint8Array, seed: string): number {
  const seeded = Buffer.from(fingerprint.map((byte, i) => byte ^ Buffer.from(seed, 'hex')[i]!))
  const u64 = (n: bigint) => BigInt.asUintN(64, n)
  const swapped = (n: bigint) => u64((n << 32n) | (n >> 32n))
  const mum = (a: bigint, b: bigint) => u64(a * b) ^ u64((a * b) >> 64n)
  const inner = mum(
    swapped(seeded.readBigUInt64LE(0)) ^ 0xa0761d6478bd642fn,
    swapped(seeded.readBigUInt64LE(8)) ^ 0x8ebc6af09c88c6e3n,
  )
  const h = mum(inner, 16n ^ 0xeb44accab455d165n)
  return Number((((h & 0xffffffffn) ^ (h >> 32n)) * BigInt(SHARDS)) >> 32n)
}

test('all shards together have the list, each its own keys, where its directory leads', async () => {
  const shape = await shapeFile()
  const { directorySeed } = JSON.parse(await readFile(shape, 'utf8'))
  const parts = await split(shape, await dataFile('list.jsonl', jsonl(LIST)))
  const left = new Map([...LIST])
  for (let shard = 0; shard < SHARDS; shard++) {
    const { out, printed } = await build(shape, shard, await partsOf(parts, shard))
    expect(await printed()).toMatch(/^records: 2048 keyed\nkeys: \d+\n/)
    const dataset = await loadDataset(out)
    const { core, manifest, database } = dataset
    const directory = core.decodeDirectory(dataset.directory, manifest.records)
    for (const [key, value] of [...left]) {
      const fingerprint = core.fingerprint(Buffer.from(key))
      if (shardOf(fingerprint, directorySeed) !== shard) continue
      const [index] = directory.indices(fingerprint, manifest.records)
      const { recordBytes } = manifest
      const record = recordBytesView(core, database, index! * recordBytes, recordBytes)
      expect(text(decodeRecord(manifest, record).value)).toBe(value)
      left.delete(key)
    }
    directory.free()
    dataset.close()
  }
  expect(left.size).toBe(0)
})

test('a shard has the same bytes, whatever the order and number of its parts, and their format', async () => {
  const shape = await shapeFile()
  const entries = [...LIST]
  const one = await split(shape, await dataFile('list.jsonl', jsonl(entries)))
  const thirds = await Promise.all(
    [0, 1, 2].map(third => dataFile('list.jsonl', jsonl(entries.filter((_, i) => i % 3 === third).reverse()))),
  )
  const three = await split(shape, ...thirds)
  const reversed = (await partsOf(three, 2)).reverse()
  expect(reversed.length).toBe(3)
  const first = await build(shape, 2, await partsOf(one, 2))
  const second = await build(shape, 2, reversed)
  expect(await second.printed()).toBe(await first.printed())
  expect(await contentsOf(second.out)).toEqual(await contentsOf(first.out))
})

test('parts are the same files in whichever run and from standard input, and values keep their encoding', async () => {
  const shape = await shapeFile()
  const list = [...LIST].filter(([key]) => key.startsWith('key'))
  const csv = (encoding: BufferEncoding) =>
    `key,value\n${list.map(([key, value]) => `${key},${Buffer.from(value).toString(encoding)}`).join('\n')}\n`
  const parts = await split(shape, await dataFile('list.csv', csv('utf8')))
  const again = await split(shape, await dataFile('other.csv', csv('utf8')))
  expect(await contentsOf(again)).toEqual(await contentsOf(parts))
  const out = join(await temporaryDirectory(), 'parts')
  const child = spawn(process.execPath, [command, 'split', '--shape', shape, '--out', out])
  child.stdin.end(csv('utf8'))
  expect(await once(child, 'close')).toEqual([0, null])
  expect(await contentsOf(out)).toEqual(await contentsOf(parts))

  const hex = await split(shape, '--value-encoding', 'hex', await dataFile('list.csv', csv('hex')))
  const built = await build(shape, 1, await partsOf(parts, 1))
  const ofHex = await build(shape, 1, await partsOf(hex, 1), '--value-encoding', 'hex')
  expect(await ofHex.printed()).toBe(await built.printed())
})

test('a run that is killed at any change of the disk leaves whole parts alone, and another run makes the rest', async () => {
  const shape = await shapeFile({ shards: 2 })
  const list = await dataFile('list.jsonl', jsonl(LIST))
  const whole = await split(shape, list)
  const child = fileURLToPath(new URL('children/split-and-die.mjs', import.meta.url))
  const isPart = (name: string) => /^\/\d\//.test(name)
  const run = async (fatal: number, out: string) =>
    await started(process.execPath, [child, `${fatal}`, shape, out, list]).finished
  const { stdout } = await run(0, join(await temporaryDirectory(), 'parts'))
  const changes = Number(/^changes: (\d+)$/m.exec(stdout)![1])
  expect(changes).toBe(1 + 2 + 2 + 2 * 2 + 1)
  const expected = await contentsOf(whole)
  const out = join(await temporaryDirectory(), 'parts')
  for (let fatal = changes; fatal > 0; fatal--) {
    const { code } = await run(fatal, out)
    expect(code).toBe(null)
    for (const [name, bytes] of await contentsOf(out)) if (isPart(name)) expect(bytes).toEqual(expected.get(name))
  }
  await run(0, out)
  expect(new Map([...(await contentsOf(out))].filter(([name]) => isPart(name)))).toEqual(expected)
})

test('foreign keys, keys that stand twice and values of another length are refused, with file and line', async () => {
  const shape = await shapeFile()
  const list = jsonl(LIST)
  const parts = await split(shape, await dataFile('list.jsonl', list))
  const [own] = await partsOf(parts, 1)
  const [foreign] = await partsOf(parts, 3)
  const mixed = await build(shape, 1, [own!, foreign!])
  await mixed.refused(`${foreign}:2: expected keys of shard 1, got one of shard 3; take the parts`)
  const [key] = await keysIn([own!])
  const line = (await readFile(own!, 'utf8')).split('\n').findIndex(each => each.startsWith(`${key},`))
  const twice = await dataFile('twice.jsonl', jsonl([[key!, '00000']]))
  await (await build(shape, 1, [own!, twice])).refused(
    `${twice}:1: the same key as on line ${line + 1} of ${own}; delete`,
  )
  for (const value of ['1234', '123456', '0a0b0c0d0e']) {
    const hex = value.length === 10 ? 'if it is hex, give --value-encoding hex; otherwise ' : ''
    const other = await dataFile('other.csv', `key,value\n${key},${value}\n`)
    const reason = `${other}:2: expected a value of 5 bytes, got ${value.length}; ${hex}plan a shape with --variable`
    await (await build(shape, 1, [other])).refused(reason)
    await expectRefused(keyhush('split', '--shape', shape, '--out', join(parts, '../more'), other), reason)
  }
  expect(await readdir(join(parts, '..'))).not.toContain('more')
  await expectRefused(
    keyhush('split', '--shape', shape, '--out', parts, '--format', 'bin', own!),
    'expected a format with keys',
  )
})

test('values that differ in length need a shape that says so', async () => {
  const shape = await shapeFile({}, '--variable')
  const list = await dataFile('list.csv', 'key,value\na,1\nb,12345\nc,\n')
  await split(shape, list)
  const reason = 'expected a value of at most 5 bytes, got 6; plan a shape with longer values'
  const longer = await dataFile('longer.csv', 'key,value\na,123456\n')
  await expectRefused(keyhush('split', '--shape', shape, '--out', join(longer, '../parts'), longer), reason)
})

test('a shape without the room that it promises is refused, and so are too many keys', async () => {
  const shape = await shapeFile()
  const parts = await split(shape, await dataFile('list.jsonl', jsonl(LIST)))
  const { directoryRoom, directoryBlockBytes } = JSON.parse(await readFile(shape, 'utf8'))
  const changed = async (change: object) => {
    const other = await dataFile(
      'shape.json',
      JSON.stringify({ ...JSON.parse(await readFile(shape, 'utf8')), ...change }),
    )
    return await build(other, 0, await partsOf(parts, 0))
  }
  await (await changed({ directoryRoom: directoryRoom + 5 })).refused(
    `expected blocks of ${directoryBlockBytes} bytes with room for ${directoryRoom + 5} added keys, but one needs`,
  )
  await (await changed({ directoryBlockBytes: 256 })).refused('plan another shape')
  await (await changed({ valueBytes: 48 })).refused('expected a value of 48 bytes, got 5')
  const few = { ...JSON.parse(await readFile(shape, 'utf8')), partitionRecords: 128, blockRecords: 1, valueBytes: 240 }
  const long = jsonl([...LIST].map(([key]) => [key, 'x'.repeat(240)]))
  const small = await dataFile('shape.json', JSON.stringify(few))
  const full = await split(small, await dataFile('list.jsonl', long))
  await (await build(small, 0, await partsOf(full, 0))).refused('expected at most 128 keys in a shard, got')
})

test('a shape that nobody planned is refused, and says what is wrong', async () => {
  for (const [change, reason] of [
    [{ shards: 3 }, 'expected "shards" to be a power of two from 2 to 256, got 3; take the file'],
    [{ shards: undefined }, '"shards"'],
    [{ partitions: 65_536 }, '"partitions"'],
    [{ partitions: 32_768 }, 'expected fewer than 2^32 slots in 65536 partitions'],
    [{ partitionRecords: 1024 }, 'expected 128 to 65536 blocks in a partition, got 64'],
    [{ blockRecords: 8 }, 'expected blocks of at least 256 bytes, got 168'],
    [{ variable: 1 }, '"variable"'],
    [{ directorySeed: 'ABCD' }, '"directorySeed"'],
    [{ directoryBlockLog: 6 }, '"directoryBlockLog"'],
    [{ more: 1 }, 'got the member "more"'],
    [{ more: {} }, 'is not text or a number'],
  ] as const) {
    const shape = await shapeFile(change)
    await expectRefused(keyhush('split', '--shape', shape, '--out', join(shape, '../parts'), shape), reason)
  }
})

test('options that a shape decides are refused, and so is half of a shard', async () => {
  const shape = await shapeFile()
  const list = await dataFile('list.jsonl', jsonl(LIST))
  for (const [args, reason] of [
    [['--pack', '2'], '--pack: expected --shape alone to decide what a shard has, got both; leave --pack out'],
    [['--max-value-bytes', '9'], '--max-value-bytes: expected --shape alone'],
    [['--proofs', 'merkle'], '--proofs: expected --shape alone'],
    [['--filter'], '--filter: expected --shape alone'],
    [['--format', 'bin'], '--shape: expected a format with keys'],
  ] as const) {
    await (await build(shape, 0, [list], ...args)).refused(reason)
  }
  await expectRefused(
    keyhush('build', list, '--shape', shape, '--out', join(list, '../dataset')),
    '--shape and --shard go together',
  )
  await (await build(shape, SHARDS, [list])).refused(`expected --shard from 0 to ${SHARDS - 1}, got ${SHARDS}`)
})

test('a shape is planned once, with a seed of its own, and says what shards cost', async () => {
  const out = join(await temporaryDirectory(), 'shape.json')
  const args = ['--keyed', '--records', '1000000000', '--value-bytes', '20', '--shards', '64']
  const printed = await runKeyhush('plan', ...args, '--out', out)
  expect(printed).toContain('1000000000 keyed records of 36 bytes in 64 shards\n')
  expect(printed).toContain('A shard: 32 partitions of 524288, 8 a block; room for 16777216 records\n')
  expect(printed).toContain('11 connections a process, so 704 for 64 shards; max_connections is 100 unless')
  const { directorySeed, ...shape } = JSON.parse(await readFile(out, 'utf8'))
  expect(JSON.parse(await runKeyhush('plan', ...args, '--json')).shape).toEqual({
    ...shape,
    directorySeed: expect.not.stringContaining(directorySeed),
  })
  await expectRefused(keyhush('plan', ...args, '--out', out), '--out: expected a new file, got one that is there')
  await expectRefused(keyhush('plan', ...args.slice(1)), '--shards: expected --keyed')
  await expectRefused(keyhush('plan', ...args.slice(0, -2), '--out', `${out}.2`), '--out: expected --shards too')
  await expectRefused(keyhush('plan', ...args.slice(0, -1), '3'), 'It must be a power of two from 2 to 256.')
  await expectRefused(keyhush('plan', ...args.slice(0, -1), '2'), 'in 2 shards; give more --shards')
  const size = (records: number, valueBytes: number) => ['--records', `${records}`, '--value-bytes', `${valueBytes}`]
  const planned = (...size: string[]) => keyhush('plan', '--keyed', '--shards', '2', ...size)
  await expectRefused(planned(...size(2 ** 32, 20)), '--records: expected 1 to 4294967295, got 4294967296')
  await expectRefused(planned(...size(0, 20)), '--records: expected 1 to 4294967295, got 0')
  await expectRefused(planned(...size(120_000_000, 14)), 'expected at most 4.3 GB for a shard while it is loaded, got')
})

test('a shard of another manifest is not loaded: its directory follows from its keys and its shape', async () => {
  const shape = await shapeFile()
  const parts = await split(shape, await dataFile('list.jsonl', jsonl(LIST)))
  const { out, printed } = await build(shape, 1, await partsOf(parts, 1))
  await printed()
  const path = join(out, 'manifest.bin')
  const original = await readFile(path)
  const { records, directoryBytes, directoryBlockLog, directoryBlockBytes, directorySeed } = decodeManifest(original)
  for (const change of [
    { records: records - 1 },
    { directoryBytes: directoryBytes + 1 },
    { directoryBlockLog: directoryBlockLog + 1 },
    { directoryBlockBytes: directoryBlockBytes + 32 },
    { directorySeed: directorySeed.map(byte => byte ^ 1) },
    { directoryCommitment: new Uint8Array(32).fill(1) },
  ]) {
    await writeFile(path, encodeManifest({ ...decodeManifest(original), ...change }))
    await expect(loadDataset(out)).rejects.toMatchObject({ name: 'DatasetError' })
  }
  await writeFile(path, original)
  ;(await loadDataset(out)).close()
})

test('a shard changes as any database: what is added takes an empty slot, and nothing grows', async () => {
  const shape = await shapeFile({}, '--variable')
  const parts = await split(shape, await dataFile('list.jsonl', jsonl(LIST)))
  const { out, printed } = await build(shape, 1, await partsOf(parts, 1))
  await printed()
  const shard = await opened(await createIn(new MemoryStorage(), out))
  const before = shard.newest.manifest
  await shard.publish(batchOn(shard, [{ op: 'add', key: 'new', value: '1' }]))
  const { manifest } = shard.newest
  expect([manifest.epoch, manifest.records, manifest.partitions]).toEqual([2, before.records, before.partitions])
  expect(toHex(manifest.directorySeed)).toBe(toHex(before.directorySeed))
})
