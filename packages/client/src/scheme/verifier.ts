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
} from '@pirouette/protocol'
import type { Pointproofs, PointproofsVerifier } from '@pirouette/wasm/pointproofs'
import { ProtocolError, TamperedError, UnsupportedError } from '../base/errors.js'
import { coreCode, inCore } from '../platform/core.js'
import { startPointproofs } from '../platform/starting.js'
import { withRetry } from '../servers/retry.js'
import { getWholeBlob } from '../servers/transport.js'
import type { SchemeContext, Sources, Update } from './scheme.js'

/** What is fetched for it, and held. */
export function verifierBytes(manifest: Manifest): number {
  return POINTPROOFS_KEY_BYTES + rowListsBytes(manifest)
}

export class Verifier {
  readonly #module: Pointproofs
  readonly #key: Uint8Array
  readonly #rowLists: Uint8Array
  readonly #handle: PointproofsVerifier
  readonly #manifest: Manifest
  readonly #manifestHash: Uint8Array

  /** Of a key and row lists that have the manifest's hashes. Throws the module's errors. */
  private constructor(
    core: SchemeContext['core'],
    module: Pointproofs,
    key: Uint8Array,
    rowLists: Uint8Array,
    manifest: Manifest,
  ) {
    const { partitions, recordBytes, blockRecords } = manifest
    const { keyHash, development } = manifest.pointproofs!
    const shape = { partitions, partitionRecords: partitionBlocks(manifest), recordBytes: recordBytes * blockRecords }
    this.#module = module
    this.#key = key
    this.#rowLists = rowLists
    this.#manifest = manifest
    this.#manifestHash = inCore(core, () => core.blake3(encodeManifest(manifest)))
    this.#handle = guarded(() => module.verifier(key, keyHash, development, shape, rowLists))
  }

  /** Of a manifest of suite 6. Throws what its servers failed with, UnsupportedError, and ProtocolError for what both vouch for. */
  static async fetch(
    { core, environment, options }: SchemeContext,
    manifest: Manifest,
    sources: Pick<Sources, 'servers' | 'failures' | 'received'>,
    signal: AbortSignal,
  ): Promise<Verifier> {
    const { keyHash, rowsHash } = manifest.pointproofs!
    assertCeremony(manifest, options.allowDevelopmentCeremony === true)
    const module = await startPointproofs(environment)
    const blob = async (hash: Uint8Array, bytes: number, what: string) => {
      const { servers, failures, received } = sources
      for (const [s, link] of servers.entries()) {
        if (failures.failed[s]) continue
        try {
          const found = await withRetry(link, signal, () => getWholeBlob(link, toHex(hash), bytes, signal))
          const hashed = inCore(core, () => core.blake3(found))
          if (!equalBytes(hashed, hash)) {
            throw new TamperedError(link.server.name, `${what} it sent do not have the hash both servers agreed on`)
          }
          received(bytes)
          return found
        } catch (error) {
          failures.note(s, error, signal)
        }
      }
      throw failures.error
    }
    const rowLists = await blob(rowsHash, rowListsBytes(manifest), 'the row commitments')
    const key = await blob(keyHash, POINTPROOFS_KEY_BYTES, 'the bytes of the key')
    await environment.pause()
    try {
      return new Verifier(core, module, key, rowLists, manifest)
    } catch (error) {
      if (coreCode(error) === undefined) throw error
      const all = sources.servers.map(({ server }) => server.name).join(' and ')
      throw new ProtocolError(all, 'what they publish to verify with is malformed; ask their operators')
    }
  }

  /**
   * This after an update, in its place. Undefined if the rows behind its list do not lead to those that its manifest names: then
   * they are to be fetched, and nothing is lost.
   */
  followed(core: SchemeContext['core'], { manifest, list, rows }: Update): Verifier | undefined {
    try {
      const indices = Array.from(updateEntries(list, manifest.recordBytes), ({ index }) => index)
      const rowLists = updatedRowLists(this.#rowLists, manifest, indices, rows)
      const hash = inCore(core, () => core.blake3(rowLists))
      if (!equalBytes(hash, manifest.pointproofs!.rowsHash)) return undefined
      return new Verifier(core, this.#module, this.#key, rowLists, manifest)
    } catch (error) {
      if (error instanceof WireError || coreCode(error) !== undefined) return undefined
      throw error
    } finally {
      this.free()
    }
  }

  /** Whether it is for this manifest. Asked twice a lookup, nearly always of the very one it was made for. */
  isFor(core: SchemeContext['core'], manifest: Manifest): boolean {
    if (manifest === this.#manifest) return true
    const hash = inCore(core, () => core.blake3(encodeManifest(manifest)))
    return equalBytes(this.#manifestHash, hash)
  }

  /**
   * Whether an answer (header, records, proof), whose length and header have been checked, is genuine for the vectors that
   * were asked with. The same steps whatever both are. Throws WireError if the rows that both servers vouch for are none.
   */
  verify(answer: Uint8Array, vectors: Uint8Array): boolean {
    const view = new DataView(vectors.buffer, vectors.byteOffset, vectors.length)
    const offsets = Uint16Array.from({ length: vectors.length / 2 }, (_, n) => view.getUint16(2 * n, true))
    const end = answer.length - POINTPROOF_BYTES
    const [header, records] = [answer.subarray(0, HEADER_BYTES), answer.subarray(HEADER_BYTES, end)]
    const proof = answer.subarray(end)
    try {
      return guarded(() => this.#handle.verify(this.#manifestHash, header, offsets, records, proof))
    } catch (error) {
      if (coreCode(error) !== 'rows') throw error
      throw new WireError('malformed', 'row commitments: expected points of the curve')
    }
  }

  free(): void {
    if (!crashed) this.#handle.free()
  }
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
