// The state of mode `full`: permutations, parities, tags if it has them, and at most one pending lookup (Fig. 5 and 6).

import { answerBytes, decodeAnswer, encodeQuery, type Manifest, type Proofs, WireError } from '@keyhush/protocol'
import type { ClientHandle, LayoutHandle, RoleNumber } from '@keyhush/wasm/client'
import { StorageError } from '../base/errors.js'
import { hintsOf, inCore } from '../platform/core.js'
import { withLayout } from '../platform/layout.js'
import { CoreState } from './core-state.js'
import { queryLimit } from './costs.js'
import { isUsable, KINDS } from './kinds.js'
import type { Requests, SchemeContext, SchemeOptions, Sizes, Sources, Update, Verdict } from './scheme.js'
import { fromStored } from './stored-form.js'
import { type Verifier, verifierOf } from './verifier.js'

/** The party that keeps a hint's rollback fence. */
export const REFRESH = 1

export class HintState extends CoreState<ClientHandle> {
  /** the same for the hint's whole life */
  readonly #proofs: Proofs
  /** of the epoch when it was made or reopened */
  readonly #manifest: Manifest
  /** for proofs that a package verifies */
  readonly #verifier: Verifier | undefined

  constructor(context: SchemeContext, client: ClientHandle, manifest: Manifest, verifier?: Verifier) {
    super(context, client)
    this.#proofs = inCore(context.core, () => client.proofs)
    this.#manifest = manifest
    this.#verifier = verifier ?? verifierOf(context, this.#proofs)
  }

  get sizes(): Sizes {
    const sizes = this.inCore(({ hintBytes, permutationBytes, tagBytes }) => ({
      parities: hintBytes,
      permutations: permutationBytes,
      tags: tagBytes,
    }))
    const verifier = this.#verifier
    return verifier === undefined ? sizes : { ...sizes, verifier: verifier.heldBytes(this.#manifest) }
  }

  get recognises(): boolean {
    return KINDS[this.#proofs].recognises
  }

  suits(options: SchemeOptions): boolean {
    return suitsHint(this.#proofs, this.#manifest, options)
  }

  maxQueries(manifest: Manifest): number {
    return queryLimit(this.context.core, manifest, this.#proofs)
  }

  equip(
    manifest: Manifest,
    sources: Pick<Sources, 'servers' | 'stats' | 'received'>,
    signal: AbortSignal,
  ): Promise<void> | undefined {
    return this.#verifier?.equip(manifest, sources, signal)
  }

  get verifier(): Uint8Array | undefined {
    return this.#verifier?.bytes
  }

  recall(manifest: Manifest, read: () => Promise<Uint8Array | undefined>): Promise<void> | undefined {
    const verifier = this.#verifier
    return verifier && read().then(bytes => bytes && verifier.recall(manifest, bytes))
  }

  requests(manifest: Manifest): Requests {
    const count = this.pending
    const proofs = this.#proofs
    const vectors = this.inCore(client => [client.retrieveVectors(), client.refreshVectors()])
    const verifier = this.#verifier
    /** for proofs that a package verifies: by party, whether its proof is right */
    const proved: boolean[] = []
    return {
      asks: vectors.map(vector => ({
        path: '/v1/answer',
        body: encoded(manifest, count, vector, proofs),
        replyBytes: answerBytes(manifest, count, proofs),
      })),
      weigh: (party, reply) => {
        if (verifier === undefined) return undefined
        decodeAnswer(manifest, count, reply, proofs)
        return verifier.verify(manifest, reply, vectors[party]!).then(holds => {
          proved[party] = holds
        })
      },
      accept: (party, reply): Verdict => {
        const entries = decodeAnswer(manifest, count, reply, proofs)
        const role = party as RoleNumber
        const isGenuine = (client: ClientHandle) =>
          verifier === undefined ? client.verify(role, entries) : client.judged(role, entries, proved[party]!)
        return this.inCore(isGenuine) ? 'genuine' : 'forged'
      },
    }
  }

  update(update: Update, after: LayoutHandle): Uint8Array {
    const { list, manifest } = update
    const { commitments } = manifest
    const entropy = this.context.environment.random(32)
    const entry = this.inCore(client => client.update(list, after, commitments, entropy))
    this.#verifier?.follow(update)
    return entry
  }

  arrive({ commitments }: Manifest): undefined {
    this.readBack(client => client.rebind(commitments))
  }

  override free(): void {
    this.#verifier?.free()
    super.free()
  }
}

/** Whether a hint with these proofs, of this manifest's database, suits the app's options. */
export function suitsHint(proofs: Proofs, manifest: Manifest, wish: SchemeOptions): boolean {
  return isUsable(proofs, manifest, wish) && (wish.proofs === 'auto' || wish.proofs === proofs)
}

/** Reads a stored hint. Throws StateUnreadableError. */
export async function reopenHint(
  context: SchemeContext,
  manifest: Manifest,
  checkpoint: Uint8Array,
  binding: Uint8Array,
): Promise<HintState> {
  const { core } = context
  const client = await fromStored(context, checkpoint, form =>
    withLayout(core, manifest, layout => hintsOf(core).reopenClient(form, layout, manifest.commitments, binding)),
  )
  return new HintState(context, client, manifest)
}

function encoded(...query: Parameters<typeof encodeQuery>): Uint8Array {
  try {
    return encodeQuery(...query)
  } catch (cause) {
    if (!(cause instanceof WireError)) throw cause
    throw new StorageError('expected a stored lookup of this database, got one of another; call reset()', { cause })
  }
}
