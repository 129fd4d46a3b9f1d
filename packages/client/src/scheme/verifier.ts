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
  WireError,
} from '@pirouette/protocol'
import type { PointproofsVerifier } from '@pirouette/wasm/pointproofs'
import { ProtocolError, TamperedError, UnsupportedError } from '../base/errors.js'
import { coreCode, inCore } from '../platform/core.js'
import { startPointproofs } from '../platform/starting.js'
import { withRetry } from '../servers/retry.js'
import { getWholeBlob } from '../servers/transport.js'
import type { SchemeContext, Sources } from './scheme.js'

/** What is fetched for it, and held. */
export function verifierBytes(manifest: Manifest): number {
  return POINTPROOFS_KEY_BYTES + rowListsBytes(manifest)
}

export class Verifier {
  readonly #handle: PointproofsVerifier
  readonly #manifest: Manifest
  readonly #manifestHash: Uint8Array

  private constructor(handle: PointproofsVerifier, manifest: Manifest, manifestHash: Uint8Array) {
    this.#handle = handle
    this.#manifest = manifest
    this.#manifestHash = manifestHash
  }

  /** Of a manifest of suite 6. Throws what its servers failed with, UnsupportedError, and ProtocolError for what both vouch for. */
  static async fetch(
    { core, environment, options }: SchemeContext,
    manifest: Manifest,
    sources: Pick<Sources, 'servers' | 'failures' | 'received'>,
    signal: AbortSignal,
  ): Promise<Verifier> {
    const { keyHash, rowsHash, development } = manifest.pointproofs!
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
    const { partitions, recordBytes, blockRecords } = manifest
    const shape = { partitions, partitionRecords: partitionBlocks(manifest), recordBytes: recordBytes * blockRecords }
    const manifestHash = inCore(core, () => core.blake3(encodeManifest(manifest)))
    try {
      return new Verifier(
        guarded(() => module.verifier(key, keyHash, development, shape, rowLists)),
        manifest,
        manifestHash,
      )
    } catch (error) {
      if (coreCode(error) === undefined) throw error
      const all = sources.servers.map(({ server }) => server.name).join(' and ')
      throw new ProtocolError(all, 'what they publish to verify with is malformed; ask their operators')
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
