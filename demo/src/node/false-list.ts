// A lie of publisher and operators together: the owner's key is replaced, and the signed list of changes says that another key was. The
// servers would not make such a list, so the proxies show it in the place of theirs. An auditor is there as well: it finds that the list
// does not make the records.
//
//   page, auditor ──► proxies: false list, false manifest, its signature ──► servers: true ones

import { execFile } from 'node:child_process'
import { createPrivateKey, sign } from 'node:crypto'
import { decodeManifest, encodeManifest, signedBytes, toHex } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import type { Outcome } from '../page/backstage.js'
import { keyhushCommand } from './paths.js'
import type { Watcher } from './proxy.js'
import type { Publisher } from './publisher.js'

const LIST_HEADER_BYTES = 40
const CONTRADICTS = 1

/** Of an Ed25519 key in PKCS #8, before the seed. */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex')

export interface FalseList {
  readonly publisher: Publisher
  /** the servers themselves, and the proxies in front of them */
  readonly servers: Readonly<Record<'A' | 'B', string>>
  readonly proxies: readonly Watcher[]
  /** the auditor's */
  readonly store: string
}

/** Replaces the owner's key, and hides it. Resolves to what the auditor says. */
export async function hideReplacement(
  lie: FalseList,
): Promise<Outcome<{ readonly epoch: number; readonly auditor: string }>> {
  await audit(lie) // it knows the records before the lie
  const outcome = await lie.publisher.replaceKey(lie.servers, true)
  if ('refusals' in outcome) return outcome
  const { blake3 } = await loadCore()
  const from = `${lie.servers.A}/keys/v1`
  const fetched = async (path: string) => Buffer.from(await (await fetch(`${from}/${path}`)).arrayBuffer())

  const real = { manifest: await fetched('manifest'), list: Buffer.alloc(0) }
  const manifest = decodeManifest(real.manifest)
  real.list = await fetched(`blobs/${toHex(manifest.updateListHash)}`)
  const list = Buffer.from(real.list)
  list.writeUInt32LE((list.readUInt32LE(LIST_HEADER_BYTES) + 1) % manifest.records, LIST_HEADER_BYTES)
  const made = Buffer.from(encodeManifest({ ...manifest, updateListHash: blake3(list) }))
  const signature = (bytes: Buffer) => sign(null, signedBytes(bytes), privateKey(lie.publisher.secretKey))
  const inHex = (bytes: Uint8Array) => Buffer.from(toHex(bytes))
  for (const proxy of lie.proxies) {
    proxy.replace([
      [real.list, list],
      [real.manifest, made],
      [inHex(blake3(real.list)), inHex(blake3(list))],
      [inHex(blake3(real.manifest)), inHex(blake3(made))],
      [inHex(signature(real.manifest)), inHex(signature(made))],
    ])
  }
  return { published: { ...outcome.published, auditor: await audit(lie) } }
}

/** What an auditor says of the epochs that the proxies show; empty: all is right. */
async function audit({ proxies, publisher, store }: FalseList): Promise<string> {
  const servers = proxies.map(({ url }) => `${url}/keys`).join()
  const options = ['--servers', servers, '--publisher-key', publisher.publicKey, '--store', store, '--once']
  return await new Promise((resolve, reject) => {
    execFile(process.execPath, [keyhushCommand, 'audit', ...options], (error, _printed, said) => {
      if (error && error.code !== CONTRADICTS) reject(error)
      // Leaves out where the evidence is, in a folder of this run.
      else resolve(error ? said.trim().replace(/^keyhush: |\. The evidence is .*$/gs, '') : '')
    })
  })
}

function privateKey(seed: Uint8Array) {
  return createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: 'der', type: 'pkcs8' })
}
