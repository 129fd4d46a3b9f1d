// What a package brings that verifies a kind of proof in place of the core (kinds.ts).

import type { Manifest } from '@keyhush/protocol'

/** What open() is handed. */
export interface ProofsPackage {
  /** Starts its WebAssembly, and rejects with what the platform has against that. */
  newVerifier(context: VerifierContext): Promise<AnswerVerifier>
}

export type LoadProofs = () => Promise<ProofsPackage>

/** What a verifier is made with. */
export interface VerifierContext {
  /** BLAKE3 */
  hash(bytes: Uint8Array): Uint8Array
  /** gives the thread back for a moment */
  pause(): Promise<void>
}

/** Gives a public blob of this hash and length; `what` says in messages what it is. */
export type FetchBlob = (hash: Uint8Array, bytes: number, what: string) => Promise<Uint8Array>

/**
 * What verifies the answers to one hint, as epochs go by. Its errors have a `code`: `malformed` and `rows` for what both servers
 * vouch for, `absent` where it is not ready, `crashed` once its WebAssembly has trapped.
 */
export interface AnswerVerifier {
  /** what is held without the module; undefined: nothing yet */
  readonly bytes: Uint8Array | undefined
  /** Whether it is ready for this manifest. */
  isFor(manifest: Manifest): boolean
  /** Takes up what another life of the page has held, if it is what this manifest names. */
  recall(manifest: Manifest, bytes: Uint8Array): void
  /** Makes ready for a manifest, and fetches for that what is not at hand. `received`: bytes of use that were. */
  equip(manifest: Manifest, fetch: FetchBlob, received: (bytes: number) => void, signal: AbortSignal): Promise<void>
  /** Follows an update. Where it does not lead to what its manifest names, all is fetched when it is needed. */
  follow(update: { readonly manifest: Manifest; readonly list: Uint8Array; readonly rows: Uint8Array }): void
  /** Whether an answer, whose length and header have been checked, is genuine for these vectors: the same steps whatever both are. */
  verify(manifest: Manifest, answer: Uint8Array, vectors: Uint8Array): Promise<boolean>
  free(): void
}
