// `keyhush publish --folder`: a folder for a static host takes the place of a server. What clients make of it is in
// tests/e2e/static.all.test.ts.

import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs/promises'
import { cp, mkdir, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { open } from '@keyhush/client'
import { decodeManifest, EVENT_BYTES, fromHex, parseEvent, parseInfo, signedBytes, toHex } from '@keyhush/protocol'
import { decodeManifests } from '@keyhush/protocol/chain'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { NEEDS_LINUX, NEEDS_POSIX } from '../../tests/support/needs.js'
import { filesIn, type StaticHost, startStaticHost } from '../../tests/support/static-host.js'
import { sampled } from '../../tests/support/thorough.js'
import type { Disk } from '../dist/base/whole-file.js'
import { createKeyFile, openLmdb, UpdatableDatabase } from '../dist/index.js'
import { writeFolder } from '../dist/publisher/folder.js'
import { expectRefused, keyhush } from './command.js'
import { builtDirectory, type Choices, contentsOf, temporaryDirectory } from './helpers.js'
import { KEYED } from './updatable-helpers.js'

let host: StaticHost
beforeAll(async () => {
  host = await startStaticHost(() => undefined)
})
afterAll(() => host.close())

const WEEK = ['--valid-days', '7']
const edit = (value: string) => [{ op: 'edit', key: 'one', value }]

/** A publisher with a folder, of which nothing is published yet. */
async function rig(choices: Choices = {}) {
  const dir = await temporaryDirectory()
  const path = (name: string) => join(dir, name)
  const { publicKey } = await createKeyFile(path('key'))
  const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20, ...choices })
  const hash = toHex(blake3(await readFile(join(dataset, 'manifest.bin'))))
  const publish = async (operations: readonly object[] | undefined, ...args: string[]) => {
    if (operations !== undefined)
      await writeFile(path('batch'), operations.map(each => `${JSON.stringify(each)}\n`).join(''))
    const batch = operations === undefined ? [] : [path('batch')]
    const places = ['--folder', path('www'), '--store', path('own'), '--key', path('key')]
    return await keyhush('publish', ...places, ...args, ...batch)
  }
  return {
    path,
    dataset,
    publicKey,
    publish,
    begun: ['--dataset', dataset, '--trust-base', hash],
    www: (name: string) => readFile(path(join('www', name))),
    /** the database in the publisher's own copy */
    async own(): Promise<UpdatableDatabase> {
      const copy = await UpdatableDatabase.open(await openLmdb(path('own')))
      onTestFinished(() => copy.close())
      return copy
    },
    /** what a new client reads */
    async value(key: string, folder = path('www')): Promise<string | undefined> {
      host.files = filesIn(folder)
      const map = await open({ servers: [host.url], publisherKey: publicKey, storage: 'memory' })
      try {
        return await map.getText(key)
      } finally {
        await map.close()
      }
    },
  }
}

test('a list with marks has a filter, which follows', async () => {
  const { publish, begun, publicKey, path } = await rig({ filter: true })
  await publish(undefined, ...begun, ...WEEK)
  host.files = filesIn(path('www'))
  const map = await open({ servers: [host.url], publisherKey: publicKey, storage: 'memory', mode: 'filter' })
  onTestFinished(() => map.close())
  const excluded = () => ['one', 'two', 'four'].map(key => map.excludes(key))
  expect([map.filter?.state, excluded()]).toEqual(['ready', [false, false, true]])
  await publish(
    [
      { op: 'delete', key: 'two' },
      { op: 'add', key: 'four', value: 'x' },
    ],
    ...WEEK,
  )
  host.files = filesIn(path('www'))
  await map.sync()
  expect([map.epoch, excluded()]).toEqual([3, [false, true, false]])
})

test('the folder has all that a client needs; a batch makes the next epoch, and the same again changes nothing', async () => {
  const { publish, begun, www, value, publicKey, path } = await rig()
  expect(await publish(undefined, ...begun, ...WEEK)).toMatchObject({ code: 0, stderr: '' })
  expect(await value('one')).toBe('first')
  expect(await publish(edit('x'), ...WEEK)).toMatchObject({ code: 0, stderr: '' })
  expect(await value('one')).toBe('x')

  const manifest = decodeManifest(await www('v1/manifest'))
  expect(manifest.epoch).toBe(3)
  const chain = decodeManifests(await www('v1/manifests'))
  expect(chain.map(({ manifest: { epoch } }) => epoch)).toEqual([1, 2, 3])
  const info = parseInfo(JSON.parse((await www('v1/info')).toString()))
  expect(info.offers).toEqual({
    proofs: [],
    updates: true,
    push: false,
    blobs: true,
    fence: false,
    instant: false,
    single: false,
    oneServer: false,
    history: 2,
  })
  for (const { manifest, bytes } of chain.slice(1)) {
    const { signature, ...of } = info.signatures.find(({ epoch }) => epoch === manifest.epoch)!
    expect(of).toEqual({ publicKey: toHex(publicKey), generation: 1, epoch: manifest.epoch })
    expect(ed25519.verify(fromHex(signature), signedBytes(bytes), publicKey)).toBe(true)
  }
  const line = (await www('v1/events')).toString()
  expect([line.length, parseEvent(line).epoch]).toEqual([EVENT_BYTES, 3])
  const headers = (await www('_headers')).toString()
  expect(headers).toContain('/*\n  Access-Control-Allow-Origin: *\n')
  expect(headers).toMatch(/\/v1\/blobs\/\*\n.*\n {2}Cache-Control: .*immutable\n/)
  expect((await readdir(path('www'))).sort()).toEqual(['.nojekyll', '.unneeded', '404.html', '_headers', 'v1'])

  const before = await contentsOf(path('www'))
  expect((await publish(edit('x'), ...WEEK)).stdout).toContain('(published before)')
  expect(await publish(undefined)).toMatchObject({ code: 0 })
  expect(await contentsOf(path('www'))).toEqual(before)
})

test('a web server of another user may read the folder, whatever the umask', NEEDS_POSIX, async () => {
  const { publish, begun, path } = await rig()
  const umask = process.umask(0o077)
  onTestFinished(() => void process.umask(umask))
  expect(await publish(undefined, ...begun, ...WEEK)).toMatchObject({ code: 0 })
  const names = (await readdir(path('www'), { recursive: true })).map(name => join('www', name))
  const modes = await Promise.all(['www', ...names].map(async name => (await fs.stat(path(name))).mode.toString(8)))
  expect([...new Set(modes)].sort()).toEqual(['100644', '40755'])
  expect((await fs.stat(path('own'))).mode.toString(8)).toBe('40700')
})

test('an expiry is demanded, of a batch and of what is there; without a batch it is renewed', async () => {
  const { publish, begun, www } = await rig()
  await expectRefused(publish(undefined, ...begun), '--valid-days')
  await expectRefused(publish(edit('x'), ...begun), 'or give --no-expiry')
  expect(await publish(edit('x'), ...begun, '--no-expiry')).toMatchObject({ code: 0 })
  expect(decodeManifest(await www('v1/manifest')).expires).toBe(0)
  await expectRefused(publish(undefined), '--valid-days')
  const soon = Date.now() / 1000 + 6 * 86_400
  for (const epoch of [3, 4]) {
    expect(await publish(undefined, ...WEEK)).toMatchObject({ code: 0 })
    const manifest = decodeManifest(await www('v1/manifest'))
    expect([manifest.epoch, manifest.expires > soon]).toEqual([epoch, true])
  }
})

test('no epoch is signed that never expires: the host could show it to first visitors for ever', async () => {
  const { publish, begun, path, www } = await rig()
  const expiries = async () => {
    const { signatures } = parseInfo(JSON.parse((await www('v1/info')).toString()))
    const chain = decodeManifests(await www('v1/manifests'))
    return chain.map(({ manifest: { epoch, expires } }) => [expires > 0, signatures.some(of => of.epoch === epoch)])
  }
  const renewed = [
    [false, false],
    [true, true],
  ]
  await writeFile(path('same.csv'), KEYED)
  const firsts: readonly (readonly [operations: object[] | undefined, ...list: string[]])[] = [
    [undefined],
    [edit('x')],
    [undefined, '--list', path('same.csv')],
  ]
  for (const [i, [operations, ...list]] of firsts.entries()) {
    await rm(path('www'), { recursive: true, force: true })
    const places = ['--store', path(`own ${i}`), '--record', path(`record ${i}`)]
    expect(await publish(operations, ...begun, ...WEEK, ...list, ...places)).toMatchObject({ code: 0 })
    expect(await expiries()).toEqual(renewed)
  }
  const next = ['build', path('same.csv'), '--out', path('next'), '--succeeds', path('www/v1/manifest')]
  expect(await keyhush(...next, '--max-value-bytes', '30', '--record', path('key.record'))).toMatchObject({ code: 0 })
  expect(await publish(undefined, ...WEEK, '--dataset', path('next'))).toMatchObject({ code: 0 })
  expect(await expiries()).toEqual(renewed)

  // One that was chosen to have no expiry does not pass for renewed.
  const other = await rig()
  expect(await other.publish(edit('x'), ...other.begun, '--no-expiry')).toMatchObject({ code: 0 })
  await expectRefused(other.publish(edit('x'), ...WEEK), 'epoch 2 would never expire. Nothing was sent. To renew it', 5)
})

test('a folder excludes servers, needs a copy, and leaves alone what is of the host', async () => {
  const { publish, begun, path, www } = await rig()
  await expectRefused(publish(undefined, '--servers', 'https://a.example'), 'expected one of them, got both')
  await expectRefused(keyhush('publish', '--key', path('key')), 'expected one of them, got none')
  await expectRefused(
    keyhush('publish', '--folder', path('www'), '--key', path('key')),
    'expected --store with a folder',
  )
  await mkdir(path('www'))
  await writeFile(path('www/404.html'), 'mine')
  expect(await publish(undefined, ...begun, ...WEEK)).toMatchObject({ code: 0 })
  expect((await www('404.html')).toString()).toBe('mine')
  await expectRefused(publish(undefined, ...WEEK, '--folder', path('key')), 'expected a folder that can be written', 3)
})

test('nothing goes back: not the copy behind the record, nor the folder behind itself', async () => {
  const { publish, begun, path, dataset, www } = await rig()
  expect(await publish(undefined, ...begun, ...WEEK)).toMatchObject({ code: 0 })
  await cp(path('own'), path('old'), { recursive: true })
  for (const value of ['x', 'y']) expect(await publish(edit(value), ...WEEK)).toMatchObject({ code: 0 })
  const before = await contentsOf(path('www'))
  await expectRefused(publish(edit('z'), ...WEEK, '--store', path('old')), 'got epoch 4. Nothing was published', 4)
  const anew = ['--store', path('anew'), '--dataset', dataset]
  await expectRefused(publish(edit('z'), ...WEEK, ...anew, '--folder', path('other')), 'they have gone back', 4)
  expect(await contentsOf(path('www'))).toEqual(before)

  // Another history of as many epochs, and another database.
  const [own, other] = [path('own'), await rig()]
  await cp(path('old'), path('fork'), { recursive: true })
  const elsewhere = ['--record', path('other record'), '--folder', path('fork www'), '--store', path('fork')]
  for (const value of ['1', '2']) expect(await publish(edit(value), ...WEEK, ...elsewhere)).toMatchObject({ code: 0 })
  await expectRefused(
    publish(edit('z'), ...WEEK, '--store', path('fork')),
    'got another manifest. Nothing was published',
    4,
  )
  const foreign = await builtDirectory('b.csv', 'key,value\na,1\n')
  const hash = toHex(blake3(await readFile(join(foreign, 'manifest.bin'))))
  const theirs = ['--dataset', foreign, '--trust-base', hash, '--folder', path('www')]
  await expectRefused(other.publish(undefined, ...theirs, ...WEEK), 'expected this database, got another one')
  expect(await contentsOf(path('www'))).toEqual(before)

  // A cut manifest is of nobody, and is written anew.
  await writeFile(path('www/v1/manifest'), (await www('v1/manifest')).subarray(0, 300))
  expect(await publish(undefined, '--store', own)).toMatchObject({ code: 0 })
  expect(await contentsOf(path('www'))).toEqual(before)
})

test('a folder that contains the key is refused, by any way to it: a host would show it', async () => {
  const { publish, begun, path } = await rig()
  await symlink(path('.'), `${path('.')}-link`)
  onTestFinished(() => rm(`${path('.')}-link`))
  for (const folder of [path('.'), `${path('.')}-link`, join(path('.'), '..')]) {
    await expectRefused(publish(undefined, ...begun, ...WEEK, '--folder', folder), 'expected a folder without secrets')
    expect(await readdir(folder)).not.toContain('v1')
  }
})

test('a clock that went back publishes nothing: its expiry may be over', async () => {
  const { publish, begun, path, www } = await rig()
  expect(await publish(undefined, ...begun, ...WEEK)).toMatchObject({ code: 0 })
  const before = await www('v1/manifest')
  const later = new Date(Date.now() + 2 * 3600 * 1000)
  await utimes(path('www/v1/manifest'), later, later)
  await expectRefused(publish(edit('x'), ...WEEK), 'expected a clock that goes on')
  expect(await www('v1/manifest')).toEqual(before)
  await utimes(path('www/v1/manifest'), new Date(), new Date())
  expect(await publish(edit('x'), ...WEEK)).toMatchObject({ code: 0, stderr: '' })
})

test('another key than that of the newest epoch is told of; one of both is enough', async () => {
  const { publish, begun, path } = await rig()
  expect(await publish(undefined, ...begun, ...WEEK)).toMatchObject({ code: 0, stderr: '' })
  await createKeyFile(path('new'))
  const record = ['--record', path('key.record')]
  const both = await publish(edit('x'), ...WEEK, ...record, '--key', path('new'))
  expect(both).toMatchObject({ code: 0, stderr: '' })
  const where = ['--folder', path('www'), '--store', path('own'), ...record]
  await createKeyFile(path('third'))
  const other = await keyhush('publish', ...where, '--key', path('third'), ...WEEK)
  expect(other).toMatchObject({ code: 0, stderr: expect.stringContaining('expected a key that signed epoch 3') })
})

test('a file for --list that cannot be read, or has no list in it, changes nothing, and the error says why', async () => {
  const { publish, begun, path } = await rig()
  expect(await publish(undefined, ...begun, ...WEEK)).toMatchObject({ code: 0 })
  const before = await contentsOf(path('www'))
  const files: readonly (readonly [what: string, content: string | Buffer, words: string])[] = [
    ['UTF-16 with a mark', Buffer.from(`\ufeff${KEYED}`, 'utf16le'), 'expected UTF-8'],
    ['UTF-16 without', Buffer.from(KEYED, 'utf16le'), 'expected UTF-8'],
    ['compressed', gzipSync(KEYED), 'expected UTF-8'],
    ['blank lines at its end', `${KEYED}\n\n`, 'remove empty lines'],
    ['semicolons', KEYED.replaceAll(',', ';'), 'separated by a comma'],
    ['a key twice', `${KEYED}one,again\n`, 'the same key as on line'],
    ['a key that is too long', `${KEYED}${'k'.repeat(5000)},x\n`, 'a key of at most 4096 bytes, got 5000'],
    ['empty', '', 'got a file that is empty'],
    ['a header alone', 'key,value\n', 'holds no records'],
  ]
  for (const [what, content, words] of files) {
    await writeFile(path('new.csv'), content)
    const refused = await publish(undefined, ...WEEK, '--list', path('new.csv'))
    expect([what, refused]).toEqual([
      what,
      expect.objectContaining({ code: 1, stderr: expect.stringContaining(words) }),
    ])
  }
  await mkdir(path('folder.csv'))
  const list = (file: string, ...args: string[]) => publish(undefined, ...WEEK, '--list', file, ...args)
  await expectRefused(list(path('folder.csv')), 'got a folder, a pipe or a device')
  await expectRefused(list(path('gone.csv')), 'got none of that name')
  expect(await contentsOf(path('www'))).toEqual(before)
})

test('a pipe for --list is refused at once, and a disk that fails is named', NEEDS_LINUX, async () => {
  const { publish, begun, path } = await rig()
  expect(await publish(undefined, ...begun, ...WEEK)).toMatchObject({ code: 0 })
  execFileSync('mkfifo', [path('pipe.csv')])
  await expectRefused(publish(undefined, ...WEEK, '--list', path('pipe.csv')), 'got a folder, a pipe or a device')
  const failing = publish(undefined, ...WEEK, '--list', '/proc/self/mem', '--format', 'csv')
  await expectRefused(failing, '/proc/self/mem: expected a file that can be read, got EIO')
})

test('the same list in other bytes changes nothing; keys in two normal forms of Unicode are two', async () => {
  const { publish, begun, path, value } = await rig()
  expect(await publish(undefined, ...begun, ...WEEK)).toMatchObject({ code: 0 })
  const list = async (text: string, ...args: string[]) => {
    await writeFile(path('new.csv'), text)
    return (await publish(undefined, ...WEEK, '--list', path('new.csv'), ...args)).stdout
  }
  const quoted = KEYED.replaceAll(/([^,\n]+)/g, '"$1"')
  for (const same of [KEYED.replaceAll('\n', '\r\n'), `\ufeff${KEYED}`, quoted]) {
    expect(await list(same, '--dry-run')).toContain('no changes')
  }
  expect(await list(`${KEYED}caf\u00e9,one\ncafe\u0301,two\n`)).toContain('adds: 2')
  expect([await value('caf\u00e9'), await value('cafe\u0301')]).toEqual(['one', 'two'])
})

test('an epoch is signed once: a copy that was restored is held to what the host serves, to the folder and to the record', async () => {
  const { publish, begun, path, www, publicKey, value } = await rig()
  expect(await publish(undefined, ...begun, ...WEEK)).toMatchObject({ code: 0 })
  for (const name of ['own', 'key.record']) await cp(path(name), path(`backup/${name}`), { recursive: true })
  expect(await publish(edit('after the backup'), ...WEEK)).toMatchObject({ code: 0 })
  host.files = filesIn(path('www'))
  const restored = ['--store', path('backup/own'), '--record', path('backup/key.record'), '--folder', path('anew')]
  const url = ['--url', host.url]
  await expectRefused(publish(edit('z'), ...WEEK, ...restored, ...url), 'got epoch 3. Nothing was published', 4)
  expect(await readdir(path('.'))).not.toContain('anew')
  // As the page says: from an export, with its hash, which a record from a backup does not have.
  const exporting = ['--server', host.url, '--publisher-key', toHex(publicKey), '--out', path('exported')]
  const exported = await keyhush('export', ...exporting)
  const trusted = /manifest hash: (\w{64})/.exec(exported.stdout)![1]!
  const again = ['--record', path('backup/key.record'), '--folder', path('from export'), ...url]
  const from = ['--store', path('from export own'), '--dataset', path('exported'), '--trust-base', trusted]
  expect(await publish(edit('on'), ...WEEK, ...again, ...from)).toMatchObject({ code: 0, stderr: '' })
  expect(await value('one', path('from export'))).toBe('on')
  host.files = filesIn(path('www'))
  expect(await publish(edit('on'), ...WEEK, ...url)).toMatchObject({ code: 0 })
  expect(decodeManifest(await www('v1/manifest')).epoch).toBe(4)
  await expectRefused(keyhush('publish', '--key', path('key'), '--servers', host.url, ...url), 'expected --folder too')

  // Two copies, and one record: of two runs at once one signs.
  await cp(path('own'), path('second'), { recursive: true })
  await cp(path('key.record'), path('before'), { recursive: true })
  expect(await publish(edit('first'), ...WEEK)).toMatchObject({ code: 0 })
  const second = ['--store', path('second'), '--folder', path('anew')]
  expect(await publish(edit('second'), ...WEEK, ...second, '--record', path('before'))).toMatchObject({ code: 0 })
  await rm(path('anew'), { recursive: true })
  await expectRefused(publish(undefined, ...second), 'of your record', 4)
  expect(await readdir(path('.'))).not.toContain('anew')

  // A generation that was built for an epoch which a batch has made since.
  await writeFile(path('list.csv'), KEYED)
  const build = ['build', path('list.csv'), '--out', path('next'), '--succeeds', path('www/v1/manifest')]
  expect(await keyhush(...build)).toMatchObject({ code: 0 })
  expect(await publish(edit('meanwhile'), ...WEEK)).toMatchObject({ code: 0 })
  const before = await contentsOf(path('www'))
  const hash = toHex(blake3(await readFile(path('next/manifest.bin'))))
  const third = ['--store', path('third'), '--dataset', path('next'), '--trust-base', hash, ...WEEK]
  await expectRefused(publish(undefined, ...third), 'expected epoch 6 of your own copy, got another', 4)
  await expectRefused(publish(undefined, ...third, '--folder', path('anew')), 'of your record', 4)
  expect(await contentsOf(path('www'))).toEqual(before)
})

test('a new file of the list each night: its changes, or a later expiry; a dry run writes nothing', async () => {
  const { publish, begun, path, www, value } = await rig()
  expect(await publish(undefined, ...begun, ...WEEK)).toMatchObject({ code: 0 })
  const before = await contentsOf(path('www'))
  await writeFile(path('new.csv'), `${KEYED.replace('first', 'changed')}four,fourth\n`)
  const list = ['--list', path('new.csv')]
  await expectRefused(publish(undefined, ...list), '--valid-days')
  expect(await publish(undefined, ...list, ...WEEK, '--dry-run')).toMatchObject({ code: 0 })
  expect(await contentsOf(path('www'))).toEqual(before)
  expect(await publish(undefined, ...list, ...WEEK)).toMatchObject({ code: 0 })
  expect([await value('one'), await value('four')]).toEqual(['changed', 'fourth'])
  const { epoch, expires } = decodeManifest(await www('v1/manifest'))
  expect(await publish(undefined, ...list, '--valid-days', '8')).toMatchObject({ code: 0 })
  const renewed = decodeManifest(await www('v1/manifest'))
  expect([renewed.epoch, renewed.expires > expires]).toEqual([epoch + 1, true])
  await writeFile(path('new.csv'), `${KEYED}four,four`) // cut off
  const cut = await publish(undefined, ...list, ...WEEK, '--dry-run')
  expect(cut).toMatchObject({ code: 0, stderr: expect.stringContaining('is the file whole?') })
})

test('a copy that is lost begins from what the host serves', async () => {
  const { publish, begun, path, publicKey, value } = await rig()
  for (const args of [begun, []])
    expect(await publish(edit(`${args.length}`), ...args, ...WEEK)).toMatchObject({ code: 0 })
  host.files = filesIn(path('www'))
  const exporting = ['--server', host.url, '--publisher-key', toHex(publicKey), '--out', path('exported')]
  expect(await keyhush('export', ...exporting)).toMatchObject({ code: 0, stderr: '' })
  const anew = ['--store', path('anew'), '--dataset', path('exported')]
  expect(await publish(edit('z'), ...WEEK, ...anew)).toMatchObject({ code: 0, stderr: '' })
  expect(await value('one')).toBe('z')
})

test('a value that has no room: the line that it names builds the next generation, which another store publishes', async () => {
  const { publish, begun, path, value } = await rig()
  expect(await publish(undefined, ...begun, ...WEEK)).toMatchObject({ code: 0 })
  const long = 'x'.repeat(30)
  await writeFile(path('new.csv'), `key,value\none,${long}\n`)
  const refused = await publish(undefined, '--list', path('new.csv'), ...WEEK)
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('another --store') })
  const build = /`keyhush (build [^`]*)`/.exec(refused.stderr)![1]!
  const next = build.replace('--out next', `--out ${path('next')}`).split(' ')
  expect(await keyhush(...next, '--record', path('key.record'))).toMatchObject({ code: 0 })
  const anew = ['--folder', path('www'), '--store', path('another'), '--key', path('key'), '--dataset', path('next')]
  expect(await keyhush('publish', ...anew, ...WEEK)).toMatchObject({ code: 0 })
  expect(await value('one')).toBe(long)
})

/** Lets hours pass since blobs of a folder ceased to be needed. */
async function passHours(folder: string, hours: number): Promise<void> {
  const note = join(folder, '.unneeded')
  const entries = Object.entries(JSON.parse(await readFile(note, 'utf8')) as Record<string, number>)
  const earlier = entries.map(([name, since]) => [name, since - hours * 3600 * 1000])
  await writeFile(note, JSON.stringify(Object.fromEntries(earlier)))
}

test('lists stay as long as their manifests; other blobs for two epochs, and a day, however often it runs and however old files are', async () => {
  const { publish, begun, path, www } = await rig()
  const blobs = async () => new Set(await readdir(path('www/v1/blobs')))
  const of = async () => {
    const { contentHashes, updateListHash, updateListBytes, partitions } = decodeManifest(await www('v1/manifest'))
    const hashes = Array.from({ length: partitions }, (_, q) => toHex(contentHashes.subarray(32 * q, 32 * (q + 1))))
    return { partitions: hashes, list: updateListBytes > 0 ? [toHex(updateListHash)] : [] }
  }
  const epochs: Awaited<ReturnType<typeof of>>[] = []
  const run = async (value: string, ...args: string[]) => {
    expect(await publish(edit(value), ...args, ...WEEK)).toMatchObject({ code: 0 })
    epochs.push(await of())
    // As of a folder that was copied.
    for (const [i, name] of [...(await blobs())].entries()) {
      const time = new Date(Date.now() - (i % 2) * 10 * 86_400_000)
      await utimes(path(`www/v1/blobs/${name}`), time, time)
    }
  }
  await run('0', ...begun)
  for (const value of ['1', '2', '3']) await run(value)
  const later = epochs.slice(2).flatMap(({ partitions }) => partitions)
  const [gone = '', ...others] = epochs[0]!.partitions.filter(name => !later.includes(name))
  expect(others).toEqual([])
  const all = [...(await blobs())]
  expect(all).toContain(gone)
  expect(await publish(undefined)).toMatchObject({ code: 0 })
  expect([...(await blobs())]).toEqual(all)

  for (const passed of [10, 20, 30]) {
    await passHours(path('www'), 10)
    await run(`${passed} hours`)
    expect([passed, (await blobs()).has(gone)]).toEqual([passed, passed < 24])
  }
  const lists = epochs.flatMap(({ list }) => list)
  expect(lists).toHaveLength(7)
  for (const name of [...lists, ...epochs.slice(-2).flatMap(({ partitions }) => partitions)])
    expect(await blobs()).toContain(name)

  // Without its note, or with that of a clock that was ahead, the day begins anew.
  const unneeded = async () => JSON.parse((await www('.unneeded')).toString()) as Record<string, number>
  const names = Object.keys(await unneeded())
  expect(names.length).toBeGreaterThan(0)
  const ahead = JSON.stringify(Object.fromEntries(names.map(name => [name, 2 * Date.now()])))
  for (const note of ['{', 'null', ahead]) {
    await passHours(path('www'), 100)
    await writeFile(path('www/.unneeded'), note)
    expect(await publish(undefined)).toMatchObject({ code: 0 })
    expect(Object.keys(await unneeded())).toEqual(names)
    expect(Math.max(...Object.values(await unneeded()))).toBeLessThanOrEqual(Date.now())
  }
})

/** A disk that is full, or gone, from its nth operation on. */
function failingDisk(last: number): { readonly disk: Disk; readonly operations: () => number } {
  let operations = 0
  const { mkdir, chmod, open, rename, rm } = fs
  const counted = Object.entries({ mkdir, chmod, open, rename, rm }).map(([name, work]) => [
    name,
    async (...given: unknown[]) => {
      if (operations++ >= last) throw new Error('killed')
      return await (work as (...given: unknown[]) => unknown)(...given)
    },
  ])
  const disk = Object.fromEntries(counted)
  return { disk: disk as Disk, operations: () => operations }
}

test('killed at any step, it leaves a folder that opens; the next run makes it whole', async () => {
  const { publish, begun, path, own, value } = await rig()
  for (const each of ['0', '1']) {
    const operations = [
      ...edit(each),
      { op: each === '0' ? 'add' : 'delete', key: 'four', ...(each === '0' && { value: '4' }) },
    ]
    expect(await publish(operations, ...(each === '0' ? begun : []), ...WEEK)).toMatchObject({ code: 0 })
  }
  await cp(path('www'), path('before'), { recursive: true })
  await passHours(path('before'), 25)
  expect(await publish([...edit('2'), { op: 'add', key: 'five', value: '5' }], ...WEEK)).toMatchObject({ code: 0 })
  const after = await contentsOf(path('www'))
  const copy = await own()
  const folder = path('killed')
  const whole = failingDisk(Number.POSITIVE_INFINITY)
  await cp(path('before'), folder, { recursive: true, preserveTimestamps: true })
  await writeFolder(folder, copy, whole.disk)
  const steps = Array.from({ length: whole.operations() }, (_, step) => step)
  expect(steps.length).toBeGreaterThan(20)
  const seen = new Set<string | undefined>()
  for (const from of ['before', 'nothing']) {
    for (const step of sampled(steps, 6)) {
      await rm(folder, { recursive: true })
      if (from === 'before') await cp(path('before'), folder, { recursive: true, preserveTimestamps: true })
      await expect(writeFolder(folder, copy, failingDisk(step).disk), `step ${step}`).rejects.toThrow('killed')
      if (from === 'before') {
        const came = await value('one', folder)
        expect(['1', '2'], `step ${step}`).toContain(came)
        expect(await value(came === '1' ? 'five' : 'four', folder)).toBe(undefined)
        seen.add(came)
      }
      await writeFolder(folder, copy)
      const files = await contentsOf(folder)
      for (const [name, bytes] of after)
        if (!/^\/(v1\/blobs|\.unneeded)/.test(name)) expect(files.get(name)).toEqual(bytes)
      expect([...files.keys()].filter(name => name.endsWith('.new'))).toEqual([])
      expect(await value('five', folder)).toBe('5')
    }
  }
  expect(seen).toEqual(new Set(['1', '2']))
})
