// `keyhush publish` at one server: a copy of the publisher's own says what has to come of a batch, so that nothing is signed
// which that server alone says.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeManifest, encodeManifest, fromHex, parseInfo, signedBytes, toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { expect, test } from 'vitest'
import { createKeyFile, openLmdb } from '../dist/index.js'
import { expectRefused, keyhush } from './command.js'
import { builtDirectory, listening, temporaryDirectory } from './helpers.js'
import { standIn } from './stand-in.js'
import { KEYED, opened, servedFrom } from './updatable-helpers.js'

async function rig() {
  const dir = await temporaryDirectory()
  const path = (name: string) => join(dir, name)
  const { publicKey } = await createKeyFile(path('key'))
  const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  const { app, updatable, url: server } = await servedFrom(dataset, publicKey)
  const base = updatable.newest.manifestHash
  let lie: ((manifest: Uint8Array) => Uint8Array) | undefined
  let lies = /^$/
  const reply = (path: string, body: Buffer) => (lie !== undefined && lies.test(path) ? Buffer.from(lie(body)) : body)
  const url = await standIn(server, { reply })
  const publish = async (operations: readonly object[] | undefined, ...args: string[]) => {
    const file = path('batch.jsonl')
    if (operations !== undefined) await writeFile(file, operations.map(each => `${JSON.stringify(each)}\n`).join(''))
    const batch = operations === undefined ? [] : [file]
    const files = ['--key', path('key'), '--record', path('record')]
    return await keyhush('publish', '--servers', url, ...files, ...args, ...batch)
  }
  const manifest = async () => (await app.inject('/v1/manifest')).rawPayload
  return {
    url,
    path,
    dataset,
    publicKey,
    publish,
    manifest,
    own: ['--store', path('own')],
    begun: ['--store', path('own'), '--dataset', dataset, '--trust-base', base],
    lieWith: (of: typeof lie, at = lies) => {
      lie = of
      lies = at
    },
    /** of the newest epoch, whether a signature of the publisher's is there */
    async isSigned(): Promise<boolean> {
      const bytes = await manifest()
      const { epoch } = decodeManifest(bytes)
      const { signatures } = parseInfo((await app.inject('/v1/info')).json())
      const entry = signatures.find(signature => signature.epoch === epoch)
      return entry !== undefined && ed25519.verify(fromHex(entry.signature), signedBytes(bytes), publicKey)
    },
  }
}

const edit = (value: string) => [{ op: 'edit', key: 'one', value }]

test('the first epoch, a batch, and again; the copy keeps up', async () => {
  const { publish, own, begun, manifest, isSigned } = await rig()
  expect(await publish(undefined, ...begun)).toMatchObject({ code: 0, stderr: '' })
  const first = await publish(edit('x'), ...own)
  expect(first).toMatchObject({ code: 0, stderr: '' })
  expect(first.stdout).toContain('epoch: 2 of generation 1\nchanges: 1\n')
  expect((await publish(edit('x'), ...own)).stdout).toContain('changes: 1 (published before)')
  expect((await publish(edit('y'), ...own)).stdout).toContain('epoch: 3 of generation 1\n')
  expect(decodeManifest(await manifest()).epoch).toBe(3)
  expect(await isSigned()).toBe(true)
})

test('without a copy it is refused, and so is one for a publisher at two', async () => {
  const { publish, own, manifest } = await rig()
  await expectRefused(publish(edit('x')), 'only your own copy can check')
  await expectRefused(publish(edit('x'), ...own), 'give --dataset DIR to create it from')
  for (const [servers, message] of [
    ['https://a.example,https://b.example', 'got several, which check one another'],
    [Array.from({ length: 9 }, (_, i) => `https://${i}.example`).join(), 'expected one URL, or up to 8'],
    ['https://a.example,', 'expected one URL, or up to 8'],
  ] as const) {
    await expectRefused(publish(edit('x'), ...own, '--servers', servers), message)
  }
  expect(decodeManifest(await manifest()).epoch).toBe(1)
})

test('a server that says that something else came of a batch has nothing signed', async () => {
  const { publish, own, begun, lieWith, isSigned } = await rig()
  const other = (bytes: Uint8Array) => {
    const manifest = decodeManifest(bytes)
    const contentHashes = manifest.contentHashes.slice()
    contentHashes[0]! ^= 1
    return encodeManifest({ ...manifest, contentHashes })
  }
  for (const [operations, path] of [
    [undefined, /^\/v1\/manifest$/], // the epoch that is there
    [edit('x'), /^\/v1\/manifest\?/], // the epoch that the batch makes
  ] as const) {
    lieWith(other, path)
    await expectRefused(publish(operations, ...begun), 'THE SERVERS HAVE DIVERGED', 4)
    expect(await isSigned()).toBe(false)
  }
  // The copy has it, and so has the server: it is signed when both say the same.
  lieWith(undefined)
  expect((await publish(edit('x'), ...own)).stdout).toContain('changes: 1 (published before)')
  expect(await isSigned()).toBe(true)
})

test('a lost copy is made again from the dataset and the record, or from the signed epoch at the server', async () => {
  const { publish, own, begun, manifest, url, path, dataset, publicKey } = await rig()
  expect(await publish(undefined, ...begun)).toMatchObject({ code: 0 })
  for (const value of ['x', 'y']) expect(await publish(edit(value), ...own)).toMatchObject({ code: 0 })
  const again = ['--store', path('again'), '--dataset', dataset]
  expect(await publish(undefined, ...again)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('caught up: 2 epochs'),
  })
  const exporting = ['--server', url, '--publisher-key', toHex(publicKey), '--out', path('exported')]
  expect(await keyhush('export', ...exporting)).toMatchObject({ code: 0 })
  const exported = ['--store', path('from export'), '--dataset', path('exported')]
  expect(await publish(edit('z'), ...exported)).toMatchObject({ code: 0, stderr: '' })
  expect(decodeManifest(await manifest()).epoch).toBe(4)
})

test('a server that has lost its disk begins from an export of the publisher’s copy', async () => {
  const { publish, own, begun, manifest, path, publicKey } = await rig()
  expect(await publish(undefined, ...begun)).toMatchObject({ code: 0 })
  expect(await publish(edit('x'), ...own)).toMatchObject({ code: 0 })
  const copy = await opened(await openLmdb(path('own')))
  const { url } = await listening({ datasets: [{ updatable: copy }] })
  const exporting = ['--server', url, '--publisher-key', toHex(publicKey), '--out', path('exported')]
  expect(await keyhush('export', ...exporting)).toMatchObject({ code: 0, stderr: '' })
  expect(await readFile(path('exported/manifest.bin'))).toEqual(await manifest())
})

test('a new file makes the batches: the own copy is what it is compared with', async () => {
  const { publish, own, begun, path, manifest, isSigned } = await rig()
  const list = async (text: string, ...args: string[]) => {
    await writeFile(path('new.csv'), text)
    return await publish(undefined, '--list', path('new.csv'), ...args)
  }
  const first = 'key,value\none,edited\ntwo,second\nfour,4\nthree,third\n'
  await expectRefused(list(first, ...own, '--dry-run'), 'expected your own copy')
  const counts = 'adds: 1\nedits: 1\ndeletes: 0\n'
  expect((await list(first, ...begun)).stdout).toMatch(
    new RegExp(`^epoch: 2 of generation 1\n${counts}manifest hash: `),
  )
  expect(await list(first, ...own)).toMatchObject({ code: 0, stdout: expect.stringContaining('changes: no changes\n') })
  const second = 'key,value\none,edited\ntwo,second\nfour,4\n'
  expect((await list(second, ...own, '--dry-run')).stdout).toBe(
    'adds: 0\nedits: 0\ndeletes: 1\nbatches: 1\nbatch bytes: 65\nclients download: the changes\n' +
      'to publish it: add --allow-deletes 1\n',
  )
  const refused = await list(second, ...own)
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('add --allow-deletes 1\n')])
  expect(decodeManifest(await manifest()).epoch).toBe(2)
  expect((await list(second, ...own, '--allow-deletes', '1')).stdout).toContain('deletes: 1\n')
  expect([decodeManifest(await manifest()).epoch, await isSigned()]).toEqual([3, true])
  const malformed = await list(`${first}one,again\n`, ...own)
  expect([malformed.code, malformed.stderr]).toEqual([
    1,
    expect.stringMatching(/new\.csv:6: the same key as on line 2/),
  ])
})
