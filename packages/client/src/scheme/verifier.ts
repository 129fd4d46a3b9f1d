// What verifies answers of suite 6 (docs/protocol.md, Pointproofs): a WebAssembly module of its own, a key and row lists. All
// are public, checked by what both servers have agreed on, and had before anything of a lookup leaves: what fails here costs
// no hint.

import {
  encodeManifest,
  equalBytes,
  HEADER_BYTES,
  type Manifest,
  POINTPROOF_BYTES,
  POINTPROOFS_KEY_BYTES,
  partitionBlocks,
  rowListsBytes,
  toHex,
  updatedRowLists,
  updateEntries,
  WireError,
} from '@keyhush/protocol'
import type { Pointproofs, PointproofsVerifier } from '@keyhush/wasm/pointproofs'
import { ProtocolError, StorageError, TamperedError, UnsupportedError } from '../base/errors.js'
import { coreCode, inCore } from '../platform/core.js'
import { startPointproofs } from '../platform/starting.js'
import { withRetry } from '../servers/retry.js'
import { getWholeBlob } from '../servers/transport.js'
import type { SchemeContext, Sources, Update } from './scheme.js'

/** What is fetched for it, and held. */
export function verifierBytes(manifest: Manifest): number {
  return POINTPROOFS_KEY_BYTES + rowListsBytes(manifest)
}

/** A key and row lists that are the ones of a manifest, and what the module has made of them. */
interface Ready {
  readonly handle: PointproofsVerifier
  readonly manifest: Manifest
  readonly manifestHash: Uint8Array
}

type Fetching = Pick<Sources, 'servers' | 'failures' | 'received'>

/** What verifies the answers to one hint, as epochs go by. */
export class Verifier {
  readonly #context: SchemeContext
  /** key and row lists, one behind the other, as of the manifest they were checked by last */
  #bytes: Uint8Array | undefined
  #ready: Ready | undefined

  constructor(context: SchemeContext) {
    this.#context = context
  }

  /** What is held without the module; undefined: nothing yet. */
  get bytes(): Uint8Array | undefined {
    return this.#bytes
  }

  /** Takes up what another life of the page has held, if it is what this manifest, of suite 6, names. */
  recall(manifest: Manifest, bytes: Uint8Array): void {
    const [key, rowLists] = partsOf(bytes)
    const { keyHash, rowsHash } = manifest.pointproofs!
    if (this.#has(keyHash, key) && this.#has(rowsHash, rowLists)) this.#bytes = bytes
  }

  /**
   * Makes ready for a manifest of suite 6, and fetches for that what is not at hand; undefined: it is ready. Throws what its servers
   * failed with, UnsupportedError, and ProtocolError for what both vouch for.
   */
  equip(manifest: Manifest, sources: Fetching, signal: AbortSignal): Promise<void> | undefined {
    return this.#isFor(manifest) ? undefined : this.#equip(manifest, sources, signal)
  }

  async #equip(manifest: Manifest, sources: Fetching, signal: AbortSignal): Promise<void> {
    const { environment, options } = this.#context
    const { keyHash, rowsHash } = manifest.pointproofs!
    assertCeremony(manifest, options.allowDevelopmentCeremony === true)
    const module = await startPointproofs(environment)
    const [key, rowLists] = this.#bytes === undefined ? [] : partsOf(this.#bytes)
    const rowsNow = await this.#blob(
      rowLists,
      rowsHash,
      rowListsBytes(manifest),
      'the row commitments',
      sources,
      signal,
    )
    const keyNow = await this.#blob(key, keyHash, POINTPROOFS_KEY_BYTES, 'the bytes of the key', sources, signal)
    await environment.pause()
    signal.throwIfAborted()
    if (keyNow !== key || rowsNow !== rowLists) this.#bytes = joinedParts(keyNow, rowsNow)
    try {
      this.#makeReady(module, keyNow, rowsNow, manifest)
    } catch (error) {
      if (coreCode(error) === undefined) throw error
      const all = sources.servers.map(({ server }) => server.name).join(' and ')
      throw new ProtocolError(all, 'what they publish to verify with is malformed; ask their operators')
    }
  }

  /** Throws the module's errors. */
  #makeReady(module: Pointproofs, key: Uint8Array, rowLists: Uint8Array, manifest: Manifest): void {
    const { partitions, recordBytes, blockRecords } = manifest
    const { keyHash, development } = manifest.pointproofs!
    const shape = { partitions, partitionRecords: partitionBlocks(manifest), recordBytes: recordBytes * blockRecords }
    const handle = guarded(() => module.verifier(key, keyHash, development, shape, rowLists))
    this.#drop()
    this.#ready = { handle, manifest, manifestHash: this.#hash(encodeManifest(manifest)) }
  }

  /** What is held already, if it has this hash, else from the first server whose bytes have it. */
  async #blob(
    held: Uint8Array | undefined,
    hash: Uint8Array,
    bytes: number,
    what: string,
    { servers, failures, received }: Fetching,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    if (held !== undefined && this.#has(hash, held)) {
      received(bytes)
      return held
    }
    for (const [s, link] of servers.entries()) {
      if (failures.failed[s]) continue
      try {
        const found = await withRetry(link, signal, async () => {
          const blob = await getWholeBlob(link, toHex(hash), bytes, signal)
          if (this.#has(hash, blob)) return blob
          throw new TamperedError(link.server.name, `${what} it sent do not have the hash both servers agreed on`)
        })
        received(bytes)
        return found
      } catch (error) {
        failures.note(s, error, signal)
      }
    }
    throw failures.error
  }

  /**
   * Follows an update. Where the rows behind its list do not lead to those that its manifest names, all are fetched when they
   * are needed, and nothing is lost.
   */
  follow({ manifest, list, rows }: Update): void {
    this.#drop()
    if (this.#bytes === undefined) return
    const [key, rowLists] = partsOf(this.#bytes)
    try {
      const indices = Array.from(updateEntries(list, manifest.recordBytes), ({ index }) => index)
      const updated = updatedRowLists(rowLists, manifest, indices, rows)
      if (this.#has(manifest.pointproofs!.rowsHash, updated)) this.#bytes = joinedParts(key, updated)
    } catch (error) {
      if (!(error instanceof WireError)) throw error
    }
  }

  /** Whether it is ready for this manifest. Asked twice a lookup, nearly always of the very one it was made ready for. */
  #isFor(manifest: Manifest): boolean {
    const ready = this.#ready
    if (ready === undefined || manifest === ready.manifest) return ready !== undefined
    return equalBytes(ready.manifestHash, this.#hash(encodeManifest(manifest)))
  }

  #has(hash: Uint8Array, bytes: Uint8Array): boolean {
    return equalBytes(this.#hash(bytes), hash)
  }

  #hash(bytes: Uint8Array): Uint8Array {
    const { core } = this.#context
    return inCore(core, () => core.blake3(bytes))
  }

  /**
   * Whether an answer (header, records, proof), whose length and header have been checked, is genuine at this manifest for the
   * vectors that were asked with. The same steps whatever both are, and the page has its thread back between two. Throws
   * ProtocolError if the rows that both servers vouch for are none.
   */
  async verify(manifest: Manifest, answer: Uint8Array, vectors: Uint8Array): Promise<boolean> {
    const ready = this.#ready
    if (ready === undefined || !this.#isFor(manifest)) {
      throw new StorageError('what verifies answers is not at hand; call reset()')
    }
    const view = new DataView(vectors.buffer, vectors.byteOffset, vectors.length)
    const offsets = Uint16Array.from({ length: vectors.length / 2 }, (_, n) => view.getUint16(2 * n, true))
    const end = answer.length - POINTPROOF_BYTES
    const [header, records] = [answer.subarray(0, HEADER_BYTES), answer.subarray(HEADER_BYTES, end)]
    const proof = answer.subarray(end)
    const { pause } = this.#context.environment
    let finished = false
    const verification = guarded(() => ready.handle.begin(ready.manifestHash, header, offsets, records, proof))
    try {
      while (guarded(() => verification.step())) await pause()
      await pause()
      finished = true
      return guarded(() => verification.finish())
    } catch (error) {
      if (coreCode(error) !== 'rows') throw error
      throw new ProtocolError(
        'the servers',
        'row commitments they vouch for are no points of the curve; ask their operators',
      )
    } finally {
      if (!finished && !crashed) verification.free()
    }
  }

  #drop(): void {
    if (!crashed) this.#ready?.handle.free()
    this.#ready = undefined
  }

  free(): void {
    this.#drop()
    this.#bytes = undefined
  }
}

/** Key and row lists. */
function partsOf(bytes: Uint8Array): [key: Uint8Array, rowLists: Uint8Array] {
  return [bytes.subarray(0, POINTPROOFS_KEY_BYTES), bytes.subarray(POINTPROOFS_KEY_BYTES)]
}

function joinedParts(key: Uint8Array, rowLists: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(key.length + rowLists.length)
  bytes.set(key)
  bytes.set(rowLists, key.length)
  return bytes
}

/** Throws UnsupportedError where whoever held the ceremony may know how to forge, and the app has not said that it may be so. */
export function assertCeremony({ pointproofs }: Manifest, allowDevelopment: boolean): void {
  if (pointproofs?.development !== true || allowDevelopment) return
  throw new UnsupportedError(
    'ceremony',
    "these servers prove with the key of a ceremony for development, with which forging may be possible; if that is what you want, pass open({ allowDevelopmentCeremony: true }), or ask with proofs: 'merkle'",
  )
}

/** the module has trapped: its memory cannot be trusted, and it is the only one of this page */
let crashed = false

function guarded<T>(work: () => T): T {
  try {
    if (!crashed) return work()
  } catch (error) {
    if (!(error instanceof WebAssembly.RuntimeError)) throw error
    crashed = true
  }
  throw new UnsupportedError(
    'crashed',
    'the WebAssembly module that verifies has crashed, most likely for want of memory; load the page again',
  )
}
