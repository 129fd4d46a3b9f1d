// The update lists of the epochs after a state's (docs/protocol.md, Updates), checked by the hashes that both servers agree on. The
// state is not touched here.

import { equalBytes, hasRows, type Manifest, splitUpdateList, toHex } from '@keyhush/protocol'
import { ATTEMPTS } from '../base/constants.js'
import { ServerError, TamperedError } from '../base/errors.js'
import { inCore } from '../platform/core.js'
import type { Agreed } from './manifests.js'
import { withRetry, worstOf } from './retry.js'
import { getWholeBlob, type Link } from './transport.js'
import { epochsAfter, type Following } from './updates.js'

/** One epoch further: its manifest, and what changed. */
export interface Step extends Agreed {
  /** the update list's entries */
  readonly list: Uint8Array
  /** in suite 6 the new commitments of the touched rows */
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
  const spentMs = new Map<Link, number>()
  try {
    for (const next of wanted) {
      const bytes = await updateList(following, next.manifest, spentMs, signal)
      const whole = { list: bytes, rows: new Uint8Array() }
      steps.push({ ...next, ...(hasRows(next.manifest) ? splitUpdateList(bytes) : whole) })
    }
  } catch (error) {
    // The servers may have forgotten an epoch meanwhile. Asked again, they say so.
    const forgotten = error instanceof ServerError && error.refusal === 'not_found'
    if (!forgotten || attempt === ATTEMPTS) throw error
    return await stepsAfter(base, following, signal, attempt + 1)
  }
  return steps
}

/**
 * The update list of a manifest, from the first server whose bytes have its hash. `spentMs`: what each server has taken for the lists
 * before; without end if it has failed. Who has taken least is asked first: a slow one holds all lists up for as long as the others, and
 * once more.
 */
async function updateList(
  { core, links, stats }: Following,
  manifest: Manifest,
  spentMs: Map<Link, number>,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const { updateListHash: expected, updateListBytes: length } = manifest
  // Taking turns shares the load. It tells nothing: every client fetches all lists in the same order.
  const order = manifest.epoch % 2 === 0 ? [...links] : [...links].reverse()
  const spent = (link: Link) => spentMs.get(link) ?? 0
  order.sort((a, b) => spent(a) - spent(b)) // (two that have failed: NaN, which counts as 0)
  const failures: ServerError[] = []
  for (const link of order) {
    const { clock } = link.environment
    const begun = clock.now()
    try {
      return await withRetry(link, signal, async () => {
        const bytes = await getWholeBlob(link, toHex(expected), length, signal)
        const hash = inCore(core, () => core.blake3(bytes))
        if (equalBytes(hash, expected)) return bytes
        throw new TamperedError(
          link.server.name,
          'expected an update list with the hash that was agreed on, got another; use another server, and tell its operator',
        )
      })
    } catch (error) {
      if (signal.aborted || !(error instanceof ServerError)) throw error
      stats.incident(link.server.name, error.code)
      failures.push(error)
      spentMs.set(link, Number.POSITIVE_INFINITY)
    } finally {
      spentMs.set(link, spent(link) + clock.now() - begun)
    }
  }
  throw worstOf(failures)
}
