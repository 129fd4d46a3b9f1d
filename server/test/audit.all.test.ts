// An auditor beside servers that lie, all of them together with the publisher, and beside servers that are away.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { contentHash, encodeManifest, equalBytes, type Manifest, toHex } from '@keyhush/protocol'
import { type DatabaseHandle, loadCore } from '@keyhush/wasm'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { about, changed } from '../../tests/support/lies.js'
import type { Lie, Reply } from '../../tests/support/proxy.js'
import { PUBLISHER, PUBLISHER_KEY } from '../../tests/support/publishing.js'
import { buildInto, temporaryFolder } from '../../tests/support/servers.js'
import { filesIn, startStaticHost } from '../../tests/support/static-host.js'
import { THOROUGH } from '../../tests/support/thorough.js'
import { thoroughly } from '../../tests/support/thoroughly.js'
import { Audit, type Checked } from '../dist/audit/audit.js'
import { emptyDatabase } from '../dist/dataset/view.js'
import { MemoryStorage, readKeyFile, type Storage } from '../dist/index.js'
import {
  add,
  audited,
  dataset,
  edit,
  expectContradiction,
  forged,
  inPlace,
  linesOf,
  listOf,
  told,
  useDataset,
  type World,
  withList,
} from './audit-world.js'
import { keyhush, runKeyhush } from './command.js'
import { createIn, falselyHinted, listed, listening, pseudoRandom, temporaryDirectory } from './helpers.js'
import { command, started } from './spawned.js'
import { batchOn, bodyOf, opened, printOf, RememberingStorage, servedFrom, signatureOf } from './updatable-helpers.js'

useDataset()

/** Where the record of a list's first entry begins. */
const RECORD = 40 + 5

test('every epoch is made anew, also several at once, across generations, and with the store kept', async () => {
  const { audit, publish, make, sign, updatable } = await audited({ begins: false })
  const first = await audit()
  expect([first.code, told(first), first.stderr]).toEqual([0, ['1 export'], ''])
  await publish([edit(1), add('new'), { op: 'delete', key: 'key 2' }])
  const second = await audit()
  expect([second.code, told(second)]).toEqual([0, ['1 store', '2 list']])
  expect(linesOf(second)[1]).toMatchObject({ entries: 3, manifest: updatable.newest.manifestHash })
  await publish([{ op: 'delete', key: 'key 3' }])
  await publish([{ op: 'generation', headroom: 1000 }])
  await make([add('key 2')]) // the signature of a later epoch vouches for it
  await make([edit(2, 'again')])
  await sign()
  await publish([{ op: 'generation', headroom: 0 }])
  const rest = await audit()
  expect([rest.code, told(rest), rest.stderr]).toEqual([
    0,
    ['2 store', '3 list', '4 generation', '5 list', '6 list', '7 generation'],
    '',
  ])
  expect(linesOf(rest).at(-1)!.manifest).toBe(updatable.newest.manifestHash)
  expect(told(await audit())).toEqual(['7 store'])
})

test('it begins where the first server is, though another is ahead, and waits for all', async () => {
  const { audit, servers } = await audited({ begins: false })
  const [, { updatable: ahead }] = servers
  for (const n of [1, 2, 3]) {
    await ahead.publish(batchOn(ahead, [edit(n)]))
    await ahead.addSignature(signatureOf(ahead))
  }
  const outcome = await audit()
  expect([outcome.code, told(outcome)]).toEqual([3, ['1 export']])
  for (const n of [1, 2, 3]) await servers[0].updatable.publish(batchOn(servers[0].updatable, [edit(n)]))
  expect(told(await audit())).toEqual(['1 store', '2 list', '3 list', '4 list'])
})

test('a line is printed once the epoch is stored, and the same epoch needs no new one', async () => {
  const { audit, publish } = await audited()
  await publish([edit(1)])
  expect(told(await audit())).toEqual(['1 store', '2 list'])
  expect(told(await audit())).toEqual(['2 store'])
})

describe('publisher and servers lie together', () => {
  /** A signed epoch whose list changes another record than its roots say, as the entry at `from` on differs by `change`. */
  const changedAt = (list: Uint8Array, from: number, change: number) =>
    list.map((byte, i) => (i === from ? byte ^ change : byte))
  const flip = (list: Uint8Array, from: number, at: number) => {
    list[from + at]! ^= 0x80
  }

  test('a list that does not lead to the roots', async () => {
    const world = await audited()
    await world.publish([edit(1)])
    const { manifest } = world.updatable.newest
    const list = changedAt(await listOf(world), RECORD + 20, 1)
    world.lie(inPlace(withList(manifest, list), { list }))
    await expectContradiction(
      world,
      'epoch 2: expected the records of partition',
      /^list-/,
      /^manifest-1-/,
      /^manifest-2-/,
    )
  })

  test('which an auditor without roots would believe', async () => {
    const world = await audited()
    const { manifest: before } = world.updatable.newest
    await world.publish([edit(1)])
    const { manifest } = world.updatable.newest
    const list = changedAt(await listOf(world), RECORD + 20, 1)
    world.lie(inPlace(withList(manifest, list), { list }))
    const core = await loadCore()
    const database = emptyDatabase(core, manifest)
    const handle = Object.getPrototypeOf(database) as DatabaseHandle
    database.free()
    const roots = { contentHash, commitment: (of: Manifest, q: number) => of.commitments.subarray(32 * q, 32 * q + 32) }
    for (const name of ['contentHash', 'commitment'] as const) {
      const computed = handle[name]
      vi.spyOn(handle, name).mockImplementation(function (this: DatabaseHandle, q) {
        const found = computed.call(this, q)
        const isRight = [roots[name](before, q), manifest.directoryCommitment].some(root => equalBytes(found, root))
        return isRight ? found : roots[name](manifest, q)
      })
    }
    onTestFinished(() => void vi.restoreAllMocks())
    const outcome = await world.audit()
    expect([outcome.code, told(outcome), outcome.stderr]).toEqual([0, ['1 store', '2 list'], ''])
  })

  test('roots of commitments alone', async () => {
    const world = await audited()
    await world.publish([edit(1)])
    const { manifest } = world.updatable.newest
    const list = await listOf(world)
    world.lie(inPlace({ ...manifest, commitments: manifest.commitments.map(byte => byte ^ 1) }, { list }))
    await expectContradiction(world, 'expected the commitment of partition', /^list-/, /^manifest-1-/, /^manifest-2-/)
  })

  test('another directory', async () => {
    const world = await audited()
    await world.publish([add('new')])
    const { manifest } = world.updatable.newest
    const list = await listOf(world)
    world.lie(inPlace({ ...manifest, directoryCommitment: manifest.commitments.subarray(0, 32) }, { list }))
    await expectContradiction(world, 'expected the directory of epoch 2', /^list-/, /^manifest-1-/, /^manifest-2-/)
  })

  test.each([
    ['an edit that is called a delete', [edit(1)], 3, 'a false delete'],
    ['an edit that is called an add', [edit(1)], 1, 'a false add'],
    ['a delete that is called an edit', [{ op: 'delete', key: 'key 1' }], 2, 'a false edit'],
    ['an entry of no kind', [edit(1)], 9, 'kind of update'],
  ])('%s', async (_, operations, kind, words) => {
    const world = await audited()
    await world.publish(operations)
    const { manifest } = world.updatable.newest
    const list = (await listOf(world)).map((byte, i) => (i === RECORD - 1 ? kind : byte))
    world.lie(inPlace(withList(manifest, list), { list }))
    await expectContradiction(world, words, /^list-/, /^manifest-1-/, /^manifest-2-/)
  })

  const [FIRST, SECOND] = [RECORD, RECORD + 16 + 2 + 20 + 5] // records of a list of adds
  const print = (key: string) => Buffer.from(printOf(key), 'hex')

  test.each([
    ['an edit that puts another key there', [edit(1)], 'a false edit', (list: Uint8Array) => flip(list, FIRST, 0)],
    ['an edit of a malformed record', [edit(1)], 'value length', (list: Uint8Array) => flip(list, FIRST, 17)],
    [
      'an add of a key that is there',
      [add('new')],
      'adds new keys, got one that was there',
      (list: Uint8Array) => list.set(print('key 1'), FIRST),
    ],
    [
      'two adds of one key',
      [add('new'), add('newer')],
      'adds each key once, got one twice',
      (list: Uint8Array) => list.set(list.slice(FIRST, FIRST + 16), SECOND),
    ],
  ])('%s, and the roots that come of it', async (_, operations, words, forge) => {
    const world = await audited()
    await world.publish(operations)
    const list = await listOf(world)
    forge(list)
    world.lie(inPlace(await forged(list), { list }))
    await expectContradiction(world, words, /^list-/, /^manifest-1-/, /^manifest-2-/)
  })

  test('a list of other bytes than a list', async () => {
    const world = await audited()
    await world.publish([edit(1)])
    const { manifest } = world.updatable.newest
    const list = (await listOf(world)).map(byte => byte ^ 0x55)
    world.lie(inPlace(withList(manifest, list), { list }))
    await expectContradiction(world, 'epoch 2: ', /^list-/, /^manifest-1-/, /^manifest-2-/)
  })

  test('a list that is shorter than its manifest says', async () => {
    const world = await audited()
    await world.publish([edit(1)])
    const { manifest } = world.updatable.newest
    const list = await listOf(world)
    world.lie(inPlace({ ...manifest, updateListBytes: 2 * list.length - 40 }, { list }))
    await expectContradiction(world, 'expected a list of', /^list-/, /^manifest-1-/, /^manifest-2-/)
  })

  test.each([
    ['one server', [1]],
    ['all servers', [0, 1]],
  ])('an epoch is signed twice: %s now shows another manifest than the one that was checked', async (_, which) => {
    const world = await audited()
    await world.publish([edit(1)])
    expect((await world.audit()).code).toBe(0)
    world.lie(inPlace({ ...world.updatable.newest.manifest, expires: 4_000_000_000 }), which)
    await expectContradiction(world, 'epoch 2: expected one manifest, got', /^manifest-2-/, /^manifest-2-/)
  })

  test('a fork between the servers, at an epoch that was not checked', async () => {
    const world = await audited()
    await world.publish([edit(1)])
    world.lie(inPlace({ ...world.updatable.newest.manifest, expires: 4_000_000_000 }), [0])
    await expectContradiction(world, 'the key vouches for both', /^manifest-2-/, /^manifest-2-/)
  })

  test('a fork below signed epochs: each follows another', async () => {
    const world = await audited()
    await world.publish([edit(1)])
    expect((await world.audit()).code).toBe(0)
    await world.publish([edit(2)])
    const { manifest } = world.updatable.newest
    world.lie(inPlace({ ...manifest, previousManifest: new Uint8Array(32).fill(7) }))
    const outcome = await world.audit()
    expect([outcome.code, outcome.stderr]).toEqual([1, expect.stringContaining('epoch 2: expected one manifest')])
  })

  test.each([
    ['records', 'expected the records of partition'],
    ['expiry', undefined],
  ])('a generation of other %s', async (what, words) => {
    const world = await audited()
    await world.publish([{ op: 'generation', headroom: 0 }])
    const { manifest } = world.updatable.newest
    const other =
      what === 'expiry'
        ? { ...manifest, expires: 4_000_000_000 }
        : { ...manifest, contentHashes: manifest.contentHashes.map(byte => byte ^ 1) }
    world.lie(inPlace(other))
    if (words === undefined) expect((await world.audit()).code).toBe(0)
    else await expectContradiction(world, words, /^manifest-1-/, /^manifest-2-/)
  })

  test('a generation with a record more', async () => {
    const world = await audited()
    const other = await audited()
    await other.publish([add('more')])
    await other.publish([{ op: 'generation', headroom: 0 }])
    await world.publish([{ op: 'generation', headroom: 0 }])
    const { epoch, previousManifest } = world.updatable.newest.manifest
    world.lie(inPlace({ ...other.updatable.newest.manifest, epoch, previousManifest }))
    await expectContradiction(world, 'expected a generation of 40 records, got 41', /^manifest-1-/, /^manifest-2-/)
  })
})

const OTHER = ed25519.keygen(new Uint8Array(32).fill(8))
type Key = Pick<typeof PUBLISHER, 'publicKey'>
const underAnother = (expected: Key, came: Key) => {
  const [first, second] = [expected, came].map(({ publicKey }) => `${toHex(publicKey).slice(0, 8)}…`)
  return `expected a signature under the key ${first}, got one under another key, ${second}; ask the publisher`
}

const hangsUp: Lie = (_, _exchange, connection) => {
  connection.destroy()
  return undefined
}

const endless: Lie = (_, _exchange, connection) => {
  connection.writeHead(200)
  const more = () => {
    while (!connection.destroyed && connection.write(Buffer.alloc(1 << 20)));
  }
  connection.on('drain', more)
  more()
  return undefined
}

describe('what is no proof against the publisher is said, and following can go on', () => {
  test.each([
    ['a fork that nobody signed', { key: null }],
    ['a fork that another key signed', { key: OTHER }],
  ])('%s', async (_, how) => {
    const { audit, publish, updatable, lie, proxies } = await audited()
    await publish([edit(1)])
    lie(inPlace({ ...updatable.newest.manifest, expires: 4_000_000_000 }, how), [1])
    const outcome = await audit()
    expect([outcome.code, told(outcome), outcome.stderr]).toEqual([
      4,
      ['1 store'],
      expect.stringContaining(`the key vouches for one at most: ask the operator of ${proxies[1].url}\n`),
    ])
    lie(undefined)
    expect(told(await audit())).toEqual(['1 store', '2 list'])
  })

  test('an epoch that nobody signed, or another key', async () => {
    const { audit, make, updatable, lie, sign } = await audited()
    await make([edit(1)])
    expect((await audit()).code).toBe(3)
    lie(inPlace(updatable.newest.manifest, { key: OTHER }))
    const outcome = await audit()
    expect([outcome.code, told(outcome), outcome.stderr]).toEqual([
      4,
      ['1 store'],
      expect.stringContaining(`epoch 2: ${underAnother(PUBLISHER, OTHER)}`),
    ])
    lie(undefined)
    await sign()
    expect((await audit()).code).toBe(0)
  })

  test("another publisher's key than the list's: at once, and with the store kept", async () => {
    const { proxies, audit, store, updatable, lie } = await audited()
    const urls = proxies.map(({ url }) => url).join()
    const wrongly = (store: string) =>
      keyhush('audit', '--servers', urls, '--publisher-key', toHex(OTHER.publicKey), '--store', store, '--once')
    const fresh = join(await temporaryDirectory(), 'audit')
    for (const outcome of [await wrongly(fresh), await wrongly(store)])
      expect([outcome.code, outcome.stderr]).toEqual([4, expect.stringContaining(underAnother(OTHER, PUBLISHER))])
    lie(inPlace(updatable.newest.manifest, { key: null }))
    expect((await audit()).code).toBe(0) // it has kept the signature
    lie(hangsUp)
    expect((await wrongly(store)).stderr).toContain('epoch 1: expected it at all servers, signed')
  })

  test('an epoch that a server or a folder does not keep any more, unless that is a replica that is behind', async () => {
    const { audit, auditIn, proxies, servers, lie } = await audited()
    const forgetful = await opened(await createIn(new MemoryStorage(), dataset), { history: 1 })
    proxies[1].target = (await listening({ datasets: [{ updatable: forgetful }] })).url
    const all = [...servers.map(({ updatable }) => updatable), forgetful]
    for (const n of [1, 2, 3]) {
      for (const each of all) await each.publish(batchOn(each, [edit(n)]))
      for (const each of all) await each.addSignature(signatureOf(each))
    }
    const gone = `${proxies[1].url}: expected the manifest of epoch 2, got none any more; you were away`
    const outcome = await audit()
    expect([outcome.code, told(outcome), outcome.stderr]).toEqual([4, ['1 store'], expect.stringContaining(gone)])
    expect(outcome.stderr).toContain('begin with a new --store')
    expect(told(await auditIn(join(await temporaryDirectory(), 'audit')))).toEqual(['4 export'])

    proxies[1].target = servers[1].url
    const [, ...newest] = [2, 3, 4].map(epoch => all[0]!.manifestOf(1, epoch))
    const folder = Buffer.concat((await Promise.all(newest)).map(manifest => manifest!))
    lie(
      about(
        '/v1/manifests',
        changed(() => folder),
      ),
      [1],
    )
    const ofFolder = await audit()
    expect([ofFolder.code, ofFolder.stderr]).toEqual([4, outcome.stderr])
    const behind = { code: 'epoch_unknown', message: 'another', generation: 1, epoch: 1 }
    lie(
      about('/v1/manifests', () => ({ status: 404, headers: {}, body: Buffer.from(JSON.stringify(behind)) })),
      [1],
    )
    expect((await audit()).code).toBe(3)
    lie(undefined)
    expect((await audit()).code).toBe(0)
  })

  test('a server that is behind', async () => {
    const { audit, make, servers, sign } = await audited()
    await make([edit(1)], {}, [servers[0]])
    expect((await audit()).code).toBe(3)
    await servers[1].updatable.publish(batchOn(servers[1].updatable, [edit(1)]))
    await sign()
    expect((await audit()).code).toBe(0)
  })

  test('a server goes back', async () => {
    const world = await audited()
    await world.publish([edit(1)])
    expect((await world.audit()).code).toBe(0)
    const backup = await servedFrom(dataset, PUBLISHER.publicKey)
    await backup.updatable.addSignature(signatureOf(backup.updatable))
    const { target } = world.proxies[1]
    world.proxies[1].target = backup.url
    const outcome = await world.audit()
    expect([outcome.code, outcome.stderr]).toEqual([4, expect.stringContaining('got 1: it has gone back')])
    world.proxies[1].target = target
    expect((await world.audit()).code).toBe(0)
  })

  test('the newest epoch has expired', async () => {
    const { audit, publish } = await audited()
    await publish([edit(1)], { expires: Math.floor(Date.now() / 1000) + 10_000 })
    expect((await audit()).code).toBe(0)
    const { audit: late, publish: publishTo, updatable, lie } = await audited()
    await publishTo([edit(1)])
    lie(
      inPlace(
        { ...updatable.newest.manifest, expires: 1_000_000_000 },
        { list: await bodyOf(updatable, updatable.newest.manifest.updateListHash) },
      ),
    )
    const outcome = await late()
    expect([outcome.code, told(outcome), outcome.stderr]).toEqual([
      4,
      ['1 store', '2 list'],
      expect.stringContaining('2001-09-09'),
    ])
  })

  test.each([
    ['a page of HTML', (genuine: Reply): Reply => ({ ...genuine, headers: {}, body: Buffer.from('<html>') }), 4],
    ['other bits', changed(body => body.map(byte => byte ^ 0x11)), 4],
    ['half of it', changed(body => body.subarray(0, body.length >> 1)), 4],
    ['nothing', hangsUp, 3],
    ['without an end', endless, 4],
    [
      'a refusal',
      (): Reply => ({ status: 503, headers: {}, body: Buffer.from('{"code":"not_ready","message":"later"}') }),
      3,
    ],
  ] as const)('a server replies %s', async (_, how, code) => {
    const { audit, publish, lie } = await audited()
    await publish([edit(1)])
    for (const path of ['/v1/info', '/v1/']) {
      lie(about(path, how), [1])
      const outcome = await audit()
      expect([path, outcome.code, told(outcome)]).toEqual([path, code, ['1 store']])
    }
    lie(about('/v1/manifests', how), [1]) // which manifest it has it says by its hash
    expect((await audit()).code).toBe(code)
    lie(undefined)
    expect((await audit()).code).toBe(0)
  })

  test('a list that one server withholds or changes comes from another; no server has it: 4', async () => {
    const { audit, publish, lie } = await audited()
    await publish([edit(1)])
    const wrong = about(
      '/v1/blobs/',
      changed(body => body.map(byte => byte ^ 1)),
    )
    lie(wrong, [0, 1])
    const outcome = await audit()
    expect([outcome.code, outcome.stderr]).toEqual([4, expect.stringContaining('got other bytes')])
    lie(undefined, [1])
    expect((await audit()).code).toBe(0)
  })

  test('an epoch that cannot follow, though it is signed', async () => {
    const { audit, publish, updatable, lie } = await audited()
    await publish([edit(1)])
    const { manifest } = updatable.newest
    lie(inPlace({ ...manifest, maxQueries: manifest.maxQueries - 1 }))
    const outcome = await audit()
    expect([outcome.code, outcome.stderr]).toEqual([4, expect.stringContaining('expected an epoch that can follow 1')])
  })

  test('a manifest of another database that the key has signed', async () => {
    const { audit, lie } = await audited()
    const folder = await temporaryFolder()
    onTestFinished(folder.remove)
    const from = await buildInto(folder.path, { format: 'csv', content: 'key,value\na,b\n' })
    const other = await servedFrom(from, PUBLISHER.publicKey)
    lie(inPlace(other.updatable.newest.manifest), [1])
    const outcome = await audit()
    expect([outcome.code, outcome.stderr]).toEqual([4, expect.stringContaining('the key vouches for one at most')])
  })

  test('a signature that verifies, under false names, or with a proof', async () => {
    const { audit, publish, lie } = await audited()
    for (const names of [{ generation: 7 }, { publicKey: '1'.repeat(64) }, { proof: '1'.repeat(64) }]) {
      lie(undefined)
      await publish([edit(1, `${Object.keys(names)}`)])
      lie(
        about('/v1/info', genuine => {
          const info = JSON.parse(Buffer.from(genuine.body).toString())
          const signatures = info.signatures.map((each: object) => ({ ...each, ...names }))
          return { ...genuine, headers: {}, body: Buffer.from(JSON.stringify({ ...info, signatures })) }
        }),
      )
      const outcome = await audit()
      expect([outcome.code, outcome.stderr]).toEqual([0, ''])
    }
  })

  test('more epochs than a server has', async () => {
    const { audit, lie } = await audited()
    lie(
      about('/v1/info', genuine => {
        const info = JSON.parse(Buffer.from(genuine.body).toString())
        const body = Buffer.from(JSON.stringify({ ...info, epochs: Array(300).fill(info.epochs[0]) }))
        return { ...genuine, headers: {}, body }
      }),
    )
    const outcome = await audit()
    expect([outcome.code, outcome.stderr]).toEqual([4, expect.stringContaining('expected at most 256 epochs')])
  })

  thoroughly('a chain without an end', async () => {
    const { audit, updatable, lie } = await audited()
    const { manifest, manifestHash } = updatable.newest
    let [epoch, previousManifest] = [1, Buffer.from(manifestHash, 'hex') as Uint8Array]
    const next = () => {
      epoch += 1
      const made = { ...manifest, epoch, previousManifest, updateListBytes: 40, updateListHash: previousManifest }
      const bytes = encodeManifest(made)
      previousManifest = blake3(bytes)
      return bytes
    }
    lie(
      (genuine, { path }) => {
        if (path.startsWith('/v1/manifests'))
          return { ...genuine, status: 200, headers: {}, body: Buffer.concat(Array.from({ length: 1000 }, next)) }
        if (path !== '/v1/info') return genuine
        const info = JSON.parse(Buffer.from(genuine.body).toString())
        info.epochs.push({ generation: 1, epoch: 4_000_000_000, manifest: '0'.repeat(64) })
        return { ...genuine, headers: {}, body: Buffer.from(JSON.stringify(info)) }
      },
      [1],
    )
    const outcome = await audit()
    expect([outcome.code, outcome.stderr]).toEqual([3, expect.stringContaining('as far as epoch 4000000000 in time')])
  })

  test('another database', async () => {
    const { audit, proxies } = await audited()
    const folder = await temporaryFolder()
    onTestFinished(folder.remove)
    const other = await servedFrom(await buildInto(folder.path, { format: 'csv', content: 'key,value\na,b\n' }))
    proxies[1].target = other.url
    const outcome = await audit()
    expect([outcome.code, outcome.stderr]).toEqual([4, expect.stringContaining('expected this database, got another')])
  })
})

describe('killed at any moment, it continues from its store, and checks nothing less', () => {
  const child = fileURLToPath(new URL('children/audit-and-die.mjs', import.meta.url))

  /** Has an auditor die before and after each effect, in a copy of `begun`, and then calls `afterwards` with its folder. */
  async function killed({ proxies }: World, begun: string | undefined, afterwards: (store: string) => Promise<void>) {
    const urls = proxies.map(({ url }) => url).join()
    for (let effect = 1, isOver = false; !isOver; effect += THOROUGH ? 1 : 7) {
      for (const when of ['before', 'after']) {
        const store = join(await temporaryDirectory(), 'audit')
        if (begun !== undefined) await cp(begun, store, { recursive: true })
        const args = [child, urls, PUBLISHER_KEY, store, `${effect}`, when]
        const dying = spawn(process.execPath, args, { stdio: 'ignore' })
        const [, signal] = (await once(dying, 'exit')) as [number | null, string | null]
        isOver = signal === null
        await afterwards(store)
      }
    }
  }

  thoroughly('while it follows, or writes evidence', async () => {
    const world = await audited()
    await world.publish([edit(1)])
    await world.publish([{ op: 'generation', headroom: 0 }])
    await world.publish([add('new')])
    await world.publish([edit(2)])
    const list = await listOf(world)
    list[RECORD + 20]! ^= 1
    const lie = inPlace(withList(world.updatable.newest.manifest, list), { list })
    world.lie(lie)
    await killed(world, world.store, async store => {
      const found = await world.auditIn(store)
      expect([found.code, found.stderr]).toEqual([1, expect.stringContaining('epoch 5: expected the records')])
      world.lie(undefined)
      expect((await world.auditIn(store)).code).toBe(1)
      await rm(join(store, 'evidence'), { recursive: true })
      const rest = await world.auditIn(store)
      expect([rest.code, told(rest)]).toEqual([0, ['4 store', '5 list']])
      world.lie(lie)
    })
  })

  test('at each write to its store: the next run has the lines that are left, the same store in the end, and no alarm', async () => {
    const world = await audited({ begins: false })
    const folder = await temporaryDirectory()
    const auditing = (storage: Storage, onEpoch: (checked: Checked) => void) =>
      Audit.open({
        ...{ storage, folder, onEpoch },
        servers: world.proxies.map(({ url }) => url),
        publisherKey: PUBLISHER.publicKey,
      })
    const storage = new RememberingStorage()
    const whole: { line: Checked; writes: number }[] = []
    const audit = await auditing(storage, line => whole.push({ line, writes: storage.transactions }))
    await audit.look()
    await world.publish([edit(1), add('new')])
    await world.publish([{ op: 'generation', headroom: 0 }])
    await world.publish([{ op: 'delete', key: 'key 2' }])
    await world.publish([edit(3)])
    await audit.look()
    await audit.close()
    expect(whole.map(({ line }) => line.how)).toEqual(['export', 'list', 'generation', 'list', 'list'])

    const factsOf = ({ milliseconds: _, ...facts }: Checked) => facts
    /** Without signatures: servers show those of two epochs. */
    const storedIn = async (storage: Storage) =>
      (await listed(storage, '')).filter(([key]) => !key.startsWith('signature/'))
    for (let writes = 0; writes <= storage.transactions; writes++) {
      const left = await storage.asOf(writes)
      const lines: Checked[] = []
      const next = await auditing(left, line => lines.push(line))
      await next.look()
      await next.close()
      const [first, ...rest] = lines.map(factsOf)
      const toldBefore = whole.filter(told => told.writes <= writes).length
      if (first!.how === 'export') {
        expect([writes, toldBefore, first!.epoch, rest]).toEqual([writes, 0, 5, []])
        continue
      }
      expect([writes, [toldBefore, toldBefore + 1]]).toEqual([writes, expect.arrayContaining([first!.epoch])])
      const [again, ...remaining] = whole.slice(first!.epoch - 1).map(({ line }) => factsOf(line))
      expect([writes, first, rest]).toEqual([writes, { ...again, how: 'store', entries: 0, bytes: 0 }, remaining])
      expect([writes, await storedIn(left)]).toEqual([writes, await storedIn(storage)])
    }
    expect(await readdir(folder)).toEqual([])
  })

  test('while it begins', async () => {
    const world = await audited({ begins: false })
    await killed(world, undefined, async store => {
      const { code, stdout } = await world.auditIn(store)
      expect([code, JSON.parse(stdout)]).toMatchObject([0, { epoch: 1 }])
      expect(await readdir(store)).not.toContain('download')
    })
  })
})

test('it follows until it is asked to stop, says what is wrong and when that is over, and has figures', async () => {
  const world = await audited()
  const urls = world.proxies.map(({ url }) => url).join()
  const args = ['audit', '--servers', urls, '--publisher-key', PUBLISHER_KEY, '--store', world.store, '--every', '1']
  const { child, printed, finished } = started(process.execPath, [command, ...args, '--metrics', '0'])
  const figure = async (name: string) => {
    const [, url] = /figures at (\S+)/.exec(printed.stderr)!
    const reply = await fetch(url!)
    return Number(new RegExp(`^keyhush_${name} (.*)$`, 'm').exec(await reply.text())?.[1])
  }
  const lines = () => told({ code: 0, ...printed })
  await expect.poll(lines).toEqual(['1 store'])
  await world.publish([edit(1)])
  await expect.poll(lines).toEqual(['1 store', '2 list'])
  await expect.poll(() => figure('audit_agreed_seconds')).toBeGreaterThan(0)
  world.lie(hangsUp, [1])
  await expect.poll(() => printed.stderr).toContain('expected a reply, got none')
  expect([await figure('audit_faults'), await figure('problems')]).toEqual([1, 1])
  world.lie(undefined)
  await expect.poll(() => printed.stderr).toContain('all is right again')
  await world.publish([edit(2)])
  await expect.poll(() => figure('audit_epoch')).toBe(3)
  child.kill('SIGTERM')
  expect((await finished).code).toBe(0)
})

describe('other databases', () => {
  test('without keys: records are edited, go and come by index, and a new generation keeps them', async () => {
    const folder = await temporaryFolder()
    onTestFinished(folder.remove)
    const from = await buildInto(folder.path, { format: 'bin', content: pseudoRandom(800), recordBytes: 8 })
    const { publish, audit, updatable } = await audited({ from })
    await publish([{ op: 'edit', index: 3, value: 'othering' }])
    await publish([
      { op: 'delete', index: 4 },
      { op: 'add', value: 'added to' },
    ])
    await publish([{ op: 'generation', headroom: 1000 }])
    await publish([{ op: 'edit', index: 100, value: 'othering' }])
    const outcome = await audit()
    expect([outcome.code, told(outcome)]).toEqual([0, ['1 store', '2 list', '3 list', '4 generation', '5 list']])
    expect(linesOf(outcome).at(-1)!.manifest).toBe(updatable.newest.manifestHash)
  })

  thoroughly('with a public hint for one server: another than that of the records is found', async () => {
    const folder = await temporaryFolder()
    onTestFinished(folder.remove)
    const expires = Math.floor(Date.now() / 1000) + 10_000
    const from = await buildInto(folder.path, { format: 'csv', content: 'key,value\na,b\n', oneServer: true, expires })
    const world = await audited({ from, begins: false })
    const false1 = falselyHinted(world.updatable.newest.manifest)
    world.lie(inPlace(false1))
    const first = await world.audit()
    expect([first.code, first.stderr]).toEqual([
      4,
      expect.stringContaining('expected the public hint of these records'),
    ])
    world.lie(undefined)
    expect((await world.audit()).code).toBe(0)
    await world.publish([{ op: 'edit', key: 'a', value: 'c' }], { expires })
    expect(told(await world.audit())).toEqual(['1 store', '2 list'])
    await world.publish([{ op: 'edit', key: 'a', value: 'd' }], { expires })
    const list = await listOf(world)
    world.lie(inPlace(falselyHinted(world.updatable.newest.manifest), { list }))
    await expectContradiction(
      world,
      'expected the base, public hint and patch',
      /^list-/,
      /^manifest-2-/,
      /^manifest-3-/,
    )
  })

  test('a folder of files', async () => {
    const path = await temporaryDirectory()
    const [www, own, key] = ['www', 'own', 'key'].map(name => join(path, name)) as [string, string, string]
    await runKeyhush('keygen', '--out', key)
    const { publicKey } = await readKeyFile(key)
    const publish = async (...args: string[]) => {
      const to = ['--folder', www, '--store', own, '--key', key, '--valid-days', '7']
      const hash = toHex(blake3(await readFile(join(dataset, 'manifest.bin'))))
      await runKeyhush('publish', ...args, ...to, '--dataset', dataset, '--trust-base', hash)
    }
    await publish()
    const host = await startStaticHost(filesIn(www))
    onTestFinished(host.close)
    const store = join(path, 'audit')
    const args = ['audit', '--servers', host.url, '--publisher-key', toHex(publicKey), '--store', store, '--once']
    expect((await keyhush(...args)).code).toBe(0)
    for (let n = 0; n < 3; n++) {
      await writeFile(join(path, 'batch.jsonl'), `${JSON.stringify(edit(n))}\n`)
      await publish(join(path, 'batch.jsonl'))
    }
    const outcome = await keyhush(...args)
    expect([outcome.code, outcome.stderr, told(outcome).length]).toEqual([0, '', 4])
  })
})
