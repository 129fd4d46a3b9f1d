// A database seen in groups of 2^a blocks, for two servers (keys) and for three to eight (seeds and vectors).

import { KEY_BYTES } from './chacha.js'
import { domainLog, keyBytes } from './dpf.js'
import { indexError } from './failure.js'
import { DIGEST_BYTES } from './hashes.js'

/** A group for two servers has at least so many bytes, unless the whole partition has fewer. */
const GROUP_BYTES = 256
const MIN_SHARERS = 3
const MAX_SERVERS = 8
const MAX_QUERIES = 64
const QUERIES_BYTES = 8 << 20
const REQUEST_BYTES = 1 << 20

/** What the sizes follow from. */
interface Blocks {
  readonly partitions: number
  readonly partitionBlocks: number
  readonly blockBytes: number
  readonly depth: number
}

export interface Shape {
  /** a */
  readonly groupLog: number
  /** ⌈M′/2^a⌉ */
  readonly partitionGroups: number
  readonly groups: number
  readonly groupBytes: number
  /** bytes of a query that is a key or a vector */
  readonly queryBytes: number
  /** bytes of a query that is a seed; with two servers: a key */
  readonly seedBytes: number
  readonly answerBytes: number
  readonly maxQueries: number
}

function groupsOf({ partitions, partitionBlocks, blockBytes, depth }: Blocks, groupLog: number) {
  const partitionGroups = Math.ceil(partitionBlocks / 2 ** groupLog)
  const groupBytes = blockBytes * 2 ** groupLog
  const answerBytes = groupBytes + (depth - groupLog) * DIGEST_BYTES
  return { groupLog, partitionGroups, groups: partitions * partitionGroups, groupBytes, answerBytes }
}

/** The groups for two servers: the least a with 2^a·ℓ′ ≥ 256, but at most d. */
export function keyShape(blocks: Blocks): Shape {
  const whole = 32 - Math.clz32(Math.ceil(GROUP_BYTES / blocks.blockBytes) - 1)
  const groups = groupsOf(blocks, Math.min(whole, blocks.depth))
  const queryBytes = keyBytes(domainLog(groups.groups))
  return { ...groups, queryBytes, seedBytes: queryBytes, maxQueries: fitting(QUERIES_BYTES / groups.answerBytes) }
}

/** The groups for three to eight servers: the least a for which all requests and answers together are shortest. */
export function shareShape(blocks: Blocks, servers: number): Shape {
  const shapes = Array.from({ length: blocks.depth + 1 }, (_, groupLog) => {
    const groups = groupsOf(blocks, groupLog)
    return { ...groups, queryBytes: Math.ceil(groups.groups / 8) }
  })
  const bodies = ({ queryBytes, answerBytes }: (typeof shapes)[number]) => queryBytes + servers * answerBytes
  const best = shapes.reduce((best, shape) => (bodies(shape) < bodies(best) ? shape : best))
  const maxQueries = fitting(Math.min(QUERIES_BYTES / best.answerBytes, REQUEST_BYTES / best.queryBytes))
  return { ...best, seedBytes: KEY_BYTES, maxQueries }
}

/** The groups for a number of servers. Throws `index`. */
export function shapeFor(blocks: Blocks, servers: number): Shape {
  if (servers === 2) return keyShape(blocks)
  if (servers < MIN_SHARERS || servers > MAX_SERVERS) throw indexError('number of servers', MAX_SERVERS + 1)
  return shareShape(blocks, servers)
}

function fitting(most: number): number {
  return Math.min(Math.max(Math.floor(most), 1), MAX_QUERIES)
}
