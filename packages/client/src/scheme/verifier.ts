// Verifies answers with the package that the app passed to open() (kinds.ts). The package and its key are loaded before a lookup is
// sent, so that a failure costs no hint.

import { equalBytes, type Manifest, type Proofs } from '@keyhush/protocol'
import { ProtocolError, StorageError, UnsupportedError } from '../base/errors.js'
import { coreCode, inCore } from '../platform/core.js'
import { startPackage } from '../platform/starting.js'
import { downloadBlob } from './download.js'
import { KINDS, missingFor, type PackagedKind, packageOf } from './kinds.js'
import type { AnswerVerifier } from './packaged.js'
import type { SchemeContext, Sources, Update } from './scheme.js'

type Fetching = Pick<Sources, 'servers' | 'stats' | 'received'>

/** The verifier of answers with these proofs; undefined: the core verifies them. */
export function verifierOf(context: SchemeContext, proofs: Proofs): Verifier | undefined {
  const kind = KINDS[proofs].packaged
  return kind && new Verifier(context, proofs, kind)
}

export class Verifier {
  readonly #context: SchemeContext
  readonly #proofs: Proofs
  readonly #kind: PackagedKind
  #loaded: AnswerVerifier | undefined
  #freed = false

  constructor(context: SchemeContext, proofs: Proofs, kind: PackagedKind) {
    this.#context = context
    this.#proofs = proofs
    this.#kind = kind
  }

  /** The bytes to store, for `recall`; undefined: none yet. */
  get bytes(): Uint8Array | undefined {
    return this.#loaded?.bytes
  }

  /** How many bytes are fetched for it, and held. */
  heldBytes(manifest: Manifest): number {
    return this.#kind.verifierBytes(manifest)
  }

  /** Takes stored `bytes`, if they are those that this manifest names. Otherwise they are fetched when they are needed. */
  async recall(manifest: Manifest, bytes: Uint8Array): Promise<void> {
    const verifier = await this.#load().catch(() => undefined)
    verifier?.recall(manifest, bytes)
  }

  /**
   * Becomes ready for a manifest, and fetches what is missing; undefined: it is ready. Throws the servers' failures, UnsupportedError,
   * and ProtocolError if what both servers agree on is wrong.
   */
  equip(manifest: Manifest, sources: Fetching, signal: AbortSignal): Promise<void> | undefined {
    return this.#loaded?.isFor(manifest) ? undefined : this.#equip(manifest, sources, signal)
  }

  async #equip(manifest: Manifest, sources: Fetching, signal: AbortSignal): Promise<void> {
    this.#kind.assertTrusted(manifest, this.#context.options)
    const verifier = await this.#load()
    const fetch = (hash: Uint8Array, bytes: number, what: string) => this.#blob(hash, bytes, what, sources, signal)
    const all = sources.servers.map(({ server }) => server.name).join(' and ')
    await translated(all, () => verifier.equip(manifest, fetch, sources.received, signal))
  }

  async #load(): Promise<AnswerVerifier> {
    if (this.#loaded !== undefined) return this.#loaded
    const { core, environment, options } = this.#context
    const load = packageOf(this.#proofs, options)
    if (load === undefined) {
      throw new UnsupportedError('offer', `proofs: expected for '${this.#proofs}' ${missingFor(this.#proofs, options)}`)
    }
    const hash = (bytes: Uint8Array) => inCore(core, () => core.blake3(bytes))
    const context = { hash, pause: () => environment.pause() }
    const verifier = await startPackage(async () => await (await load()).newVerifier(context))
    if (this.#freed) verifier.free()
    this.#loaded ??= verifier
    return this.#loaded
  }

  /** From the first server whose bytes have this hash. */
  async #blob(
    hash: Uint8Array,
    bytes: number,
    what: string,
    sources: Fetching,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const { core } = this.#context
    const isRight = (blob: Uint8Array) =>
      equalBytes(
        inCore(core, () => core.blake3(blob)),
        hash,
      )
    return await downloadBlob(sources, hash, bytes, what, signal, isRight)
  }

  follow(update: Update): void {
    this.#loaded?.follow(update)
  }

  /**
   * Whether an answer with a right length and header is genuine at this manifest for the vectors of its query. The steps do not depend
   * on their contents, and yield the thread. Throws ProtocolError if what both servers agree on is wrong.
   */
  async verify(manifest: Manifest, answer: Uint8Array, vectors: Uint8Array): Promise<boolean> {
    const verifier = this.#loaded
    if (verifier === undefined) throw absent()
    return await translated('the servers', () => verifier.verify(manifest, answer, vectors))
  }

  free(): void {
    this.#freed = true
    this.#loaded?.free()
  }
}

function absent(): StorageError {
  return new StorageError('expected the key that verifies answers, got none; call reset()')
}

/** Turns the errors of a package's verifier into errors of the client. */
async function translated<T>(servers: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    switch (coreCode(error)) {
      case 'malformed':
        throw new ProtocolError(
          servers,
          'expected a well-formed key and row lists, got malformed ones; ask their operators',
        )
      case 'rows':
        throw new ProtocolError(
          servers,
          'expected row commitments that are points of the curve, got others; ask their operators',
        )
      case 'absent':
        throw absent()
      case 'crashed':
        throw new UnsupportedError(
          'crashed',
          'expected the WebAssembly module that verifies to run, but it has crashed, probably for lack of memory; load the page again',
        )
      default:
        throw error
    }
  }
}
