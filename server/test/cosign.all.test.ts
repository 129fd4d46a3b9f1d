// An auditor as a witness (docs/operations/witnesses.md): it signs a log's checkpoint if the entries are the epochs that it has checked.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { open } from '@keyhush/client'
import { encodeManifest, fromHex, type Manifest, toHex } from '@keyhush/protocol'
import {
  checkpointText,
  consistencyPath,
  encodeNoteKey,
  formatNote,
  LOG_KEY,
  type LoggedEpoch,
  leafHash,
  logEntry,
  logOrigin,
  type NoteKey,
  noteKey,
  type Path,
  parseNoteKey,
  parseSignatures,
  rootOf,
  signedNoteBytes,
  signersOf,
  WITNESS_KEY,
} from '@keyhush/protocol/log'
import { type DatabaseHandle, loadCore } from '@keyhush/wasm'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { PUBLISHER, PUBLISHER_KEY } from '../../tests/support/publishing.js'
import { filesIn, startStaticHost } from '../../tests/support/static-host.js'
import { thoroughly } from '../../tests/support/thoroughly.js'
import { Audit } from '../dist/audit/audit.js'
import { Cosigner, type CosignerOptions } from '../dist/audit/cosigner.js'
import { keepLeaf, leafOf } from '../dist/audit/leaves.js'
import { verifies } from '../dist/base/ed25519.js'
import { emptyDatabase } from '../dist/dataset/view.js'
import { witnessServer } from '../dist/http/witness.js'
import { createKeyFile, PublisherLog, PublisherRecord, publish } from '../dist/index.js'
import { formatSubmission } from '../dist/publisher/submission.js'
import { ReadTiles, Tiles } from '../dist/publisher/tiles.js'
import { openLmdb } from '../dist/storage/lmdb.js'
import type { Storage } from '../dist/storage/storage.js'
import { startWitness } from '../dist/testing/servers.js'
import { audited, dataset, edit, inPlace, listOf, useDataset, type World, withList } from './audit-world.js'
import { keyhush } from './command.js'
import { pseudoRandom, temporaryDirectory } from './helpers.js'
import { command, started } from './spawned.js'
import { FailingStorage } from './updatable-helpers.js'

useDataset()

const NAME = 'auditor.example/w'
const MOST_BYTES = 64 * 1024

/** A publisher with a log beside an audited world. */
async function logged(world: World) {
  const path = await temporaryDirectory()
  const folder = join(path, 'log')
  const { stdout } = await keyhush('log', 'example.com/keys', '--dataset', dataset, '--out', folder)
  const line = stdout.trim()
  const [keyFile, record] = [join(path, 'cosign.key'), new PublisherRecord()]
  const key = await createKeyFile(keyFile)
  const policyFor = async (url: string, witness = Cosigner.keyOf(NAME, key)) => {
    const policy = `${line}\nwitness auditor ${witness} ${url}\nquorum auditor\n`
    await writeFile(join(folder, 'policy'), policy)
    return policy
  }
  /** Runs the publisher with its log. */
  const run = async (operations?: readonly object[]) => {
    const lines = operations?.map(each => `${JSON.stringify(each)}\n`).join('')
    const log = await PublisherLog.open(folder)
    const trustBase = world.updatable.newest.manifestHash
    const servers = world.servers.map(({ url }) => url)
    const batch = lines === undefined ? {} : { operations: Buffer.from(lines), again: true }
    try {
      return await publish({ servers, key: PUBLISHER, record, trustBase, ...batch, log })
    } finally {
      log.close()
    }
  }
  return { folder, line, key, keyFile, policyFor, run, log: parseNoteKey(line.replace('log ', ''), LOG_KEY) }
}

type Publisher = Awaited<ReturnType<typeof logged>>

/** The auditor in this process, as a witness. It looks when the log has an epoch that it has not checked. */
async function cosigning(world: World, { key, log, policyFor }: Publisher, files?: string) {
  const storage = await openLmdb(world.store)
  const servers = world.proxies.map(({ url }) => url)
  const audit = await Audit.open({ servers, publisherKey: PUBLISHER.publicKey, storage, folder: world.store })
  if (audit.checked === undefined) await audit.look()
  const look = () => audit.look().catch(() => {})
  const { databaseId } = world.updatable.newest.manifest
  const from = files === undefined ? undefined : ReadTiles.at(files)
  const options = { storage, databaseId, log, name: NAME, key, look, files: from }
  const cosigner = await Cosigner.open(options).catch(async error => {
    await audit.close()
    throw error
  })
  const app = await witnessServer(body => cosigner.answer(body), MOST_BYTES)
  const url = await app.listen({ port: 0 })
  const policy = await policyFor(url)
  let isOpen = true
  const close = async () => {
    if (!isOpen) return
    isOpen = false
    await app.close()
    await audit.close()
  }
  onTestFinished(close)
  return { url, policy, close, audit, storage }
}

thoroughly(
  'a publisher whose policy demands an auditor publishes as soon as that has checked, also after it was killed',
  async () => {
    const world = await audited()
    const { line, keyFile, policyFor, run } = await logged(world)
    const urls = world.servers.map(({ url }) => url)
    const args = ['audit', '--servers', urls.join(), '--publisher-key', PUBLISHER_KEY, '--store', world.store]
    const witness = async () => {
      // It looks once an hour, or when it is asked.
      const how = [
        '--every',
        '3600',
        '--cosign',
        `${NAME}=${keyFile}`,
        '--log',
        line,
        '--listen',
        '0',
        '--metrics',
        '0',
      ]
      const { child, printed, finished } = started(process.execPath, [command, ...args, ...how])
      await expect.poll(() => printed.stderr).toMatch(/answers the log at \S+\n/)
      const [, url] = /answers the log at (\S+)/.exec(printed.stderr)!
      const [, figures] = /figures at (\S+)/.exec(printed.stderr)!
      const signed = async () =>
        Number(/^keyhush_audit_cosigned_epoch (.*)$/m.exec(await (await fetch(figures!)).text())![1])
      return { child, finished, printed, policy: await policyFor(url!), signed }
    }
    const first = await witness()
    expect(first.printed.stderr).toContain(/witness auditor (\S+)/.exec(first.policy)![1])
    expect(await first.signed()).toBe(0)
    await run()
    await run([edit(1)])
    expect(await first.signed()).toBe(2)
    const common = { servers: urls, publisherKey: PUBLISHER.publicKey, mode: 'instant', development: true } as const
    const map = await open({ ...common, witnesses: first.policy })
    onTestFinished(() => map.close())
    expect([map.epoch, await map.getText('key 1')]).toEqual([2, 'other'])
    first.child.kill('SIGKILL')
    await first.finished
    await expect(run([edit(2)])).rejects.toThrow('expected a quorum of witnesses for epoch 3')
    const second = await witness()
    expect(await second.signed()).toBe(2)
    await run([edit(3)])
    await map.sync()
    expect([map.epoch, await map.getText('key 3')]).toEqual([4, 'other'])
    second.child.kill('SIGTERM')
    expect((await second.finished).code).toBe(0)
  },
)

test.each([
  [['--cosign', 'x=y'], 'expected --cosign, --log and --listen together'],
  [['--listen', '0', '--log', 'x'], 'expected --cosign, --log and --listen together'],
  [['--cosign', 'x=y', '--listen', '0', '--log', 'x', '--once'], 'and no --once'],
  [['--cosign', 'cosign.key', '--listen', '0', '--log', 'x'], 'expected a name without scheme and a key file'],
  [['--cosign', 'https://x=y', '--listen', '0', '--log', 'x'], 'expected a name without scheme and a key file'],
])('%j is refused before anything is asked', async (args, why) => {
  const store = join(await temporaryDirectory(), 'audit')
  const all = ['--servers', 'https://a.example', '--publisher-key', PUBLISHER_KEY, '--store', store, ...args]
  const outcome = await keyhush('audit', ...all)
  expect([outcome.code, outcome.stderr]).toEqual([2, expect.stringContaining(why)])
})

describe('a false epoch, which publisher and servers show to all', () => {
  /** Resolves to what the log's owner gets for it. */
  async function lied() {
    const world = await audited()
    const publisher = await logged(world)
    const { policy, audit, storage } = await cosigning(world, publisher)
    await publisher.run()
    const { manifest: before } = world.updatable.newest
    await world.publish([edit(1)])
    const { manifest } = world.updatable.newest
    const list = await listOf(world)
    list[40 + 5 + 20]! ^= 1
    const forged = withList(manifest, list)
    world.lie(inPlace(forged, { list }))
    const prove = async () => {
      const log = await PublisherLog.open(publisher.folder)
      try {
        await log.append(loggedOf(forged))
        await log.ask()
        return log.proof()
      } finally {
        log.close()
      }
    }
    return { world, policy, before, manifest, prove, audit, storage, forged }
  }

  test('has no signature, so no map with witnesses takes it', async () => {
    const { world, policy, prove, audit } = await lied()
    await expect(prove()).rejects.toThrow('expected a quorum of witnesses for epoch 2, got 0 of 1')
    expect(audit.checked!.manifest.epoch).toBe(1)
    const servers = world.proxies.map(({ url }) => url)
    const common = { servers, publisherKey: PUBLISHER.publicKey, mode: 'instant', development: true } as const
    const map = await open({ ...common, witnesses: policy })
    onTestFinished(() => map.close())
    expect([map.epoch, await map.getText('key 1')]).toEqual([1, 'value 1'])
  })

  test('has one of an auditor that keeps an entry before it has checked', async () => {
    const { prove, storage, forged } = await lied()
    await keepLeaf(storage, loggedOf(forged))
    expect(await prove()).toContain(`— ${NAME} `)
  })

  test('has one of an auditor that believes every root', async () => {
    const { before, manifest, prove } = await lied()
    const core = await loadCore()
    const database = emptyDatabase(core, manifest)
    const handle = Object.getPrototypeOf(database) as DatabaseHandle
    database.free()
    onTestFinished(() => void vi.restoreAllMocks())
    for (const [name, of] of [
      ['contentHash', ({ contentHashes }: Manifest) => contentHashes],
      ['commitment', ({ commitments }: Manifest) => commitments],
    ] as const) {
      const computed = handle[name]
      vi.spyOn(handle, name).mockImplementation(function (this: DatabaseHandle, q) {
        const found = toHex(computed.call(this, q))
        const isRight = [of(before).subarray(32 * q, 32 * q + 32), manifest.directoryCommitment].map(toHex)
        return isRight.includes(found) ? fromHex(found) : of(manifest).subarray(32 * q, 32 * q + 32)
      })
    }
    expect(await prove()).toContain(`— ${NAME} `)
  })
})

function loggedOf(manifest: Manifest): LoggedEpoch {
  const { databaseId, epoch } = manifest
  return { databaseId, epoch, manifestHash: blake3(encodeManifest(manifest)) }
}

describe('the log', () => {
  test('began after the auditor, or missed epochs: unknown entries vouch for nothing', async () => {
    const world = await audited()
    await world.publish([edit(1)])
    await world.publish([edit(2)])
    const publisher = await logged(world)
    const { audit } = await cosigning(world, publisher)
    await publisher.run()
    await publisher.run([edit(3)])
    await world.publish([edit(4)])
    await world.publish([edit(5)])
    await publisher.run([edit(6)])
    expect(audit.checked!.manifest.epoch).toBe(7)
    const leaves = await new Tiles(join(publisher.folder, 'public')).leaves(7)
    const isUnknown = leaves.map(leaf => toHex(leaf) === toHex(leafHash(new Uint8Array())))
    expect(isUnknown).toEqual([true, true, false, false, true, false, false])
  })

  test('is older than the auditor, which needs its files, once', async () => {
    const world = await audited({ begins: false })
    const publisher = await logged(world)
    const { folder, run, line, policyFor } = publisher
    const other = await startWitness('w.example/w')
    onTestFinished(() => other.close())
    other.add(line)
    await policyFor(other.url, other.key)
    await run()
    await run([edit(1)])
    await cp(folder, `${folder} before`, { recursive: true })
    await run([edit(2)])

    const without = await cosigning(world, publisher)
    await expect(run([edit(3)])).rejects.toThrow(/epoch 3, got 0 of 1.*got 503: it is busy, or has not/s)
    await without.close()
    await cp(world.store, `${world.store} before`, { recursive: true })

    const tile = join(folder, 'public/tile/0/000.p/3')
    const genuine = await readFile(tile)
    for (const damage of [() => writeFile(tile, pseudoRandom(96)), () => rm(tile), () => writeFile(tile, '')]) {
      await damage()
      await expect(cosigning(world, publisher, join(folder, 'public'))).rejects.toThrow('or damaged ones')
    }
    await writeFile(tile, genuine)
    await expect(cosigning(world, publisher, folder)).rejects.toThrow('got no checkpoint')
    const forkedLog = await PublisherLog.open(`${folder} before`)
    await forkedLog.append(loggedOf({ ...world.updatable.newest.manifest, expires: 7 }))
    forkedLog.close()
    const forked = cosigning(world, publisher, join(`${folder} before`, 'public'))
    await expect(forked).rejects.toThrow('expected epoch 3 as it was checked, got other entries')

    const joined = await cosigning(world, publisher, join(folder, 'public'))
    await joined.close()
    const { close } = await cosigning(world, publisher)
    await run([edit(3)])
    await run([edit(4)])
    await close()
    const host = await startStaticHost(filesIn(join(folder, 'public')))
    onTestFinished(host.close)
    await cosigning({ ...world, store: `${world.store} before` }, publisher, `${host.url}/`)
    await run([edit(5)])
    host.files = (_request, response) => void response.writeHead(500).end()
    await expect(cosigning(world, publisher, host.url)).rejects.toThrow('expected a file of the log, got none')
  })
})

test('files that do not continue what was signed are refused, also where nothing was checked', async () => {
  const { options, leavesTo, request, filesOf, check } = await bench(new FailingStorage(), 0)
  for (const epoch of [4, 5, 6]) await check(epoch)
  const cosigner = await Cosigner.open({ ...options, files: await filesOf(4) })
  expect((await cosigner.answer(request(0, leavesTo(3)))).status).toBe(503)
  expect((await cosigner.answer(request(0, leavesTo(5)))).status).toBe(200)
  const forked = Cosigner.open({ ...options, files: await filesOf(6, 2) })
  await expect(forked).rejects.toThrow('expected entries that continue what was signed, got other entries')
  await Cosigner.open({ ...options, files: await filesOf(6) })
})

test('an auditor that ends between an epoch and its entry keeps the entry when it begins again', async () => {
  const world = await audited({ begins: false })
  const storage = new FailingStorage()
  const servers = world.proxies.map(({ url }) => url)
  const options = { servers, publisherKey: PUBLISHER.publicKey, storage, folder: await temporaryDirectory() }
  const audit = await Audit.open(options)
  await audit.look()
  await world.publish([edit(1)])
  storage.fails = key => key.startsWith('leaf/')
  await expect(audit.look()).rejects.toThrow('cannot be written')
  await audit.close()
  storage.fails = () => false
  expect(await leafOf(storage, 2)).toBeUndefined()
  await (await Audit.open(options)).close()
  expect(await leafOf(storage, 2)).toEqual(leafHash(logEntry(loggedOf(world.updatable.newest.manifest))))
})

/** Epochs of a log and of the auditor's store, without servers. */
async function bench(storage: Storage, checked: number, given: Partial<CosignerOptions> = {}) {
  const databaseId = new Uint8Array(16).fill(5)
  const entryOf = (epoch: number, fork = 0): LoggedEpoch => ({
    databaseId,
    epoch,
    manifestHash: blake3(Uint8Array.of(epoch, fork)),
  })
  const check = (epoch: number) => keepLeaf(storage, entryOf(epoch))
  for (let epoch = 1; epoch <= checked; epoch++) await check(epoch)
  const logPair = ed25519.keygen(new Uint8Array(32).fill(9))
  const log = noteKey(logOrigin('example.com/keys', databaseId), LOG_KEY, logPair.publicKey)
  const pair = ed25519.keygen(new Uint8Array(32).fill(8))
  const key = noteKey(NAME, WITNESS_KEY, pair.publicKey)
  const options = { storage, databaseId, log, name: NAME, key: pair, look: async () => {}, ...given }
  const leavesTo = (size: number, fork?: number): Path =>
    Array.from({ length: size }, (_, i) => leafHash(logEntry(entryOf(i + 1, i + 1 === fork ? 1 : 0))))
  const textOf = (leaves: Path, by = log) =>
    checkpointText({ origin: by.name, size: leaves.length, root: rootOf(leaves) })
  /** What the log sends from an old size on. */
  const request = (old: number, leaves: Path, by: NoteKey = log, secret = logPair.secretKey, path?: Path) => {
    const note = noteOf(leaves, by, secret)
    return formatSubmission({ old, path: path ?? (old === 0 ? [] : consistencyPath(leaves, old)), note })
  }
  const noteOf = (leaves: Path, by: NoteKey = log, secret = logPair.secretKey) => {
    const text = textOf(leaves, by)
    const bytes = ed25519.sign(signedNoteBytes(text), secret)
    return { text, signatures: [{ name: by.name, id: by.id, bytes }] }
  }
  /** The log's files. */
  const filesOf = async (size: number, fork?: number) => {
    const tiles = new Tiles(await temporaryDirectory())
    const entries = Array.from({ length: size }, (_, i) => logEntry(entryOf(i + 1, i + 1 === fork ? 1 : 0)))
    await tiles.putCheckpoint(formatNote(noteOf(await tiles.append([], entries))))
    return tiles
  }
  const isSigned = async (text: string, leaves: Path) =>
    (await signersOf({ text: textOf(leaves), signatures: parseSignatures(text) }, [key], verifies)).has(key)
  return { options, leavesTo, request, filesOf, isSigned, check, log, databaseId }
}

describe('it answers', () => {
  test('what continues the log of checked epochs, and nothing else', async () => {
    const { options, leavesTo, request, isSigned, check, log, databaseId } = await bench(new FailingStorage(), 8)
    const cosigner = await Cosigner.open(options)
    const statusOf = async (body: string) => (await cosigner.answer(body)).status
    const first = await cosigner.answer(request(0, leavesTo(3)))
    expect([first.status, await isSigned(first.text, leavesTo(3))]).toEqual([200, true])
    const fork = leavesTo(6, 5)
    const forkBefore = leavesTo(6, 2)
    const stranger = ed25519.keygen()
    const other = noteKey(logOrigin('example.org', databaseId), LOG_KEY, stranger.publicKey)
    const unknown = noteKey(log.name, LOG_KEY, stranger.publicKey)
    const requests: readonly (readonly [number, string])[] = [
      [404, request(3, leavesTo(6), other, stranger.secretKey)],
      [403, request(3, leavesTo(6), unknown, stranger.secretKey)],
      [403, request(3, leavesTo(6), log, stranger.secretKey)],
      [409, request(0, leavesTo(6))],
      [409, request(4, leavesTo(6))],
      [409, request(2, leavesTo(2))],
      [422, request(3, leavesTo(6), log, undefined, [])],
      [422, request(3, leavesTo(6), log, undefined, consistencyPath(leavesTo(6), 4))],
      [422, request(3, leavesTo(3, 2))],
      [422, request(3, forkBefore)],
      [422, request(3, fork)],
      [422, request(3, [...leavesTo(5), leafHash(new Uint8Array())])],
      [503, request(3, leavesTo(9))],
      [400, request(3, leavesTo(2), log, undefined, [])],
      [400, ''],
      [400, '\n\n'],
      [400, request(3, leavesTo(6)).replace('old 3', 'old 03')],
    ]
    for (const [status, body] of requests) {
      const reply = await cosigner.answer(body)
      expect([body, reply.status]).toEqual([body, status])
      if (status === 409) expect(reply.text).toBe('3\n')
    }
    expect(await statusOf(request(3, leavesTo(3)))).toBe(200)
    expect(await statusOf(request(3, leavesTo(6)))).toBe(200)
    expect(await statusOf(request(3, leavesTo(6)))).toBe(409)
    await check(9)
    expect(await statusOf(request(6, leavesTo(9)))).toBe(200)
  })

  test('garbage: a signature comes for no byte that differs', async () => {
    const { options, leavesTo, request, isSigned } = await bench(new FailingStorage(), 8)
    const cosigner = await Cosigner.open(options)
    await cosigner.answer(request(0, leavesTo(3)))
    const body = Buffer.from(request(3, leavesTo(6)))
    const known = new Set([400, 403, 404, 409, 422])
    for (let at = 0; at < body.length; at++) {
      for (const bit of [1, 2, 64, 128]) {
        const { status } = await cosigner.answer(body.map((byte, i) => (i === at ? byte ^ bit : byte)).toString())
        expect([at, bit, known.has(status)]).toEqual([at, bit, true])
      }
      expect([400, 403]).toContain((await cosigner.answer(body.subarray(0, at).toString())).status)
    }
    const { text } = await cosigner.answer(body.toString())
    expect(await isSigned(text, leavesTo(6))).toBe(true)
  })

  test("an empty log, but no other of that size; and another database's log is refused", async () => {
    const { options, request, log } = await bench(new FailingStorage(), 1)
    const cosigner = await Cosigner.open(options)
    expect((await cosigner.answer(request(0, []))).status).toBe(200)
    const databaseId = new Uint8Array(16)
    await expect(Cosigner.open({ ...options, databaseId })).rejects.toThrow(`got that of ${log.name}`)
  })

  test('one at a time, and few wait; a body is bounded', async () => {
    const looks: (() => void)[] = []
    const look = () => new Promise<void>(resolve => looks.push(resolve))
    const { options, leavesTo, request, check } = await bench(new FailingStorage(), 1, { look })
    const cosigner = await Cosigner.open(options)
    const app = await witnessServer(body => cosigner.answer(body), MOST_BYTES)
    onTestFinished(() => app.close())
    const payload = request(0, leavesTo(2))
    const post = (payload: string) => app.inject({ method: 'POST', url: '/add-checkpoint', payload })
    const replied: unknown[] = []
    const replies = Array.from({ length: 9 }, async () => {
      const { statusCode, headers } = await post(payload)
      replied.push([statusCode, headers['retry-after']])
    })
    await expect.poll(() => [looks.length, ...replied]).toEqual([1, [503, '1']])
    await check(2)
    looks[0]!()
    await Promise.all(replies)
    expect(replied.slice(1)).toEqual([[200, undefined], ...Array(7).fill([409, undefined])])
    expect(looks.length).toBe(1)
    expect((await post(' '.repeat(MOST_BYTES + 1))).statusCode).toBe(400)
    expect((await app.inject('/add-checkpoint')).statusCode).toBe(404)
    const conflict = await post(payload)
    expect([conflict.headers['content-type'], conflict.payload]).toEqual(['text/x.tlog.size', '2\n'])
  })
})

describe('the checkpoint is on disk before it is signed', () => {
  test('a store that fails signs nothing, and then signs the same or another', async () => {
    const storage = new FailingStorage()
    const { options, leavesTo, request } = await bench(storage, 8)
    const cosigner = await Cosigner.open(options)
    storage.fails = () => true
    await expect(cosigner.answer(request(0, leavesTo(3)))).rejects.toThrow('cannot be written')
    storage.fails = () => false
    expect((await cosigner.answer(request(0, leavesTo(2)))).status).toBe(200)
  })

  test.each(['before', 'after'])('killed %s the write, it never signs a shorter or another log', async when => {
    const folder = await temporaryDirectory()
    const [store, keyFile, body] = ['store', 'key', 'request'].map(name => join(folder, name)) as [
      string,
      string,
      string,
    ]
    await createKeyFile(keyFile)
    const storage = await openLmdb(store)
    const { options, leavesTo, request, log, databaseId } = await bench(storage, 8)
    const began = await Cosigner.open(options)
    expect((await began.answer(request(0, leavesTo(3)))).status).toBe(200)
    await storage.close()
    await writeFile(body, request(3, leavesTo(6)))
    const child = fileURLToPath(new URL('children/cosign-and-die.mjs', import.meta.url))
    const line = encodeNoteKey(log)
    const dying = spawn(process.execPath, [child, store, toHex(databaseId), line, keyFile, body, when])
    let printed = ''
    dying.stdout.on('data', text => {
      printed += text
    })
    const [, signal] = (await once(dying, 'close')) as [number | null, string | null]
    expect([signal, printed]).toEqual(['SIGKILL', ''])
    const again = await openLmdb(store)
    onTestFinished(() => again.close())
    const cosigner = await Cosigner.open({ ...options, storage: again })
    const seen = when === 'before' ? 3 : 6
    expect(await cosigner.answer(request(0, leavesTo(2)))).toEqual({ status: 409, text: `${seen}\n` })
    expect((await cosigner.answer(request(seen, leavesTo(6, 2)))).status).toBe(422)
    expect((await cosigner.answer(request(seen, leavesTo(6)))).status).toBe(200)
  })
})
