// Verifies answers of suite 6 (docs/protocol.md, Pointproofs) with a key and row lists, which are public. They are checked by hashes
// that both servers agree on, and downloaded before a lookup is sent.

import type { AnswerVerifier, FetchBlob, VerifierContext } from '@keyhush/client'
import {
  encodeManifest,
  equalBytes,
  HEADER_BYTES,
  type Manifest,
  POINTPROOF_BYTES,
  POINTPROOFS_KEY_BYTES,
  partitionBlocks,
  rowListsBytes,
  updatedRowLists,
  updateEntries,
  WireError,
} from '@keyhush/protocol'
import type { Pointproofs, PointproofsVerifier } from './api.js'

/** Why answers cannot be verified. The client reads `code`. */
export class VerifierError extends Error {
  override readonly name = 'VerifierError'

  constructor(
    readonly code: 'malformed' | 'rows' | 'absent' | 'crashed',
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** The module's verifier for one manifest. */
interface Ready {
  readonly handle: PointproofsVerifier
  readonly manifest: Manifest
  readonly manifestHash: Uint8Array
}

/** Verifies the answers to one hint, from epoch to epoch. */
export class Verifier implements AnswerVerifier {
  readonly #module: Pointproofs
  readonly #context: VerifierContext
  /** key and row lists, one behind the other, as checked last */
  #bytes: Uint8Array | undefined
  #ready: Ready | undefined

  constructor(module: Pointproofs, context: VerifierContext) {
    this.#module = module
    this.#context = context
  }

  get bytes(): Uint8Array | undefined {
    return this.#bytes
  }

  recall(manifest: Manifest, bytes: Uint8Array): void {
    const [key, rowLists] = partsOf(bytes)
    const { keyHash, rowsHash } = manifest.pointproofs!
    if (this.#has(keyHash, key) && this.#has(rowsHash, rowLists)) this.#bytes = bytes
  }

  async equip(
    manifest: Manifest,
    fetch: FetchBlob,
    received: (bytes: number) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { keyHash, rowsHash } = manifest.pointproofs!
    const [key, rowLists] = this.#bytes === undefined ? [] : partsOf(this.#bytes)
    const blob = async (held: Uint8Array | undefined, hash: Uint8Array, bytes: number, what: string) => {
      if (held === undefined || !this.#has(hash, held)) return await fetch(hash, bytes, what)
      received(bytes)
      return held
    }
    const rowsNow = await blob(rowLists, rowsHash, rowListsBytes(manifest), 'the row commitments')
    const keyNow = await blob(key, keyHash, POINTPROOFS_KEY_BYTES, 'the bytes of the key')
    await this.#context.pause()
    signal.throwIfAborted()
    if (keyNow !== key || rowsNow !== rowLists) this.#bytes = joinedParts(keyNow, rowsNow)
    try {
      this.#makeReady(keyNow, rowsNow, manifest)
    } catch (cause) {
      if (cause instanceof VerifierError || codeOf(cause) === undefined) throw cause
      throw new VerifierError('malformed', 'the key and the row lists are malformed', { cause })
    }
  }

  /** Throws the module's errors. */
  #makeReady(key: Uint8Array, rowLists: Uint8Array, manifest: Manifest): void {
    const { partitions, recordBytes, blockRecords } = manifest
    const { keyHash, development } = manifest.pointproofs!
    const shape = { partitions, partitionRecords: partitionBlocks(manifest), recordBytes: recordBytes * blockRecords }
    const handle = guarded(() => this.#module.verifier(key, keyHash, development, shape, rowLists))
    this.#drop()
    this.#ready = { handle, manifest, manifestHash: this.#context.hash(encodeManifest(manifest)) }
  }

  follow({ manifest, list, rows }: Parameters<AnswerVerifier['follow']>[0]): void {
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

  /** Called twice a lookup, nearly always with the manifest of `#ready`: that case is fast. */
  isFor(manifest: Manifest): boolean {
    const ready = this.#ready
    if (ready === undefined || manifest === ready.manifest) return ready !== undefined
    return equalBytes(ready.manifestHash, this.#context.hash(encodeManifest(manifest)))
  }

  #has(hash: Uint8Array, bytes: Uint8Array): boolean {
    return equalBytes(this.#context.hash(bytes), hash)
  }

  async verify(manifest: Manifest, answer: Uint8Array, vectors: Uint8Array): Promise<boolean> {
    const ready = this.#ready
    if (ready === undefined || !this.isFor(manifest))
      throw new VerifierError('absent', 'expected the key and rows of this epoch, got none')
    const view = new DataView(vectors.buffer, vectors.byteOffset, vectors.length)
    const offsets = Uint16Array.from({ length: vectors.length / 2 }, (_, n) => view.getUint16(2 * n, true))
    const end = answer.length - POINTPROOF_BYTES
    const [header, records] = [answer.subarray(0, HEADER_BYTES), answer.subarray(HEADER_BYTES, end)]
    const proof = answer.subarray(end)
    let finished = false
    const verification = guarded(() => ready.handle.begin(ready.manifestHash, header, offsets, records, proof))
    try {
      while (guarded(() => verification.step())) await this.#context.pause()
      await this.#context.pause()
      finished = true
      return guarded(() => verification.finish())
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

/** the module has trapped: its memory cannot be trusted, and this page has no other */
let crashed = false

function guarded<T>(work: () => T): T {
  try {
    if (!crashed) return work()
  } catch (error) {
    if (!(error instanceof WebAssembly.RuntimeError)) throw error
    crashed = true
  }
  throw new VerifierError('crashed', 'the WebAssembly module that verifies has crashed')
}

/** The stable code of an error of the module. */
function codeOf(error: unknown): string | undefined {
  return error instanceof Error ? (error as { code?: string }).code : undefined
}
