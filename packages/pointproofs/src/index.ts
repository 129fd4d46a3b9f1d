// For apps: open({ proofs: 'pointproofs', pointproofs: () => import('@keyhush/pointproofs') }). What servers prove with is in
// `@keyhush/pointproofs/server`.

import type { AnswerVerifier, VerifierContext } from '@keyhush/client'
import { loadPointproofs } from './module.js'
import { Verifier } from './verifier.js'

export type { Ceremony, Pointproofs, PointproofsVerification, PointproofsVerifier, Shape } from './api.js'
export { loadPointproofs } from './module.js'

/** What a map verifies its answers with; `open()` calls it. Starts the WebAssembly module, which a page has once. */
export async function newVerifier(context: VerifierContext): Promise<AnswerVerifier> {
  return new Verifier(await loadPointproofs(), context)
}
