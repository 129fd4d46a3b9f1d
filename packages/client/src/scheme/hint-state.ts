// Permutations, parities and perhaps tags, and at most one pending batch of queries (Fig. 5 and 6): what schemes that make
// a hint have in common, however they make it.

import { answerBytes, decodeAnswer, encodeQuery, type Manifest, type Proofs, WireError } from '@pirouette/protocol'
import type { ClientHandle, LayoutHandle, RoleNumber, UpdateForm } from '@pirouette/wasm/client'
import { StorageError } from '../base/errors.js'
import { inCore, readBack, release } from '../platform/core.js'
import { withLayout } from '../platform/layout.js'
import type { AskedState, Batch, SchemeContext, SchemeOptions, Sizes, Verdict } from './scheme.js'
import { storedForm } from './stored-form.js'

const NOTHING_PENDING = new Uint8Array(32)

/** Who is asked through a hint; the refresh server keeps its fence. */
export const HINT_PARTIES = ['retrieve', 'refresh'] as const
export const REFRESH = 1

export class HintState implements AskedState {
  readonly kind = 'asked'
  readonly #context: SchemeContext
  readonly #client: ClientHandle
  /** what proves the answers it takes, for life */
  readonly #proofs: Proofs

  constructor(context: SchemeContext, client: ClientHandle) {
    this.#context = context
    this.#client = client
    this.#proofs = inCore(context.core, () => client.proofs)
  }

  get id(): Uint8Array {
    return this.#inCore(client => client.hintId)
  }

  get version(): number {
    return this.#inCore(client => client.version)
  }

  get form(): UpdateForm {
    return this.#inCore(client => client.form)
  }

  get sizes(): Sizes {
    return this.#inCore(({ hintBytes, permutationBytes, tagBytes }) => ({
      parities: hintBytes,
      permutations: permutationBytes,
      tags: tagBytes,
    }))
  }

  get reach(): { readonly records: number; readonly partitions: number } {
    const { core } = this.#context
    const layout = this.#inCore(client => client.layout)
    const { records, partitions } = inCore(core, () => layout)
    const reach = { records, partitions }
    release(core, layout)
    return reach
  }

  suits({ proofs }: SchemeOptions): boolean {
    return proofs === 'auto' || proofs === this.#proofs
  }

  get pending(): number {
    return this.#inCore(client => client.pending)
  }

  query(indices: Uint32Array): void {
    const entropy = this.#context.environment.random(32)
    this.#inCore(client => client.query(indices, entropy))
  }

  pendingBytes(): Uint8Array {
    return this.#inCore(client => client.pendingBytes())
  }

  resume(pending: Uint8Array): void {
    readBack(this.#context.core, () => this.#client.resume(pending))
  }

  withdraw(): void {
    this.#inCore(client => client.withdraw())
  }

  batchName(): Uint8Array {
    return this.pending > 0 ? this.#inCore(client => client.batchName()) : NOTHING_PENDING
  }

  batch(manifest: Manifest): Batch {
    const count = this.pending
    const proofs = this.#proofs
    const vectors = this.#inCore(client => [client.retrieveVectors(), client.refreshVectors()])
    return {
      asks: vectors.map(vector => ({
        path: '/v1/answer',
        body: encoded(manifest, count, vector, proofs),
        replyBytes: answerBytes(manifest, count, proofs),
      })),
      accept: (party, reply): Verdict => {
        const entries = decodeAnswer(manifest, count, reply, proofs)
        return this.#inCore(client => client.verify(party as RoleNumber, entries)) ? 'genuine' : 'forged'
      },
    }
  }

  finish(): { readonly records: Uint8Array; readonly effect: Uint8Array } {
    return this.#inCore(client => ({ records: client.recon(), effect: client.takeEffect() }))
  }

  update(list: Uint8Array, after: LayoutHandle, { commitments }: Manifest): Uint8Array {
    const entropy = this.#context.environment.random(32)
    return this.#inCore(client => client.update(list, after, commitments, entropy))
  }

  replay(entry: Uint8Array): void {
    readBack(this.#context.core, () => this.#client.replay(entry))
  }

  arrive({ commitments }: Manifest): void {
    readBack(this.#context.core, () => this.#client.rebind(commitments))
  }

  checkpoint(binding: Uint8Array): Promise<Uint8Array> {
    return storedForm(this.#context, () => this.#client.checkpoint(binding))
  }

  free(): void {
    release(this.#context.core, this.#client)
  }

  #inCore<T>(work: (client: ClientHandle) => T): T {
    return inCore(this.#context.core, () => work(this.#client))
  }
}

/** Takes up a stored hint. Throws StateUnreadableError. */
export function reopenHint(
  context: SchemeContext,
  manifest: Manifest,
  checkpoint: Uint8Array,
  binding: Uint8Array,
): HintState {
  const { core } = context
  const client = withLayout(core, manifest, layout =>
    readBack(core, () => core.reopenClient(checkpoint, layout, manifest.commitments, binding)),
  )
  return new HintState(context, client)
}

function encoded(...query: Parameters<typeof encodeQuery>): Uint8Array {
  try {
    return encodeQuery(...query)
  } catch (cause) {
    if (!(cause instanceof WireError)) throw cause
    throw new StorageError('the pending lookup is none that this database answers; call reset()', { cause })
  }
}
