// For apps: open({ proofs: 'pointproofs', pointproofs: () => import('@keyhush/pointproofs') }). Servers load
// `@keyhush/pointproofs/server`.

import type { AnswerVerifier, VerifierContext } from '@keyhush/client'
import { loadPointproofs } from './module.js'
import { Verifier } from './verifier.js'

export type { Ceremony, Pointproofs, PointproofsVerification, PointproofsVerifier, Shape } from './api.js'
export { loadPointproofs } from './module.js'

/** A map's verifier; the client calls this. Starts the WebAssembly module, one for the whole page. */
export async function newVerifier(context: VerifierContext): Promise<AnswerVerifier> {
  return new Verifier(await loadPointproofs(), context)
}
