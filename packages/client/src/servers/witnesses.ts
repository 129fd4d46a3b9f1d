// Witnesses (docs/protocol/witnesses.md): a publisher that signs two manifests of one epoch shows it to them. So an epoch counts only with
// the proof that its log has it, and that a quorum of witnesses has seen that log. Few apps load this: it shares no file with the others.

import { checkLogProof, LogError, type LoggedEpoch, type Policy, parsePolicy, type Verify } from '@keyhush/protocol/log'

/** Fetches a proof by its hash; a text says why it cannot be had. */
export type FetchProof = (hash: string) => Promise<Uint8Array | string>

export class Witnesses {
  readonly #policy: Policy
  readonly #verify: Verify
  /** why the last proof did not hold */
  #why = 'none'

  private constructor(policy: Policy, verify: Verify) {
    this.#policy = policy
    this.#verify = verify
  }

  /** Of a policy's text, or what is wrong with it: a fork must not stay unseen. */
  static of(policy: string, verify: Verify): Witnesses | string {
    try {
      return new Witnesses(parsePolicy(policy), verify)
    } catch (error) {
      if (error instanceof LogError) return error.message
      throw error
    }
  }

  /** The signature, and behind it a proof that holds, of those with these hashes; undefined: there is none. */
  async withProof(
    signature: Uint8Array,
    logged: LoggedEpoch,
    proofs: Iterable<string>,
    fetch: FetchProof,
  ): Promise<Uint8Array | undefined> {
    const found = async (hash: string) => {
      const bytes = await fetch(hash)
      if (typeof bytes !== 'string' && (await this.prove(bytes, logged))) return bytes
      if (typeof bytes === 'string') this.#why = bytes
      return undefined
    }
    const tries = [...proofs].map(found)
    // The first that holds: a server may name proofs and not send them. Hermes has no Promise.any.
    const first = new Promise<Uint8Array>((resolve, reject) => {
      for (const each of tries) each.then(proof => proof && resolve(proof), reject)
    })
    const proof = await Promise.race([first, Promise.all(tries).then(all => all.find(proof => proof !== undefined))])
    if (proof === undefined) return undefined
    const both = new Uint8Array(signature.length + proof.length)
    both.set(signature)
    both.set(proof, signature.length)
    return both
  }

  /** Whether these bytes prove an epoch. */
  async prove(proof: Uint8Array, logged: LoggedEpoch): Promise<boolean> {
    try {
      const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(proof)
      await checkLogProof(text, logged, this.#policy, this.#verify)
      return true
    } catch (error) {
      // Text that is no UTF-8 is a TypeError.
      if (!(error instanceof LogError) && !(error instanceof TypeError)) throw error
      this.#why = error.message
      return false
    }
  }

  /** What to say where servers show no proof of an epoch that the publisher has signed. */
  unproved(of: string): string {
    const what = `expected a proof that witnesses have seen ${of}, or the epoch before, got ${this.#why}`
    return `${what}; ask the publisher to run publish with its log, and do not use this database until then`
  }
}
