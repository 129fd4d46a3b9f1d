// An auditor beside two real servers, which show what a lie says; and forged epochs for such lies.

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { encodeManifest, type Info, type Manifest, type SignatureInfo, signedBytes, toHex } from '@keyhush/protocol'
import { decodeManifests } from '@keyhush/protocol/chain'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { beforeAll, expect, onTestFinished } from 'vitest'
import { type Lie, LyingProxy, type Reply } from '../../tests/support/proxy.js'
import { PUBLISHER, PUBLISHER_KEY } from '../../tests/support/publishing.js'
import { buildInto, temporaryFolder } from '../../tests/support/servers.js'
import { blocksOf, directoryFields } from '../dist/dataset/blocks.js'
import { loadDataset } from '../dist/index.js'
import { keyhush, type Outcome } from './command.js'
import { temporaryDirectory } from './helpers.js'
import { batchOn, bodyOf, servedFrom, signatureOf } from './updatable-helpers.js'

/** Keys `key 0` to `key 39`, with values of up to 20 bytes; of `useDataset`. */
export let dataset: string

/** Builds it for the tests of a file. */
export function useDataset(): void {
  beforeAll(async () => {
    const folder = await temporaryFolder()
    const content = `key,value\n${Array.from({ length: 40 }, (_, i) => `key ${i},value ${i}\n`).join('')}`
    dataset = await buildInto(folder.path, { format: 'csv', content, maxValueBytes: 20, headroom: 60 })
    return folder.remove
  })
}

type Operations = readonly object[]
export const edit = (n: number, value = 'other') => ({ op: 'edit', key: `key ${n}`, value })
export const add = (key: string) => ({ op: 'add', key, value: key })

export type World = Awaited<ReturnType<typeof audited>>

/** Two servers with a proxy before each, a publisher, and an auditor that has seen the first epoch. */
export async function audited({ from = dataset, begins = true } = {}) {
  const servers = [await servedFrom(from, PUBLISHER.publicKey), await servedFrom(from, PUBLISHER.publicKey)] as const
  const proxies = [await LyingProxy.start(servers[0].url), await LyingProxy.start(servers[1].url)] as const
  onTestFinished(async () => {
    for (const proxy of proxies) await proxy.close()
  })
  const [{ updatable }] = servers
  const sign = async () => {
    for (const each of servers) await each.updatable.addSignature(signatureOf(updatable))
  }
  const make = async (operations: Operations, other = {}, where: readonly (typeof servers)[number][] = servers) => {
    const batch = batchOn(updatable, operations, other)
    for (const each of where) await each.updatable.publish(batch)
  }
  const publish = async (operations: Operations, other = {}) => {
    await make(operations, other)
    await sign()
  }
  const store = join(await temporaryDirectory(), 'audit')
  const auditIn = (folder: string) => {
    const servers = proxies.map(({ url }) => url).join()
    return keyhush('audit', '--servers', servers, '--publisher-key', PUBLISHER_KEY, '--store', folder, '--once')
  }
  const audit = () => auditIn(store)
  /** What all servers, or one, show from now on. */
  const lie = (how: Lie | undefined, which: readonly number[] = [0, 1]) => {
    for (const i of which) proxies[i]!.lie = how
  }
  await sign()
  if (begins) expect((await audit()).code).toBe(0)
  return { servers, proxies, updatable, store, make, sign, publish, audit, auditIn, lie }
}

export const linesOf = ({ stdout }: Outcome) =>
  stdout
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as { epoch: number; how: string; entries: number; bytes: number; manifest: string })

export const told = (outcome: Outcome) => linesOf(outcome).map(({ epoch, how }) => `${epoch} ${how}`)

/** What a server shows, signed if there is a key, in the place of its epoch of that number. */
export function inPlace(
  manifest: Manifest,
  { list, key = PUBLISHER }: { list?: Uint8Array; key?: typeof PUBLISHER | null } = {},
): Lie {
  const bytes = encodeManifest(manifest)
  const { generation, epoch } = manifest
  const hash = toHex(blake3(bytes))
  const replied = (genuine: Reply, body: Uint8Array): Reply => ({
    status: 200,
    headers: { ...genuine.headers, 'content-length': `${body.length}` },
    body,
  })
  return (genuine, { path }) => {
    if (path === '/v1/info') {
      const info = JSON.parse(Buffer.from(genuine.body).toString()) as Info
      const epochs = [...info.epochs.filter(each => each.epoch < epoch), { generation, epoch, manifest: hash }]
      const signatures: SignatureInfo[] = info.signatures.filter(each => each.epoch < epoch)
      if (key !== null) {
        const signature = toHex(ed25519.sign(signedBytes(bytes), key.secretKey))
        signatures.push({ publicKey: toHex(key.publicKey), generation, epoch, signature })
      }
      return replied(genuine, Buffer.from(JSON.stringify({ ...info, epochs, signatures })))
    }
    if (path.startsWith('/v1/manifests')) {
      const before = decodeManifests(genuine.body).filter(each => each.manifest.epoch < epoch)
      return replied(genuine, Buffer.concat([...before.map(each => each.bytes), bytes]))
    }
    if (path === '/v1/manifest' || path === `/v1/manifest?generation=${generation}&epoch=${epoch}`)
      return replied(genuine, bytes)
    return list !== undefined && path === `/v1/blobs/${toHex(blake3(list))}` ? replied(genuine, list) : genuine
  }
}

/** An epoch that says of its list, and of nothing else, what another list is. */
export const withList = (manifest: Manifest, list: Uint8Array): Manifest => ({
  ...manifest,
  updateListHash: blake3(list),
  updateListBytes: list.length,
})

export async function listOf({ updatable }: World): Promise<Uint8Array> {
  return Uint8Array.from(await bodyOf(updatable, updatable.newest.manifest.updateListHash))
}

/** It is a contradiction, whose evidence has these files; and so it is when the auditor is started again, with all servers honest. */
export async function expectContradiction(
  { audit, lie, store }: World,
  words: string,
  ...files: readonly RegExp[]
): Promise<void> {
  const outcome = await audit()
  expect([outcome.code, outcome.stderr]).toEqual([1, expect.stringContaining(words)])
  expect(outcome.stderr).toContain(join(store, 'evidence'))
  lie(undefined)
  const again = await audit()
  expect([again.code, again.stderr, again.stdout]).toEqual([1, outcome.stderr, ''])
  const found = (await readdir(join(store, 'evidence'))).sort()
  expect(found).toEqual(['contradiction.json', ...files].map(name => expect.stringMatching(name)))
  const { signatures } = JSON.parse(await readFile(join(store, 'evidence', 'contradiction.json'), 'utf8'))
  for (const { epoch, signature } of signatures as SignatureInfo[]) {
    const manifests = await Promise.all(
      found.filter(name => name.startsWith('manifest')).map(name => readFile(join(store, 'evidence', name))),
    )
    const verifies = manifests.map(bytes =>
      ed25519.verify(Buffer.from(signature, 'hex'), signedBytes(bytes), PUBLISHER.publicKey),
    )
    expect(verifies.filter(is => is).length, `a signature of epoch ${epoch}`).toBe(1)
  }
  expect(signatures.length).toBe(2)
}

/** The epoch after the dataset's, as a list makes it whatever it says. */
export async function forged(list: Uint8Array): Promise<Manifest> {
  const { core, database, manifest, manifestBytes, directory, close } = await loadDataset(dataset)
  onTestFinished(close)
  const { before, after } = core.decodeUpdateList(list)
  database.applyList(list, after)
  const next = core.decodeDirectory(directory, manifest.records).updated(list, before, after)
  const fields = directoryFields(core, next, next.encode(), blocksOf(manifest, next))
  return {
    ...withList({ ...manifest, ...fields }, list),
    ...{ epoch: 2, records: after.records, partitions: after.partitions, previousManifest: blake3(manifestBytes) },
    commitments: database.commitments(),
    contentHashes: database.contentHashes(),
  }
}
