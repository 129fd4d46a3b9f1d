// The interface of a package that verifies a kind of proof in place of the core (kinds.ts).

import type { Manifest } from '@keyhush/protocol'

/** What a package exports that verifies a kind of proof, such as `@keyhush/pointproofs`. */
export interface ProofsPackage {
  /** Starts its WebAssembly. Rejects if the platform does not allow that. */
  newVerifier(context: VerifierContext): Promise<AnswerVerifier>
}

/** Loads the package: `() => import('@keyhush/pointproofs')`. */
export type LoadProofs = () => Promise<ProofsPackage>

/** What the client gives to a verifier. */
export interface VerifierContext {
  /** BLAKE3 */
  hash(bytes: Uint8Array): Uint8Array
  /** yields the thread for a moment */
  pause(): Promise<void>
}

/** Fetches a public blob of this hash and length; `what` is its name in messages. */
export type FetchBlob = (hash: Uint8Array, bytes: number, what: string) => Promise<Uint8Array>

/**
 * Verifies the answers to one hint, from epoch to epoch. Its errors have a `code`: `malformed` and `rows` if what both servers agree
 * on is wrong, `absent` if it is not ready, `crashed` once its WebAssembly has trapped.
 */
export interface AnswerVerifier {
  /** the bytes to store, for `recall`; undefined: none yet */
  readonly bytes: Uint8Array | undefined
  /** Whether it is ready for this manifest. */
  isFor(manifest: Manifest): boolean
  /** Takes stored `bytes`, if they are those that this manifest names. */
  recall(manifest: Manifest, bytes: Uint8Array): void
  /** Becomes ready for a manifest, and fetches what is missing. `received`: called with the number of bytes that were not missing. */
  equip(manifest: Manifest, fetch: FetchBlob, received: (bytes: number) => void, signal: AbortSignal): Promise<void>
  /** Follows an update. If the result is not what the manifest names, everything is fetched when it is needed. */
  follow(update: { readonly manifest: Manifest; readonly list: Uint8Array; readonly rows: Uint8Array }): void
  /** Whether an answer with a right length and header is genuine for these vectors. The steps do not depend on their contents. */
  verify(manifest: Manifest, answer: Uint8Array, vectors: Uint8Array): Promise<boolean>
  free(): void
}
