// A publisher's log and its witnesses (docs/protocol/witnesses.md): `keyhush log`, `keyhush publish --log`, and what stops them.

import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { open } from '@keyhush/client'
import { fromHex, parseInfo, toHex } from '@keyhush/protocol'
import {
  checkLogProof,
  leafHash,
  logEntry,
  parseCheckpoint,
  parseNote,
  parsePolicy,
  rootOf,
} from '@keyhush/protocol/log'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { filesIn, startStaticHost } from '../../tests/support/static-host.js'
import { sampled } from '../../tests/support/thorough.js'
import { verifies } from '../dist/base/ed25519.js'
import { createKeyFile, PublishError, PublisherLog, PublisherRecord, publish, readKeyFile } from '../dist/index.js'
import { Tiles } from '../dist/publisher/tiles.js'
import { startWitness, type TestWitness } from '../dist/testing/servers.js'
import { expectRefused, keyhush } from './command.js'
import { builtDirectory, temporaryDirectory } from './helpers.js'
import { KEYED, servedFrom } from './updatable-helpers.js'

const NAMES = ['a', 'b', 'c'] as const
let witnesses: readonly TestWitness[]
beforeAll(async () => {
  witnesses = await Promise.all(NAMES.map(name => startWitness(`${name}.example/w`)))
})
afterAll(() => Promise.all(witnesses.map(witness => witness.close())))

const edit = (value: string) => [{ op: 'edit', key: 'one', value }]
let rigs = 0
const QUORUM = 'group all 2 a b c\nquorum all\n'

/** Two servers, a publisher, and its log with three witnesses, of which two suffice. */
async function rig() {
  for (const witness of witnesses) witness.misbehave(undefined)
  const dir = await temporaryDirectory()
  const path = (name: string) => join(dir, name)
  const { publicKey } = await createKeyFile(path('key'))
  const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  const servers = await Promise.all([1, 2].map(() => servedFrom(dataset, publicKey)))
  const base = servers[0]!.updatable.newest.manifestHash
  const make = await keyhush('log', `example.com/keys${rigs++}`, '--dataset', dataset, '--out', path('log'))
  expect(make).toMatchObject({ code: 0, stderr: '' })
  const line = make.stdout.trim()
  for (const witness of witnesses) witness.add(line)
  const named = witnesses.map(({ key, url }, i) => `witness ${NAMES[i]} ${key} ${url}\n`).join('')
  const policy = `${line}\n${named}${QUORUM}`
  await writeFile(path('log/policy'), policy)
  const publish = async (operations: readonly object[] | undefined, ...args: string[]) => {
    const lines = operations?.map(each => `${JSON.stringify(each)}\n`).join('')
    if (lines !== undefined) await writeFile(path('batch'), lines)
    const urls = servers.map(({ url }) => url).join()
    const flags = ['--servers', urls, '--key', path('key'), '--trust-base', base, '--log', path('log'), ...args]
    return await keyhush('publish', ...flags, ...(lines === undefined ? [] : [path('batch')]))
  }
  const infoOf = async (i: number) => parseInfo((await servers[i]!.app.inject('/v1/info')).json())
  /** Of each server: the newest epoch, and who has signed the proof of it; undefined: it has none. */
  const proved = async () =>
    await Promise.all(
      servers.map(async ({ app, updatable }, i) => {
        const { manifest, manifestHash } = updatable.newest
        const { epoch, databaseId } = manifest
        const hash = (await infoOf(i)).signatures.find(each => each.epoch === epoch)?.proof
        if (hash === undefined) return [epoch, undefined]
        const text = (await app.inject(`/v1/blobs/${hash}`)).payload
        await checkLogProof(
          text,
          { databaseId, epoch, manifestHash: fromHex(manifestHash) },
          parsePolicy(policy),
          verifies,
        )
        return [epoch, NAMES.filter(name => text.includes(`\n— ${name}.example/w `)).join('')]
      }),
    )
  const signed = async () => (await infoOf(0)).signatures.length
  return { path, dataset, line, policy, publicKey, base, servers, publish, proved, signed }
}

test('each epoch comes into the log, and each server has its proof', async () => {
  const { path, line, publish, proved, servers } = await rig()
  expect(await publish(undefined)).toMatchObject({ code: 0, stderr: '' })
  expect(await proved()).toEqual([
    [1, 'abc'],
    [1, 'abc'],
  ])
  for (const [i, value] of ['x', 'y', 'z'].entries()) {
    expect(await publish(edit(value))).toMatchObject({ code: 0, stderr: '' })
    expect(await proved()).toEqual([
      [i + 2, 'abc'],
      [i + 2, 'abc'],
    ])
  }
  const { text } = parseNote(await readFile(path('log/public/checkpoint'), 'utf8'))
  const { origin, size, root } = parseCheckpoint(text)
  expect(line).toMatch(`log ${origin}+`)
  expect(witnesses.map(witness => witness.seen(origin))).toEqual([4, 4, 4])
  const leaves = await new Tiles(path('log/public')).leaves(size)
  const { databaseId, epoch } = servers[0]!.updatable.newest.manifest
  const manifestHash = fromHex(servers[0]!.updatable.newest.manifestHash)
  expect([leaves.length, leaves.at(-1), rootOf(leaves)]).toEqual([
    4,
    leafHash(logEntry({ databaseId, epoch, manifestHash })),
    root,
  ])
})

test('publishing without the log is refused once servers have a proof', async () => {
  const { path, base, servers, publish, proved } = await rig()
  expect(await publish(edit('with'))).toMatchObject({ code: 0, stderr: '' })
  const before = await proved()
  await writeFile(path('batch'), `${JSON.stringify(edit('without')[0])}\n`)
  const urls = servers.map(({ url }) => url).join()
  const without = ['publish', '--servers', urls, '--key', path('key'), '--trust-base', base, path('batch')]
  await expectRefused(keyhush(...without), '--log: expected the log of the epochs before')
  expect(await proved()).toEqual(before)
})

test('a log that begins late has empty entries for the epochs before', async () => {
  const { path, publish, proved, servers } = await rig()
  const urls = servers.map(({ url }) => url).join()
  const before = ['publish', '--servers', urls, '--key', path('key'), '--trust-base']
  await keyhush(...before, servers[0]!.updatable.newest.manifestHash)
  for (const value of ['x', 'y']) {
    await writeFile(path('batch'), `${JSON.stringify(edit(value)[0])}\n`)
    await keyhush(...before.slice(0, -1), path('batch'))
  }
  expect(await publish(undefined)).toMatchObject({ code: 0, stderr: '' })
  expect(await proved()).toEqual([
    [3, 'abc'],
    [3, 'abc'],
  ])
  const [first, second] = await new Tiles(path('log/public')).leaves(3)
  expect([first, second]).toEqual([leafHash(new Uint8Array()), leafHash(new Uint8Array())])
})

test("another database's log is refused", async () => {
  const { path, publish } = await rig()
  const other = await builtDirectory('b.csv', 'key,value\nfour,fourth\n')
  const { stdout } = await keyhush('log', 'example.com/keys', '--dataset', other, '--out', path('other'))
  await writeFile(path('other/policy'), `${stdout}witness a ${witnesses[0]!.key}\nquorum a\n`)
  await expectRefused(publish(undefined, '--log', path('other')), 'expected the log of this database')
})

test('a map with the policy follows the epochs that witnesses have seen, and one without it all', async () => {
  const { path, publish, servers, policy, publicKey } = await rig()
  await publish(undefined)
  const urls = servers.map(({ url }) => url)
  const common = { servers: urls, publisherKey: publicKey, mode: 'instant', development: true } as const
  const map = await open({ ...common, witnesses: policy })
  onTestFinished(() => map.close())
  expect(await map.getText('one')).toBe('first')
  for (const witness of witnesses.slice(1)) witness.misbehave('away')
  await publish(edit('x'))
  await map.sync()
  expect([map.epoch, await map.getText('one')]).toEqual([1, 'first'])
  const trusting = await open(common)
  onTestFinished(() => trusting.close())
  expect(await trusting.getText('one')).toBe('x')
  await writeFile(path('policy'), policy)
  const get = [
    'get',
    '--servers',
    urls.join(),
    '--publisher-key',
    toHex(publicKey),
    '--witnesses',
    path('policy'),
    'one',
  ]
  expect(await keyhush(...get)).toMatchObject({ code: 0, stdout: '"one" found "first"\n' })
  witnesses[1]!.misbehave(undefined)
  await publish(undefined)
  await map.sync()
  expect([map.epoch, await map.getText('one')]).toEqual([2, 'x'])
})

test('a folder for a static host has the proofs, and apps without witnesses do not wait for one', async () => {
  const { path, dataset, policy, publicKey } = await rig()
  const folder = ['--folder', path('www'), '--store', path('own'), '--key', path('key'), '--valid-days', '7']
  const flags = [...folder, '--log', path('log'), '--trust-base', (await rig()).base]
  expect(await keyhush('publish', ...flags, '--dataset', dataset)).toMatchObject({ code: 0, stderr: '' })
  const host = await startStaticHost(filesIn(path('www')))
  onTestFinished(() => host.close())
  const common = { servers: [host.url], publisherKey: publicKey, development: true } as const
  const opened = async (options: object) => {
    const map = await open({ ...common, ...options })
    const found = [map.epoch, await map.getText('one')]
    await map.close()
    return found
  }
  expect(await opened({ witnesses: policy })).toEqual([2, 'first'])
  for (const witness of witnesses) witness.misbehave('away')
  await writeFile(path('batch'), `${JSON.stringify(edit('x')[0])}\n`)
  expect((await keyhush('publish', ...flags, path('batch'))).code).toBe(75)
  expect(await opened({})).toEqual([3, 'x'])
  expect(await opened({ witnesses: policy })).toEqual([2, 'first'])
})

describe('while too few witnesses sign', () => {
  test('the epoch is signed and without a proof, and no batch follows; the next run completes it', async () => {
    const { publish, proved, signed, servers } = await rig()
    await publish(undefined)
    for (const witness of witnesses.slice(1)) witness.misbehave('away')
    await expectRefused(publish(edit('x')), 'expected a quorum of witnesses for epoch 2, got 1 of 3', 75)
    expect([await proved(), await signed()]).toEqual([
      [
        [2, undefined],
        [2, undefined],
      ],
      2,
    ])
    await expectRefused(publish(edit('y')), 'Run it again\n  b: expected a reply, got none', 75)
    expect(await proved()).toEqual([
      [2, undefined],
      [2, undefined],
    ])
    const figures = () => servers.map(({ updatable: { signed } }) => [signed.signedEpoch, signed.provedEpoch])
    expect(figures()).toEqual([
      [2, 1],
      [2, 1],
    ])
    witnesses[1]!.misbehave(undefined)
    expect(await publish(edit('y'))).toMatchObject({ code: 0, stderr: '' })
    expect(await proved()).toEqual([
      [3, 'ab'],
      [3, 'ab'],
    ])
    expect(figures()).toEqual([
      [3, 3],
      [3, 3],
    ])
  })

  test('a generation that pays is not begun either', async () => {
    const { publish, servers } = await rig()
    await publish(undefined)
    for (const witness of witnesses) witness.misbehave('away')
    await expectRefused(publish([{ op: 'generation', headroom: 8 }]), 'epoch 2, got 0 of 3', 75)
    await expectRefused(publish([{ op: 'generation', headroom: 16 }]), 'epoch 2, got 0 of 3', 75)
    expect(servers.map(({ updatable }) => updatable.newest.manifest.epoch)).toEqual([2, 2])
  })

  test('one that signs later makes the proof longer', async () => {
    const { publish, proved } = await rig()
    witnesses[0]!.misbehave('away')
    await publish(edit('x'))
    expect(await proved()).toEqual([
      [2, 'bc'],
      [2, 'bc'],
    ])
    witnesses[0]!.misbehave(undefined)
    expect(await publish(undefined)).toMatchObject({ code: 0 })
    expect(await proved()).toEqual([
      [2, 'abc'],
      [2, 'abc'],
    ])
  })
})

describe('nothing is signed or sent', () => {
  test('by a log that has gone back: its witnesses have seen more', async () => {
    const { path, publish, proved, servers } = await rig()
    await publish(edit('x'))
    await cp(path('log'), path('backup'), { recursive: true })
    await publish(edit('y'))
    const before = [await proved(), await readFile(path('backup/public/checkpoint'), 'utf8')]
    await expectRefused(publish(edit('z'), '--log', path('backup')), 'it has seen 3 entries, and this log has 2', 4)
    expect([await proved(), await readFile(path('backup/public/checkpoint'), 'utf8')]).toEqual(before)
    expect(servers[0]!.updatable.newest.manifest.epoch).toBe(3)
    // One without a checkpoint, too.
    await rm(path('backup/public'), { recursive: true })
    await expectRefused(publish(edit('z'), '--log', path('backup')), 'it has seen 3 entries, and this log has 0', 4)
  })

  test('of servers that are behind the log', async () => {
    const { path, dataset, publish } = await rig()
    await publish(edit('x'))
    const other = await servedFrom(dataset, (await createKeyFile(path('other'))).publicKey)
    const again = await servedFrom(dataset, (await createKeyFile(path('another'))).publicKey)
    const flags = ['--servers', `${other.url},${again.url}`, '--record', path('new record')]
    await expectRefused(publish(undefined, ...flags), 'expected epoch 2, which the log', 4)
    expect(other.updatable.signed.list()).toEqual([])
  })

  test('of an epoch that the log has with another manifest: a fork for another audience', async () => {
    const { path, publish, servers, dataset } = await rig()
    await publish(edit('x'))
    const { publicKey } = await createKeyFile(path('forker'))
    const audience = await Promise.all([1, 2].map(() => servedFrom(dataset, publicKey)))
    const flags = [
      '--servers',
      audience.map(({ url }) => url).join(),
      '--key',
      path('forker'),
      '--record',
      path('forked'),
    ]
    const batch = path('fork')
    await writeFile(batch, `${JSON.stringify(edit('forged')[0])}\n`)
    const base = servers[0]!.updatable
    expect(base.newest.manifest.epoch).toBe(2)
    const trust = ['--trust-base', audience[0]!.updatable.newest.manifestHash]
    await keyhush('publish', ...flags, ...trust, batch)
    const newest = await keyhush('publish', ...flags, '--log', path('log'))
    expect([newest.code, newest.stderr]).toEqual([
      4,
      expect.stringContaining('epoch 2: expected the manifest that the log'),
    ])
    // With a copy of the log from before, each honest witness refuses: there is no quorum for both.
    await rm(path('log/public'), { recursive: true })
    const copied = await keyhush('publish', ...flags, '--log', path('log'))
    expect([copied.code, copied.stderr]).toEqual([
      4,
      expect.stringContaining('it has seen 2 entries, and this log has 0'),
    ])
  })

  test('by a folder whose files are not its checkpoint, or whose key is not that of its policy', async () => {
    const { path, publish, policy } = await rig()
    await publish(edit('x'))
    await writeFile(path('log/public/tile/0/000.p/2'), Buffer.alloc(64))
    await expectRefused(publish(edit('y')), "0/000.p/2: expected what the log's checkpoint has", 4)
    await rm(path('log/public/tile'), { recursive: true })
    await expectRefused(publish(edit('y')), "000.p/2: expected what the log's checkpoint has", 4)
    const other = (await rig()).policy
    await writeFile(path('log/policy'), other)
    await expectRefused(publish(edit('y')), 'as `log`, got another')
    for (const [text, why] of [
      [policy.replace('quorum all', 'quorum none'), 'quorum: expected witnesses, got none'],
      [policy.replace('all 2', 'all 1'), 'both sides of a fork'],
      [policy.split('\n')[0]!, 'expected a quorum, got none'],
    ] as const) {
      await writeFile(path('log/policy'), text)
      await expectRefused(publish(edit('y')), why)
    }
  })
})

test('a log is never overwritten, has one writer, and keeps its key from others', async () => {
  const { path, dataset, publish } = await rig()
  const make = (name: string, out: string) => keyhush('log', name, '--dataset', dataset, '--out', out)
  await expectRefused(make('example.com/keys', path('log')), 'a log is never overwritten')
  for (const name of ['with a space', 'https://example.com/keys'])
    await expectRefused(make(name, path('other')), 'without scheme, spaces and plus signs')
  await expectRefused(publish(undefined, '--log', path('nowhere')), '`keyhush log` makes one')
  const log = await PublisherLog.open(path('log'))
  onTestFinished(() => log.close())
  await expectRefused(publish(undefined), 'it is open already')
  const folder = [
    '--folder',
    path(''),
    '--store',
    path('own'),
    '--dataset',
    dataset,
    '--key',
    path('key'),
    '--valid-days',
    '7',
  ]
  log.close()
  await expectRefused(keyhush('publish', ...folder, '--log', path('log')), 'expected a folder without secrets')
})

test('tiles of many entries are what the tree has, whatever was added at once; after a crash another entry may follow', async () => {
  const tiles = new Tiles(await temporaryDirectory())
  const entries = Array.from({ length: 600 }, (_, i) => Uint8Array.of(i >> 8, i & 255).slice(i % 3))
  let leaves: readonly Uint8Array[] = []
  for (const count of [1, 1, 253, 1, 1, 100, 243]) {
    await tiles.append(leaves, [new Uint8Array(7)]) // and the process ends before the checkpoint
    expect(await tiles.read({ origin: '', size: leaves.length, root: rootOf(leaves) })).toEqual(leaves)
    leaves = await tiles.append(leaves, entries.slice(leaves.length, leaves.length + count))
    await tiles.putCheckpoint('')
    expect(await tiles.leaves(leaves.length)).toEqual(entries.slice(0, leaves.length).map(leafHash))
  }
})

test('a file of the log that is damaged or missing is named, and the log signs nothing', async () => {
  const folder = join(await temporaryDirectory(), 'log')
  const databaseId = new Uint8Array(16).fill(1)
  const line = await PublisherLog.create(folder, 'example.com/keys', databaseId)
  await writeFile(join(folder, 'policy'), `${line}\nwitness a ${witnesses[0]!.key}\nquorum a\n`)
  const epoch = (epoch: number) => ({ databaseId, epoch, manifestHash: new Uint8Array(32).fill(epoch) })
  const log = await PublisherLog.open(folder)
  for (const size of [255, 256, 300]) await log.append(epoch(size))
  const checkpoint = join(folder, 'public/checkpoint')
  const signed = await readFile(checkpoint, 'utf8')
  const flipped = (bytes: Buffer) => bytes.map((byte, i) => (i === bytes.length - 1 ? byte ^ 1 : byte))
  const damages: ((bytes: Buffer) => Uint8Array | undefined)[] = [
    () => undefined,
    () => new Uint8Array(),
    flipped,
    bytes => bytes.subarray(0, -1),
    bytes => Buffer.concat([bytes, Buffer.alloc(1)]),
  ]
  const damaged = async (name: string, damage: (typeof damages)[number], work: () => Promise<unknown>) => {
    const file = join(folder, 'public/tile', name)
    const genuine = await readFile(file)
    const bytes = damage(genuine)
    await (bytes === undefined ? rm(file) : writeFile(file, bytes))
    await expect(work()).rejects.toThrow(`${file}: expected what the log's checkpoint has`)
    await writeFile(file, genuine)
    expect(await readFile(checkpoint, 'utf8')).toBe(signed)
  }
  for (const damage of damages) await damaged('entries/001.p/44', damage, () => log.append(epoch(301)))
  log.close()
  const names = await readdir(join(folder, 'public/tile'), { recursive: true, withFileTypes: true })
  const files = names.filter(each => each.isFile()).map(each => join(each.parentPath, each.name))
  const all = files.map(file => file.slice(join(folder, 'public/tile/').length)).sort()
  expect(all).toEqual(['0/000', '0/001.p/44', '1/000.p/1', 'entries/000', 'entries/001.p/44'])
  for (const name of all) for (const damage of damages) await damaged(name, damage, () => PublisherLog.open(folder))
  ;(await PublisherLog.open(folder)).close()
})

// Requests to servers and witnesses, in their order: before each, and after it without its reply.
test('a run that ends at any request is completed by the next, and no two entries of one epoch are ever signed', async () => {
  const { path, publicKey, base, servers, policy } = await rig()
  const key = await readKeyFile(path('key'))
  const record = await PublisherRecord.open(path('record'))
  const run = async (value: string, ends = Number.POSITIVE_INFINITY, replies = true) => {
    let requests = 0
    const fetch: typeof globalThis.fetch = async (url, init) => {
      const isLast = ++requests >= ends
      if (isLast && replies) throw new Error('over')
      const reply = await globalThis.fetch(url, init)
      if (isLast) throw new Error('over')
      return reply
    }
    const log = await PublisherLog.open(path('log'))
    const operations = Buffer.from(`${JSON.stringify(edit(value)[0])}\n`)
    const options = { key, record, log, fetch, operations, trustBase: base, again: true }
    try {
      await publish({ ...options, servers: servers.map(({ url }) => url) })
      return requests
    } catch (error) {
      if (!(error instanceof PublishError)) throw error
      return undefined
    } finally {
      log.close()
    }
  }
  const wholeRun = (await run('calm'))!
  const { log: origin } = parsePolicy(policy)
  for (const [i, ends] of sampled(Array.from({ length: wholeRun }, (_, i) => i + 1)).entries()) {
    const seen = `request ${ends}`
    await run(`${ends}`, ends, i % 2 === 0)
    expect([seen, await run(`after ${ends}`)]).toEqual([seen, expect.any(Number)])
    const epochs = servers.map(({ updatable }) => updatable.newest.manifest.epoch)
    expect([seen, new Set(epochs).size]).toEqual([seen, 1])
    expect([seen, witnesses.map(witness => witness.seen(origin.name))]).toEqual([seen, Array(3).fill(epochs[0])])
    for (const { updatable } of servers) {
      const { signed, newest } = updatable
      const ofNewest = signed.list().filter(({ epoch }) => epoch === newest.manifest.epoch)
      expect([seen, ofNewest.map(({ publicKey }) => publicKey)]).toEqual([seen, [toHex(publicKey)]])
      expect([seen, ofNewest[0]!.proof]).toEqual([seen, expect.any(String)])
    }
  }
})
