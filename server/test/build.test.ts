// A built dataset: deterministic, whole or absent, and exactly what its manifest says.

import { execFile } from 'node:child_process'
import { appendFileSync, truncateSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { contentHash, decodeManifest, toHex } from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import { describe, expect, onTestFinished, test } from 'vitest'
import { buildDataset, loadDataset } from '../dist/index.js'
import { expectRefused, keyhush } from './command.js'
import {
  builtDataset,
  builtDirectory,
  contentsOf,
  dataFile,
  emptyDirectory,
  pseudoRandom,
  temporaryDirectory,
} from './helpers.js'
import { command } from './spawned.js'

const words = (count: number) => Array.from({ length: count }, (_, i) => `word ${i}`)

describe('a build', () => {
  test('gives the same bytes every time, in one process or two', async () => {
    const csv = `key,value\n${words(1000)
      .map(word => `${word},${word.length}`)
      .join('\n')}\n`
    const data = await dataFile('a.csv', csv)
    const [first, second, third] = await Promise.all([
      builtDirectory('a.csv', csv),
      builtDirectory('b.csv', csv),
      temporaryDirectory().then(dir => join(dir, 'cli')),
    ])
    const { stdout } = await promisify(execFile)(process.execPath, [command, 'build', data, '--out', third])
    expect(await contentsOf(second)).toEqual(await contentsOf(first))
    expect(await contentsOf(third)).toEqual(await contentsOf(first))
    const manifest = await readFile(join(first, 'manifest.bin'))
    expect(stdout).toContain(`manifest hash: ${toHex(blake3(manifest))}\n`)
    expect(stdout).toContain(`database id: ${toHex(decodeManifest(manifest).databaseId)}\n`)
  })

  test('says what slot marks take', async () => {
    const [data, out] = [await dataFile('marked.csv', 'key,value\na,1\nb,2\n'), join(await temporaryDirectory(), 'cli')]
    const { stdout } = await promisify(execFile)(process.execPath, [command, 'build', data, '--filter', '--out', out])
    expect(stdout).toMatch(/^slot marks bytes: [1-9]\d*$/m)
  })

  test('leaves the headroom asked for, and refuses what no layout has', async () => {
    const planned = async (records: number, headroom?: number) => {
      const { manifest } = await builtDataset('a.txt', `${words(records).join('\n')}\n`, { headroom })
      return [manifest.records, manifest.partitions, manifest.partitionRecords]
    }
    expect(await planned(100)).toEqual([100, 16, 7])
    expect(await planned(100, 0)).toEqual([100, 16, 7])
    expect(await planned(100, 60)).toEqual([100, 16, 10])
    expect(await planned(100, 1_048_576 - 100)).toEqual([100, 16, 65_536])
    expect(await planned(100, 1_048_576 - 99)).toEqual([100, 17, 61_681])
    for (const headroom of [-1, 0.5, 2 ** 32, Number.NaN]) {
      await expect(planned(1, headroom)).rejects.toThrow('--headroom')
    }
    await expect(planned(1, 2 ** 32 - 1)).rejects.toThrow('no layout for 1 records')
  })

  test('names the database after the data, or after the name it is given', async () => {
    const id = async (contents: string, name?: string) =>
      toHex((await builtDataset('a.txt', contents, { name })).manifest.databaseId)
    expect(await id('a\n')).not.toBe(await id('b\n'))
    expect(await id('a\n', 'list')).toBe(await id('b\n', 'list'))
    expect(await id('a\n', 'list')).not.toBe(await id('a\n', 'other'))
    const context = new TextEncoder().encode('keyhush 2026-11 database id v1')
    expect(await id('a\n', 'list')).toBe(toHex(blake3(new TextEncoder().encode('list'), { context })).slice(0, 32))
  })

  test('writes every partition and the directory under their BLAKE3, and nothing else', async () => {
    const dir = await builtDirectory('a.txt', words(100).join('\n'))
    const manifest = decodeManifest(await readFile(join(dir, 'manifest.bin')))
    const expected = new Set(
      Array.from({ length: manifest.partitions }, (_, q) => toHex(contentHash(manifest, q))),
    ).add(toHex(manifest.directoryHash))
    expect(new Set(await readdir(join(dir, 'blobs')))).toEqual(expected)
    for (const name of expected) expect(toHex(blake3(await readFile(join(dir, 'blobs', name))))).toBe(name)
  })
})

test('the script of docs/operations/build.md makes a list; two spellings of one of its keys are refused', async () => {
  const directory = await temporaryDirectory()
  const page = await readFile(new URL('../../docs/operations/build.md', import.meta.url), 'utf8')
  const [, script] = /^## Keys that people type\n[\s\S]*?^```js\n([\s\S]*?)^```$/m.exec(page)!
  const person = "{ name: 'Jürgen Müller', size: 'Größe 42' }"
  expect(script).toContain(person)
  const built = async (text: string) => {
    await writeFile(join(directory, 'list.mjs'), text)
    await promisify(execFile)(process.execPath, ['list.mjs'], { cwd: directory })
    return await readFile(join(directory, 'list.jsonl'), 'utf8')
  }
  expect(await built(script!)).toBe('{"key":"jürgen müller","value":"Größe 42"}\n')
  const decomposed = person.toUpperCase().replace('NAME', 'name').replace('SIZE', 'size').normalize('NFD')
  await built(script!.replace(person, `${person}, ${decomposed}`))
  await expectRefused(
    keyhush('build', join(directory, 'list.jsonl'), '--out', join(directory, 'set')),
    'the same key as on line 1',
  )
})

describe('the directory it writes to', () => {
  test('may be impossible to make; nothing is left then either', async () => {
    const data = await dataFile('a.txt', 'alpha\n')
    await expect(buildDataset({ data, out: join(data, 'out') })).rejects.toThrow(/expected a directory, got a file/)
    expect(await readdir(dirname(data))).toEqual(['a.txt'])
  })

  test('may exist if it is empty, and its parents are made', async () => {
    const data = await dataFile('a.txt', 'alpha\n')
    await buildDataset({ data, out: await emptyDirectory() })
    await buildDataset({ data, out: join(await temporaryDirectory(), 'a/b/c') })
  })

  test('is refused if it holds another dataset, unless forced; the same one is written again', async () => {
    const out = await builtDirectory('a.txt', 'alpha\n')
    const before = await contentsOf(out)
    const same = await dataFile('b.txt', 'alpha\r\n')
    const other = await dataFile('c.txt', 'beta\n')
    await expect(buildDataset({ data: other, out })).rejects.toThrow(/another dataset; --force/)
    expect(await contentsOf(out)).toEqual(before)

    const [blob] = await readdir(join(out, 'blobs'))
    await writeFile(join(out, 'blobs', blob!), 'damaged')
    await buildDataset({ data: same, out })
    expect(await contentsOf(out)).toEqual(before)

    await buildDataset({ data: other, out, force: true })
    expect(await contentsOf(out)).not.toEqual(before)
    expect(await readdir(dirname(out))).toEqual(['dataset'])
  })

  test('is refused, forced or not, if it holds anything that is not a dataset', async () => {
    const data = await dataFile('a.txt', 'alpha\n')
    const out = await emptyDirectory()
    await writeFile(join(out, 'thesis.doc'), 'years of work')
    const withDataset = await builtDirectory('a.txt', 'alpha\n')
    await mkdir(join(withDataset, 'notes'))
    for (const force of [false, true]) {
      await expect(buildDataset({ data, out, force })).rejects.toThrow(/not a dataset/)
      await expect(buildDataset({ data, out: withDataset, force })).rejects.toThrow(/not a dataset/)
      await expect(buildDataset({ data, out: data, force })).rejects.toThrow(/expected a directory, got a file/)
    }
    expect(await readdir(out)).toEqual(['thesis.doc'])
  })
})

test.each([
  ['grows', (data: string) => appendFileSync(data, 'more,x\n')],
  ['is cut', (data: string) => truncateSync(data, 1024 * 1024)],
] as const)('a file that %s while it is read is refused', async (_, change) => {
  const rows = Array.from({ length: 300_000 }, (_, i) => `${i.toString().padStart(7, '0')}\n`)
  const data = await dataFile('a.txt', rows.join(''))
  const out = join(await temporaryDirectory(), 'dataset')
  let changed = false
  const onProgress = () => {
    if (!changed) change(data)
    changed = true
  }
  await expect(buildDataset({ data, out, onProgress })).rejects.toThrow(
    /expected a file that stays as it is.* 2400000;/,
  )
  expect(await readdir(dirname(out))).toEqual([])
})

test('`build --proofs` takes the kinds there are, and no other', async () => {
  const data = await dataFile('a.txt', 'alpha\n')
  const out = join(await temporaryDirectory(), 'out')
  const { stdout } = await keyhush('build', data, '--out', out, '--proofs', 'tags')
  expect(stdout).toMatch(/^proofs: tags$/m)
  expect(stdout).toMatch(/^answer bytes: 256$/m)
  expect(decodeManifest(await readFile(join(out, 'manifest.bin'))).suite).toBe(2)
  const both = await keyhush('build', data, '--out', `${out}2`)
  expect(both.stdout).toMatch(/^proofs: merkle, tags$/m)
  expect(both.stdout).toMatch(/^answer bytes: 256, 256$/m) // M = 1: proofs of no siblings
  await expectRefused(keyhush('build', data, '--out', out, '--proofs', 'none'), '--proofs')
})

test('without commitments a dataset has the same files but for its manifest', async () => {
  const contents = pseudoRandom(1000 * 7)
  const choices = { recordBytes: 7, partitions: 3 }
  const full = await builtDirectory('a.bin', contents, choices)
  const bare = await builtDirectory('a.bin', contents, { ...choices, proofs: 'tags' })
  const [files, bareFiles] = [await contentsOf(full), await contentsOf(bare)]
  expect([...bareFiles.keys()]).toEqual([...files.keys()])
  const differing = [...files.keys()].filter(name => !files.get(name)!.equals(bareFiles.get(name)!))
  expect(differing).toEqual(['/manifest.bin'])
  const dataset = await loadDataset(bare)
  onTestFinished(() => dataset.close())
  const { manifest } = dataset
  expect([manifest.suite, manifest.commitments.every(byte => byte === 0)]).toEqual([2, true])
  expect(manifest.contentHashes).toEqual(decodeManifest(files.get('/manifest.bin')!).contentHashes)
  // Commitments cannot be slipped in, nor taken away.
  for (const [dir, suite] of [
    [bare, 1],
    [full, 2],
  ] as const) {
    const bytes = await readFile(join(dir, 'manifest.bin'))
    bytes.writeUInt16LE(suite, 6)
    await writeFile(join(dir, 'manifest.bin'), bytes)
    await expect(loadDataset(dir)).rejects.toThrow(/commitment/)
  }
})

describe('loading', () => {
  const csv = `key,value\n${words(40)
    .map(word => `${word},${word}`)
    .join('\n')}\n`

  test('refuses any file with any bit changed, a byte less or a byte more, and names the file', async () => {
    const dir = await builtDirectory('a.csv', csv)
    for (const [name, original] of await contentsOf(dir)) {
      const path = join(dir, name)
      const at = Math.floor(original.length / 2)
      const flipped = Buffer.from(original)
      flipped[at]! ^= 0x40
      for (const damaged of [flipped, original.subarray(1), Buffer.concat([original, Buffer.of(0)]), Buffer.alloc(0)]) {
        await writeFile(path, damaged)
        // A manifest may be damaged so that it still reads and names blobs that are not there.
        const where = name.endsWith('manifest.bin') ? dir : path
        await expect(loadDataset(dir)).rejects.toMatchObject({
          name: 'DatasetError',
          file: expect.stringContaining(where),
        })
      }
      await writeFile(path, original)
    }
    ;(await loadDataset(dir)).close()
  })

  test('refuses any changed byte of a manifest, but for its id, generation, epoch and expiry', async () => {
    const dir = await builtDirectory('a.csv', csv)
    const path = join(dir, 'manifest.bin')
    const original = await readFile(path)
    const parameters = (at: number) => (at >= 8 && at < 32) || (at >= 56 && at < 64)
    // All of the header, and then a byte of every second hash.
    for (let at = 0; at < original.length; at += at < 224 ? 1 : 65) {
      const damaged = Buffer.from(original)
      damaged[at]! ^= 0x02
      await writeFile(path, damaged)
      if (parameters(at)) (await loadDataset(dir).catch(() => ({ close: () => undefined }))).close()
      else await expect(loadDataset(dir)).rejects.toMatchObject({ name: 'DatasetError' })
    }
  })

  test('refuses a directory that is not a dataset', async () => {
    await expect(loadDataset(await emptyDirectory())).rejects.toThrow(
      /manifest\.bin: expected a dataset's manifest, got ENOENT/,
    )
  })
})
