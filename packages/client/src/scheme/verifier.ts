// What verifies answers of a kind whose package the app has handed in (kinds.ts): loaded, and had what it verifies with, before
// anything of a lookup leaves, so that what fails here costs no hint.

import { equalBytes, type Manifest, type Proofs, toHex } from '@keyhush/protocol'
import { ProtocolError, StorageError, TamperedError, UnsupportedError } from '../base/errors.js'
import { coreCode, inCore } from '../platform/core.js'
import { startPackage } from '../platform/starting.js'
import { withRetry } from '../servers/retry.js'
import { getWholeBlob } from '../servers/transport.js'
import { KINDS, missingFor, type PackagedKind } from './kinds.js'
import type { AnswerVerifier } from './packaged.js'
import type { SchemeContext, Sources, Update } from './scheme.js'

type Fetching = Pick<Sources, 'servers' | 'failures' | 'received'>

/** What verifies answers with these proofs; undefined: the core does. */
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

  /** What is held without the module; undefined: nothing yet. */
  get bytes(): Uint8Array | undefined {
    return this.#loaded?.bytes
  }

  /** What is fetched for it, and held. */
  heldBytes(manifest: Manifest): number {
    return this.#kind.verifierBytes(manifest)
  }

  /** Takes up what another life of the page has held, if it is what this manifest names. Where that fails, it is fetched. */
  async recall(manifest: Manifest, bytes: Uint8Array): Promise<void> {
    const verifier = await this.#load().catch(() => undefined)
    verifier?.recall(manifest, bytes)
  }

  /**
   * Makes ready for a manifest, and fetches for that what is not at hand; undefined: it is ready. Throws what its servers failed
   * with, UnsupportedError, and ProtocolError for what both vouch for.
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
    const load = options[this.#kind.option]
    if (load === undefined) {
      throw new UnsupportedError('offer', `proofs: '${this.#proofs}' needs ${missingFor(this.#proofs, options)}`)
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
    { servers, failures, received }: Fetching,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const { core } = this.#context
    for (const [s, link] of servers.entries()) {
      if (failures.failed[s]) continue
      try {
        const found = await withRetry(link, signal, async () => {
          const blob = await getWholeBlob(link, toHex(hash), bytes, signal)
          if (
            equalBytes(
              inCore(core, () => core.blake3(blob)),
              hash,
            )
          )
            return blob
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

  follow(update: Update): void {
    this.#loaded?.follow(update)
  }

  /**
   * Whether an answer (header, records, proof), whose length and header have been checked, is genuine at this manifest for the
   * vectors that were asked with. The same steps whatever both are, and the page has its thread back between two. Throws
   * ProtocolError for what both servers vouch for.
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
  return new StorageError('what verifies answers is not at hand; call reset()')
}

/** What a package's verifier throws, as this package's errors. */
async function translated<T>(servers: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    switch (coreCode(error)) {
      case 'malformed':
        throw new ProtocolError(servers, 'what they publish to verify with is malformed; ask their operators')
      case 'rows':
        throw new ProtocolError(
          servers,
          'row commitments they vouch for are no points of the curve; ask their operators',
        )
      case 'absent':
        throw absent()
      case 'crashed':
        throw new UnsupportedError(
          'crashed',
          'the WebAssembly module that verifies has crashed, most likely for want of memory; load the page again',
        )
      default:
        throw error
    }
  }
}
