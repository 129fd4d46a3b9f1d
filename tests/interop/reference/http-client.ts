// A whole client of docs/protocol.md, "What a client must do", over fetch. It keeps its state in memory and gives up at
// the first failure: whoever loses an answer has to make a new one.

import { equalBytes } from '@noble/ciphers/utils.js'
import { bytesToHex, randomBytes } from '@noble/hashes/utils.js'
import { type Directory, decodeDirectory, indexOf } from './directory.js'
import { fingerprint, hash } from './hash.js'
import { partitionBytes, type Suite } from './layout.js'
import { decodeManifest, type Manifest } from './manifest.js'
import { decodeAnswer, type Entries, encodeQuery, type Vectors } from './message.js'
import { decodeRecord } from './record.js'
import { Hint } from './scheme.js'

export class ReferenceClient {
  private constructor(
    private readonly manifest: Manifest,
    private readonly directory: Directory | undefined,
    private readonly hint: Hint,
    private readonly suite: Suite,
    private readonly retrieveServer: string,
    private readonly refreshServer: string,
  ) {}

  static async open(a: string, b: string, suite: Suite = 1): Promise<ReferenceClient> {
    // 1
    if (new URL(a).origin === new URL(b).origin) throw new Error('two servers of one origin')
    const [manifest, other] = await Promise.all([a, b].map(server => get(`${server}/v1/manifest`)))
    if (!equalBytes(manifest!, other!)) throw new Error('the servers disagree')
    const parameters = decodeManifest(manifest!)
    // 2
    const partitions = await Promise.all(
      parameters.contentHashes.map(async (contentHash, q) => {
        const partition = await getBlob(q % 2 === 0 ? a : b, contentHash)
        if (partition.length !== partitionBytes(parameters)) throw new Error('a partition of another length')
        return partition
      }),
    )
    const directory = parameters.keyed
      ? decodeDirectory(await getBlob(a, parameters.directoryHash), parameters.records)
      : undefined
    const hint = new Hint(parameters, parameters.commitments, partitions, randomBytes(32), suite)
    // 3
    const [retrieve, refresh] = randomBytes(1)[0]! < 128 ? [a, b] : [b, a]
    return new ReferenceClient(parameters, directory, hint, suite, retrieve, refresh)
  }

  /** The value at an index; undefined: an empty slot. */
  async at(index: number): Promise<Uint8Array | undefined> {
    const [record] = await this.#lookUp([index])
    return decodeRecord(this.manifest, record!)?.value
  }

  /** The values of keys, undefined where they are absent, in one round trip. */
  async get(keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]> {
    const indices = keys.map(key => this.#indexOf(fingerprint(key)))
    const records = await this.#lookUp(indices)
    // 7
    return records.map((bytes, i) => {
      const record = decodeRecord(this.manifest, bytes)
      if (record === undefined) return undefined
      if (equalBytes(record.fingerprint, fingerprint(keys[i]!))) return record.value
      if (this.#indexOf(record.fingerprint) !== indices[i]) throw new Error('the local state is corrupt')
      return undefined
    })
  }

  #indexOf(print: Uint8Array): number {
    return indexOf(this.directory!, print, this.manifest.records)
  }

  async #lookUp(indices: readonly number[]): Promise<Uint8Array[]> {
    const lookup = this.hint.query(indices, randomBytes(32))
    const [retrieved, refreshed] = await Promise.all([
      this.#ask(this.retrieveServer, lookup.retrieve),
      this.#ask(this.refreshServer, lookup.refresh),
    ])
    return this.hint.recon(lookup, retrieved, refreshed)
  }

  async #ask(server: string, vectors: Vectors): Promise<Entries> {
    const query = encodeQuery(this.manifest, vectors, this.suite)
    const answer = await call(`${server}/v1/answer`, { method: 'POST', body: Uint8Array.from(query) })
    return decodeAnswer(this.manifest, vectors.length, answer, this.suite)
  }
}

const get = (url: string) => call(url, {})

async function getBlob(server: string, contentHash: Uint8Array): Promise<Uint8Array> {
  const blob = await get(`${server}/v1/blobs/${bytesToHex(contentHash)}`)
  if (!equalBytes(hash(blob), contentHash)) throw new Error('a blob of another hash')
  return blob
}

async function call(url: string, init: { method?: string; body?: Uint8Array<ArrayBuffer> }): Promise<Uint8Array> {
  const response = await fetch(url, { ...init, redirect: 'error', credentials: 'omit', referrerPolicy: 'no-referrer' })
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
  if (response.headers.has('content-encoding')) throw new Error('an answer with a Content-Encoding')
  return new Uint8Array(await response.arrayBuffer())
}
