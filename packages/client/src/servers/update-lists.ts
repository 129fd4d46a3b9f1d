// What changed in each epoch that a state follows to (docs/protocol.md, Updates). Nothing of the client's state is touched here:
// what comes out has been checked by the hashes that both servers agree on, and is applied by others, whole.

import { equalBytes, hasRows, type Manifest, splitUpdateList, toHex } from '@keyhush/protocol'
import { ATTEMPTS } from '../base/constants.js'
import { ServerError, TamperedError } from '../base/errors.js'
import { inCore } from '../platform/core.js'
import type { Agreed } from './manifests.js'
import { withRetry, worstOf } from './retry.js'
import { getWholeBlob } from './transport.js'
import { epochsAfter, type Following } from './updates.js'

/** One epoch further: its manifest, and what changed. */
export interface Step extends Agreed {
  /** the update list's entries */
  readonly list: Uint8Array
  /** in suite 6 the commitments of the rows it touches, which stand behind them */
  readonly rows: Uint8Array
}

/** `epochsAfter` with their lists. Throws what that throws. */
export async function stepsAfter(
  base: Agreed,
  following: Following,
  signal: AbortSignal,
  attempt = 1,
): Promise<Step[]> {
  const wanted = await epochsAfter(base, following, signal)
  const steps: Step[] = []
  try {
    for (const next of wanted) {
      const bytes = await updateList(following, next.manifest, signal)
      const whole = { list: bytes, rows: new Uint8Array() }
      steps.push({ ...next, ...(hasRows(next.manifest) ? splitUpdateList(bytes) : whole) })
    }
  } catch (error) {
    // What they told of a moment ago they may have forgotten by now: asked again, they say so.
    const forgotten = error instanceof ServerError && error.refusal === 'not_found'
    if (!forgotten || attempt === ATTEMPTS) throw error
    return await stepsAfter(base, following, signal, attempt + 1)
  }
  return steps
}

/** The list that a manifest speaks of, from the first server whose bytes have its hash. */
async function updateList(
  { core, links, stats }: Following,
  manifest: Manifest,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const { updateListHash: expected, updateListBytes: length } = manifest
  // Everybody fetches all lists, so that it tells nothing which server is asked first; turns share the load.
  const order = manifest.epoch % 2 === 0 ? links : [...links].reverse()
  const failures: ServerError[] = []
  for (const link of order) {
    try {
      return await withRetry(link, signal, async () => {
        const bytes = await getWholeBlob(link, toHex(expected), length, signal)
        const hash = inCore(core, () => core.blake3(bytes))
        if (equalBytes(hash, expected)) return bytes
        throw new TamperedError(link.server.name, 'its update list does not have the hash that was agreed on')
      })
    } catch (error) {
      if (signal.aborted || !(error instanceof ServerError)) throw error
      stats.incident(link.server.name, error.code)
      failures.push(error)
    }
  }
  throw worstOf(failures)
}
