// A server that lost its disk begins from what another exports, at the epoch there is; or it is brought there batch by batch.

import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeManifest, toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { describe, expect, onTestFinished, test } from 'vitest'
import { PUBLISHER_KEY } from '../../tests/support/publishing.js'
import { loadDataset, MemoryStorage, UpdatableDatabase } from '../dist/index.js'
import { keyhush } from './command.js'
import { contentsOf, createIn, listening, post, pseudoRandom, queryAt, running, temporaryDirectory } from './helpers.js'
import { standIn } from './stand-in.js'
import { batchOn, keyed, opened, signatureOf, storageOf } from './updatable-helpers.js'

const KEY = ['--publisher-key', PUBLISHER_KEY]

/** What `keyhush export` makes of a database that is served, and signed. */
async function exported(updatable: UpdatableDatabase): Promise<string> {
  const out = join(await temporaryDirectory(), 'exported')
  await updatable.addSignature(signatureOf(updatable))
  const { url } = await listening({ datasets: [{ updatable }] })
  const { code, stdout, stderr } = await keyhush('export', '--server', url, ...KEY, '--out', out)
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toContain(`manifest hash: ${updatable.newest.manifestHash}\n`)
  return out
}

async function loaded(dir: string) {
  const dataset = await loadDataset(dir)
  onTestFinished(() => dataset.close())
  return dataset
}

/** A new store that begins with an exported epoch. */
async function begunFrom(dir: string): Promise<{ storage: MemoryStorage; updatable: UpdatableDatabase }> {
  const storage = await createIn(new MemoryStorage(), dir)
  return { storage, updatable: await opened(storage) }
}

const publish = (updatable: UpdatableDatabase, operations: readonly object[]) =>
  updatable.publish(batchOn(updatable, operations))
const add = (key: string, value: string) => ({ op: 'add', key, value })
const edit = (key: string, value: string) => ({ op: 'edit', key, value })
const remove = (key: string) => ({ op: 'delete', key })

/** Databases with some epochs behind them. */
const kinds = {
  'of its first epoch': () => keyed(),
  'with keys, of which some are gone': async () => {
    const updatable = await keyed()
    for (const batch of [[add('four', '4'), remove('two')], [edit('one', 'x'), add('five', '5')], [remove('four')]])
      await publish(updatable, batch)
    return updatable
  },
  'of a generation that a batch began': async () => {
    const updatable = await keyed()
    await publish(updatable, [add('four', '4'), remove('two')])
    await publish(updatable, [{ op: 'generation', headroom: 100 }])
    return updatable
  },
  'of an epoch after that': async () => {
    const updatable = await keyed({ proofs: 'tags' })
    await publish(updatable, [{ op: 'generation' }])
    await publish(updatable, [add('four', '4'), remove('one')])
    return updatable
  },
  'without keys': async () => {
    const updatable = await opened(await storageOf('a.bin', pseudoRandom(640), { recordBytes: 32, headroom: 40 }))
    const value = 'x'.repeat(32)
    await publish(updatable, [
      { op: 'edit', index: 3, value },
      { op: 'add', value },
    ])
    return updatable
  },
}

describe.each(Object.entries(kinds))('the export of a database %s', (_, make) => {
  test('is served as the very same epoch, and holds what anybody can download and no more', async () => {
    const updatable = await make()
    const out = await exported(updatable)
    const dataset = await loaded(out)
    const { manifest, manifestHash } = updatable.newest
    expect(dataset.manifestHash).toBe(manifestHash)
    const app = await running({ datasets: [{ dataset }] })
    const original = await running({ datasets: [{ updatable }] })
    const ask = async (of: typeof app) => (await post(of, '/v1/answer', queryAt(manifest, 0))).rawPayload
    expect(await ask(app)).toEqual(await ask(original))
    for (const [path, bytes] of await contentsOf(out)) {
      const url = path === '/manifest.bin' ? '/v1/manifest' : `/v1${path}`
      expect((await original.inject(url)).rawPayload.equals(bytes)).toBe(true)
      expect((await app.inject(url)).rawPayload.equals(bytes)).toBe(true)
    }
  })

  test('begins a store that goes on as the other does, restarts included, and tells clients one epoch behind what changed', async () => {
    const updatable = await make()
    const { storage, updatable: begun } = await begunFrom(await exported(updatable))
    const { epoch, updateListBytes, updateListHash } = updatable.newest.manifest
    expect(begun.newest.manifestHash).toBe(updatable.newest.manifestHash)
    if (updateListBytes > 0) {
      expect(await begun.since(epoch - 1)).toEqual(await updatable.since(epoch - 1))
      expect((await begun.findBlob(toHex(updateListHash)))?.bytes).toBe(updateListBytes)
    }
    expect(begun.status(epoch)).toMatchObject({ batch: '' })
    const again = await UpdatableDatabase.open(storage)
    onTestFinished(() => again.close())
    const batches = updatable.newest.manifest.keyed
      ? [[add('new', '1')], [edit('three', 'y'), remove('new')]]
      : [[{ op: 'edit', index: 0, value: 'y'.repeat(32) }], [{ op: 'add', value: 'z'.repeat(32) }]]
    for (const operations of batches) {
      const batch = batchOn(updatable, operations)
      const made = await updatable.publish(batch)
      expect(await again.publish(batch)).toEqual(made)
      const restarted = await opened(storage)
      expect(restarted.list()).toEqual(updatable.list().filter(each => each.epoch >= epoch))
    }
  })
})

describe('a server that is exported from', () => {
  const changed = async () => {
    const updatable = await keyed()
    await publish(updatable, [add('four', '4')])
    return updatable
  }

  test('cannot pass other bytes off, nor endless ones, and nothing is left of the attempt', async () => {
    const updatable = await changed()
    await updatable.addSignature(signatureOf(updatable))
    const { url } = await listening({ datasets: [{ updatable }] })
    const lies: Record<string, (body: Buffer) => Buffer> = {
      flipped: body => Buffer.from(body.map((byte, i) => (i === 0 ? byte ^ 1 : byte))),
      short: body => body.subarray(1),
      long: body => Buffer.concat([body, Buffer.alloc(1 << 20)]),
    }
    const { partitions } = updatable.newest.manifest
    for (const lie of Object.values(lies)) {
      for (const which of [0, partitions, partitions + 1]) {
        let blobs = 0
        const reply = (path: string, body: Buffer) =>
          path.startsWith('/v1/blobs/') && blobs++ === which ? lie(body) : body
        const parent = await temporaryDirectory()
        const args = ['--server', await standIn(url, { reply }), ...KEY, '--out', join(parent, 'out')]
        const { code, stderr } = await keyhush('export', ...args)
        expect([code, stderr]).toEqual([1, expect.stringContaining('got other bytes')])
        expect(await readdir(parent)).toEqual([])
      }
    }
  })

  test('is believed only what the publisher has signed', async () => {
    const updatable = await keyed()
    const before = signatureOf(updatable)
    await publish(updatable, [add('four', '4')])
    const { url } = await listening({ datasets: [{ updatable }] })
    const parent = await temporaryDirectory()
    const run = () => keyhush('export', '--server', url, ...KEY, '--out', join(parent, 'out'))
    expect((await run()).stderr).toContain("expected this publisher's signature, got none")
    // Of the epoch before, and another's of this one.
    await updatable.addSignature(before)
    await updatable.addSignature(signatureOf(updatable, ed25519.keygen(new Uint8Array(32).fill(4))))
    expect(await run()).toMatchObject({ code: 1, stderr: expect.stringContaining('got one under another key') })
    expect(await readdir(parent)).toEqual([])
    await updatable.addSignature(signatureOf(updatable))
    expect(await run()).toMatchObject({ code: 0, stdout: expect.stringContaining('epoch: 2 of generation 1\n') })
  })

  // It has all of the epoch before the newest, too.
  test.each([
    [1, 2],
    [2, 4],
  ])('may make %i epochs meanwhile', async (rounds, exported) => {
    const updatable = await changed()
    const { url } = await listening({ datasets: [{ updatable }] })
    let turned = false
    const asked = async () => {
      if (turned) return
      turned = true
      for (let round = 0; round < rounds; round++) {
        await publish(updatable, [edit('one', `later ${round}`)])
        await updatable.addSignature(signatureOf(updatable))
      }
    }
    await updatable.addSignature(signatureOf(updatable))
    const pending: Promise<void>[] = []
    const reply = (path: string, body: Buffer) => {
      if (path === '/v1/manifest') pending.push(asked())
      return body
    }
    const out = join(await temporaryDirectory(), 'out')
    const { code, stderr } = await keyhush('export', '--server', await standIn(url, { reply }), ...KEY, '--out', out)
    expect([code, stderr]).toEqual([0, ''])
    await Promise.all(pending)
    expect(decodeManifest(await readFile(join(out, 'manifest.bin'))).epoch).toBe(exported)
  })
})

test('an export in which anything was changed is not served', async () => {
  const updatable = await keyed()
  await publish(updatable, [add('four', '4'), remove('one')])
  const out = await exported(updatable)
  const { updateListHash, directoryHash } = updatable.newest.manifest
  for (const hash of [updateListHash, directoryHash]) {
    const path = join(out, 'blobs', toHex(hash))
    const bytes = await readFile(path)
    for (const wrong of [bytes.subarray(1), Buffer.from(bytes.map((byte, i) => (i === 9 ? byte ^ 1 : byte)))]) {
      await writeFile(path, wrong)
      await expect(loadDataset(out)).rejects.toThrow(path)
    }
    await writeFile(path, bytes)
  }
  expect((await loaded(out)).manifestHash).toBe(updatable.newest.manifestHash)
})
