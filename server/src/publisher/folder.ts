// Writes a folder that any static host can serve in place of a server (docs/operations/static.md). Each file is replaced whole.
// The order is such that a reader always finds what a manifest names, during the writing and after a crash.

import * as fs from 'node:fs/promises'
import { join, sep } from 'node:path'
import { buffer } from 'node:stream/consumers'
import {
  decodeManifest,
  encodeEvent,
  equalBytes,
  FORMAT,
  type Info,
  type Manifest,
  type SignatureInfo,
  toHex,
  WireError,
} from '@keyhush/protocol'
import { PublishError } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import { SOFTWARE } from '../base/version.js'
import { type Disk, FOR_ALL, LEFT_BY_A_CRASH, makeShown, writeWhole } from '../base/whole-file.js'
import type { KeptSignature } from '../database/epoch-store.js'
import { CHAIN_BYTES, CHAIN_MANIFESTS } from '../database/history.js'
import { withoutText } from '../database/signatures.js'
import type { UpdatableDatabase } from '../database/updatable.js'
import { blobsOf } from '../dataset/directory.js'
import { PublishedServer } from './server.js'

/** The publisher's own copy. */
type Copy = Pick<
  UpdatableDatabase,
  'databaseId' | 'newest' | 'answerable' | 'list' | 'status' | 'manifestOf' | 'signaturesOf' | 'findBlob'
>

const [MANIFEST, BLOBS] = [join('v1', 'manifest'), join('v1', 'blobs')]
const BLOB = /^[0-9a-f]{64}$/
/** The publisher's note: the blobs that no epoch needs any more, with the time since when. A copied folder has other times of files. */
const UNNEEDED = '.unneeded'
/** How long such a blob stays: for downloads under way. */
const KEPT_MILLISECONDS = 24 * 60 * 60 * 1000
/** A clock may be so much behind that of who wrote the folder before. */
const BEHIND_MILLISECONDS = 60 * 60 * 1000
/** Clients read no longer `/v1/info`; this leaves room for the rest of it. */
const SIGNATURES_BYTES = 60_000

/** Written once, so that the publisher can change them. Several hosts know files of these names. */
const OF_THE_HOST = {
  _headers: `/*
  Access-Control-Allow-Origin: *
  X-Content-Type-Options: nosniff
${['info', 'manifest', 'manifests', 'events'].map(name => `/v1/${name}\n  Content-Type: application/octet-stream\n  Cache-Control: public, max-age=60\n`).join('')}/v1/blobs/*
  Content-Type: application/octet-stream
  Cache-Control: public, max-age=31536000, immutable
`,
  '404.html': '<!doctype html>\n<title>Not found</title>\n<p>Not found\n',
  '.nojekyll': '',
}

/**
 * Throws PublishError if the copy must not be written there: the folder has another database, or is further, or contains one of the publisher's
 * `secrets`, which its host would show to everybody.
 */
export async function checkFolder(folder: string, copy: Copy, secrets: readonly string[]): Promise<void> {
  const root = await inFolder(folder, () => fs.realpath(folder).catch(missing))
  for (const file of secrets) {
    if (root === undefined || !(await fs.realpath(file)).startsWith(join(root, sep))) continue
    throw new PublishError(
      `${folder}: expected a folder without secrets, got one that contains ${file}, which its host would show to everybody. Nothing was ` +
        'published. Name another folder, and if you have uploaded this one, make a new key',
    )
  }
  const written = await inFolder(folder, () => fs.stat(join(folder, MANIFEST)).catch(missing))
  if (written !== undefined && written.mtimeMs > Date.now() + BEHIND_MILLISECONDS) {
    throw new PublishError(
      `${folder}: expected a clock that goes on, got ${new Date().toISOString()}, and the folder was written at ` +
        `${written.mtime.toISOString()}. Nothing was published: an expiry by this clock may be over. Set the clock; if it is right, ` +
        `\`touch ${join(folder, MANIFEST)}\``,
    )
  }
  const bytes = await inFolder(folder, () => fs.readFile(join(folder, MANIFEST)).catch(missing))
  const manifest = bytes && readable(bytes)
  if (bytes !== undefined && manifest !== undefined) await checkBehind(folder, { manifest, bytes }, copy)
}

/** Throws PublishError if what a host serves has another database, or is further than the copy: that was restored from a backup. */
export async function checkHost(url: string, copy: Copy): Promise<void> {
  const host = new PublishedServer(url)
  await checkBehind(host.name, await host.newest(), copy)
}

async function checkBehind(place: string, { manifest, bytes }: KnownManifest, copy: Copy): Promise<void> {
  const { newest } = copy
  if (!equalBytes(manifest.databaseId, copy.databaseId))
    throw new PublishError(`${place}: expected this database, got another one; name another place`)
  if (manifest.epoch > newest.manifest.epoch) {
    throw new PublishError(
      `${place}: expected epoch ${newest.manifest.epoch} at most, where your own copy is, got epoch ${manifest.epoch}. Nothing was ` +
        'published. Give the --store that wrote it; or begin a new one from `keyhush export` of what your host serves',
      4,
    )
  }
  const { epoch, generation } = manifest
  const own = epoch === newest.manifest.epoch ? newest.manifestBytes : await copy.manifestOf(generation, epoch)
  if (own === undefined || equalBytes(own, bytes)) return
  throw new PublishError(
    `${place}: expected epoch ${manifest.epoch} of your own copy, got another manifest. Nothing was published. Find out who wrote it`,
    4,
  )
}

/** After a crash at any step what is there opens, and the next call goes on. */
export async function writeFolder(folder: string, copy: Copy, disk: Disk = fs): Promise<void> {
  await inFolder(folder, async () => {
    const chain = await chainOf(copy)
    const wanted = blobsIn(copy, chain)
    const put = async (name: string, content: Uint8Array | string) => {
      const [path, bytes] = [join(folder, name), Buffer.from(content)]
      if (!(await fs.readFile(path).catch(missing))?.equals(bytes)) await writeWhole(path, bytes, FOR_ALL, disk)
    }
    await makeShown(join(folder, BLOBS), disk)
    for (const [name, content] of Object.entries(OF_THE_HOST)) {
      if ((await fs.stat(join(folder, name)).catch(missing)) === undefined) await put(name, content)
    }
    for (const hash of wanted) await put(join(BLOBS, hash), await blobOf(copy, hash))
    const signatures = await signaturesOf(copy, chain)
    for (const { proof, proofText } of signatures) {
      if (proof === undefined || proofText === undefined) continue
      wanted.add(proof)
      await put(join(BLOBS, proof), proofText)
    }
    const { manifest, manifestBytes } = copy.newest
    await put(join('v1', 'manifests'), Buffer.concat(chain.map(({ bytes }) => bytes)))
    await put(join('v1', 'info'), JSON.stringify(infoOf(copy, chain, signatures.map(withoutText))))
    await put(MANIFEST, manifestBytes)
    await put(join('v1', 'events'), encodeEvent(manifest))
    await put(UNNEEDED, JSON.stringify(await tidy(folder, wanted, disk)))
  })
}

/** Removes what no epoch has needed for KEPT_MILLISECONDS. Resolves to what UNNEEDED has to say of the others. */
async function tidy(
  folder: string,
  wanted: ReadonlySet<string>,
  disk: Disk,
): Promise<Readonly<Record<string, number>>> {
  const [now, noted] = [Date.now(), await notedIn(folder)]
  const unneeded: Record<string, number> = {}
  for (const part of ['', 'v1', BLOBS]) {
    for (const name of await fs.readdir(join(folder, part))) {
      const path = join(folder, part, name)
      if (LEFT_BY_A_CRASH.test(name)) await disk.rm(path)
      if (part !== BLOBS || wanted.has(name) || !BLOB.test(name)) continue
      const since = Math.min(noted[name] ?? now, now) // a clock may have been ahead
      if (since < now - KEPT_MILLISECONDS) await disk.rm(path)
      else unneeded[name] = since
    }
  }
  return unneeded
}

/** Without a readable note the day begins anew. */
async function notedIn(folder: string): Promise<Readonly<Record<string, number>>> {
  const text = await fs.readFile(join(folder, UNNEEDED), 'utf8').catch(missing)
  try {
    return JSON.parse(text ?? '{}') ?? {}
  } catch {
    return {}
  }
}

/** The newest manifests, as many as one reply of a server has. */
async function chainOf(copy: Copy): Promise<readonly KnownManifest[]> {
  const { manifest, manifestBytes } = copy.newest
  const chain: KnownManifest[] = [{ manifest, bytes: manifestBytes }]
  for (let bytes = manifestBytes.length; chain.length < CHAIN_MANIFESTS; ) {
    const { epoch, generation = 0 } = copy.status(chain[0]!.manifest.epoch - 1) ?? {}
    const before = epoch === undefined ? undefined : await copy.manifestOf(generation, epoch)
    if (before === undefined || bytes + before.length > CHAIN_BYTES) break
    chain.unshift({ manifest: decodeManifest(before), bytes: before })
    bytes += before.length
  }
  return chain
}

/** Names of the blobs that clients may ask for: all of the epochs that a server would answer, and the update lists of the chain. */
function blobsIn(copy: Copy, chain: readonly KnownManifest[]): Set<string> {
  const all = copy.answerable().flatMap(({ manifest }) => blobsOf(manifest).map(({ hash }) => hash))
  const lists = chain.flatMap(({ manifest: { updateListBytes, updateListHash } }) =>
    updateListBytes > 0 ? [updateListHash] : [],
  )
  return new Set([...all, ...lists].map(toHex))
}

async function blobOf(copy: Copy, hash: string): Promise<Uint8Array> {
  const blob = await copy.findBlob(hash)
  if (blob === undefined)
    throw new Error(`expected blob ${hash} in the publisher's own copy, got none; begin a new one`)
  return await buffer(await blob.open(0, blob.bytes - 1))
}

/** Those of all manifests, or of the newest, as many as `/v1/info` has room for. */
async function signaturesOf(copy: Copy, chain: readonly KnownManifest[]): Promise<readonly KeptSignature[]> {
  const signatures: KeptSignature[] = []
  for (const { manifest } of [...chain].reverse()) {
    for (const signature of await copy.signaturesOf(manifest.epoch)) {
      if (JSON.stringify(signatures.map(withoutText)).length < SIGNATURES_BYTES) signatures.unshift(signature)
    }
  }
  return signatures
}

/** As a server's `/v1/info`, but that it offers nothing that is computed. */
function infoOf(copy: Copy, chain: readonly KnownManifest[], signatures: readonly SignatureInfo[]): Info {
  return {
    format: FORMAT,
    software: SOFTWARE,
    database: toHex(copy.databaseId),
    epochs: copy.list(),
    offers: {
      proofs: [],
      updates: true,
      push: false,
      blobs: true,
      fence: false,
      instant: false,
      single: false,
      oneServer: false,
      history: chain.length - 1,
    },
    signatures,
  }
}

/** Undefined: it is cut, or of something else, and is written anew. */
function readable(manifest: Uint8Array): Manifest | undefined {
  try {
    return decodeManifest(manifest)
  } catch (error) {
    if (error instanceof WireError) return undefined
    throw error
  }
}

function missing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

/** Throws PublishError for what the file system refuses. */
async function inFolder<T>(folder: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const { code, syscall, message } = error as NodeJS.ErrnoException
    if (code === undefined || syscall === undefined) throw error
    throw new PublishError(
      `${folder}: expected a folder that can be written, got ${message}. What is published is in --store: mend the folder, and run it again`,
      3,
    )
  }
}
