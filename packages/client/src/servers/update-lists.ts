// The update lists of the epochs after a state's (docs/protocol.md, Updates), checked by the hashes in their manifests. The state is not
// touched here.

import { equalBytes, hasRows, type Manifest, splitUpdateList, toHex } from '@keyhush/protocol'
import { TamperedError } from '../base/errors.js'
import { inCore } from '../platform/core.js'
import { askOne } from './ask.js'
import type { Agreed } from './manifests.js'
import type { Following } from './target.js'
import { getWholeBlob } from './transport.js'

/** One epoch further: its manifest, and what changed. */
export interface Step extends Agreed {
  /** the update list's entries */
  readonly list: Uint8Array
  /** in suite 6 the new commitments of the touched rows */
  readonly rows: Uint8Array
}

/** These epochs with their lists. Throws the servers' failures. */
export async function withLists(
  path: readonly Agreed[],
  following: Following,
  signal: AbortSignal,
): Promise<readonly Step[]> {
  const steps: Step[] = []
  for (const next of path) {
    const bytes = await updateList(following, next.manifest, signal)
    const whole = { list: bytes, rows: new Uint8Array() }
    steps.push({ ...next, ...(hasRows(next.manifest) ? splitUpdateList(bytes) : whole) })
  }
  return steps
}

/** The update list of a manifest, from the first server whose bytes have its hash. */
async function updateList(
  { core, links, stats }: Following,
  { epoch, updateListHash: expected, updateListBytes: bytes }: Manifest,
  signal: AbortSignal,
): Promise<Uint8Array> {
  // Taking turns shares the load. It tells nothing: every client fetches all lists in the same order.
  const order = epoch % 2 === 0 ? links : [...links].reverse()
  const onFailed = stats.onFailed
  return await askOne(order, { onFailed }, signal, async (link, signal, told) => {
    const list = await getWholeBlob(link, toHex(expected), bytes, signal, told)
    const hash = inCore(core, () => core.blake3(list))
    if (equalBytes(hash, expected)) return list
    throw new TamperedError(
      link.server.name,
      'expected an update list with the hash that was agreed on, got another; use another server, and tell its operator',
    )
  })
}
