// The update lists of the epochs after a state's (docs/protocol.md, Updates), checked by the hashes in their manifests. The state is not
// touched here.

import { equalBytes, hasRows, type Manifest, toHex } from '@keyhush/protocol'
import { splitUpdateList } from '@keyhush/protocol/chain'
import { scoped } from '../base/abort.js'
import { TamperedError } from '../base/errors.js'
import { inCore } from '../platform/core.js'
import { askOne } from './ask.js'
import type { Agreed } from './manifests.js'
import { inTurns } from './parties.js'
import type { RecentLists } from './recent-lists.js'
import type { Following } from './target.js'
import { getWholeBlob, type Links } from './transport.js'

/** One epoch further: its manifest, and what changed. */
export interface Step extends Agreed {
  /** the update list's entries */
  readonly list: Uint8Array
  /** in suite 6 the new commitments of the touched rows */
  readonly rows: Uint8Array
}

/** Lists that are asked for at a time. */
const AT_A_TIME = 4

/** These epochs with their lists, from servers that have the last of them first. Throws the servers' failures. */
export async function withLists(
  path: readonly Agreed[],
  holders: Links,
  following: Following,
  recent: RecentLists,
  signal: AbortSignal,
): Promise<readonly Step[]> {
  const steps: Step[] = []
  for (let i = 0; i < path.length; i += AT_A_TIME) {
    const some = path.slice(i, i + AT_A_TIME)
    const lists = await scoped([signal], signal =>
      Promise.all(
        some.map(({ manifest }) =>
          recent.get(toHex(manifest.updateListHash), () => updateList(following, holders, manifest, signal)),
        ),
      ),
    )
    some.forEach((next, j) => {
      const whole = { list: lists[j]!, rows: new Uint8Array() }
      steps.push({ ...next, ...(hasRows(next.manifest) ? splitUpdateList(lists[j]!) : whole) })
    })
  }
  return steps
}

/** The update list of a manifest, from the first server whose bytes have its hash. */
async function updateList(
  { core, links, stats }: Following,
  holders: Links,
  { epoch, updateListHash: expected, updateListBytes: bytes }: Manifest,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const onFailed = stats.onFailed
  return await askOne(inTurns(epoch, holders, links), { onFailed }, signal, async (link, signal, told) => {
    const list = await getWholeBlob(link, toHex(expected), bytes, signal, told)
    const hash = inCore(core, () => core.blake3(list))
    if (equalBytes(hash, expected)) return list
    throw new TamperedError(
      link.server.name,
      'expected an update list with the hash that was agreed on, got another; use another server, and tell its operator',
    )
  })
}
