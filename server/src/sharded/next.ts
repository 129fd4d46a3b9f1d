// The next generation of a sharded database: a second set of shards, which were built on the head (docs/protocol/sharded.md).

import { decodeManifest, equalBytes, toHex } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import type { KnownManifest } from '../base/known-manifest.js'
import { Refusal } from '../base/refusal.js'
import { refuse } from '../database/operations.js'
import { manifestCall } from './fabric.js'
import type { ShardSet } from './parts.js'

/**
 * The first manifests of the next set's shards. `named`: the hash of their list, as the batch has it. Throws a `batch_refused` Refusal
 * unless all stand on the head, and what a shard that is away throws.
 */
export async function readNextSet(
  core: Core,
  set: ShardSet,
  { manifest: { generation, epoch }, bytes: head }: KnownManifest,
  named: unknown,
): Promise<readonly KnownManifest[]> {
  const remedy = `build it with the manifest of epoch ${epoch} as --succeeds`
  const call = manifestCall({ generation: generation + 1, epoch: epoch + 1 })
  const read = async (_: unknown, shard: number): Promise<KnownManifest> => {
    const refuseShard = (expected: string, got: string) =>
      refuse(1, `shard ${shard} of --next: expected ${expected}, got ${got}; ${remedy}`)
    const bytes = await set.ask(shard, { ...call, only: 'writer' }).catch((error: Error) => {
      if (!(error instanceof Refusal) || error.code !== 'epoch_unknown') throw error
      const { generation: other, epoch: newest } = error.reply
      return refuseShard(
        `generation ${generation + 1} from epoch ${epoch + 1}`,
        `generation ${other} at epoch ${newest}`,
      )
    })
    const manifest = decodeManifest(bytes)
    if (!equalBytes(manifest.previousManifest, core.blake3(head)))
      refuseShard(`the manifest of epoch ${epoch} here before its own`, 'another')
    return { manifest, bytes }
  }
  const shards = await Promise.all(Array.from({ length: set.shards }, read))
  const hash = toHex(core.blake3(Buffer.concat(shards.map(({ bytes }) => core.blake3(bytes)))))
  if (hash === named) return shards
  const got = named === undefined ? 'none' : 'another'
  const compare = 'if all operators say this, write it so; else they have built other shards'
  return refuse(1, `expected {"op":"generation","shards":"${hash}"}, as --next has here, got ${got}; ${compare}`)
}
