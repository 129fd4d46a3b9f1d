// Permutations, parities and perhaps tags, and at most one pending batch of queries (Fig. 5 and 6): what schemes that make
// a hint have in common, however they make it.

import { answerBytes, decodeAnswer, encodeQuery, type Manifest, type Proofs, WireError } from '@pirouette/protocol'
import type { ClientHandle, LayoutHandle, RoleNumber } from '@pirouette/wasm/client'
import { StorageError } from '../base/errors.js'
import { inCore, readBack } from '../platform/core.js'
import { withLayout } from '../platform/layout.js'
import { CoreState } from './core-state.js'
import type { Batch, SchemeContext, SchemeOptions, Sizes, Verdict } from './scheme.js'

/** Who is asked through a hint; the refresh server keeps its fence. */
export const HINT_PARTIES = ['retrieve', 'refresh'] as const
export const REFRESH = 1

export class HintState extends CoreState<ClientHandle> {
  /** what proves the answers it takes, for life */
  readonly #proofs: Proofs

  constructor(context: SchemeContext, client: ClientHandle) {
    super(context, client)
    this.#proofs = inCore(context.core, () => client.proofs)
  }

  get sizes(): Sizes {
    return this.inCore(({ hintBytes, permutationBytes, tagBytes }) => ({
      parities: hintBytes,
      permutations: permutationBytes,
      tags: tagBytes,
    }))
  }

  get recognises(): boolean {
    return this.#proofs === 'tags'
  }

  suits({ proofs }: SchemeOptions): boolean {
    return proofs === 'auto' || proofs === this.#proofs
  }

  batch(manifest: Manifest): Batch {
    const count = this.pending
    const proofs = this.#proofs
    const vectors = this.inCore(client => [client.retrieveVectors(), client.refreshVectors()])
    return {
      asks: vectors.map(vector => ({
        path: '/v1/answer',
        body: encoded(manifest, count, vector, proofs),
        replyBytes: answerBytes(manifest, count, proofs),
      })),
      accept: (party, reply): Verdict => {
        const entries = decodeAnswer(manifest, count, reply, proofs)
        return this.inCore(client => client.verify(party as RoleNumber, entries)) ? 'genuine' : 'forged'
      },
    }
  }

  update(list: Uint8Array, after: LayoutHandle, { commitments }: Manifest): Uint8Array {
    const entropy = this.context.environment.random(32)
    return this.inCore(client => client.update(list, after, commitments, entropy))
  }

  arrive({ commitments }: Manifest): void {
    this.readBack(client => client.rebind(commitments))
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
