// The choice of a client's mode, by the costs of rust-core/core/src/cost/modes.rs.

import type { DirectorySize, Mode } from '../core/costs.js'
import { DIGEST_BYTES } from './hashes.js'
import { type Layout, layoutOfBlocks } from './layout.js'
import { keyShape, shapeFor } from './shape.js'

const LOCAL_BYTES = 16 << 20
const MEMORY_BYTES = 64_000_000
const UPLINK_KBIT = 5_000
const DOWNLINK_KBIT = 20_000
const HEADER_BYTES = 40
const SHARING_BYTES = 2
const OFFSET_BYTES = 2
const TAG_BYTES = 8

/** Of a mode: bytes to prepare it, bytes of a lookup, and the servers' microseconds for a lookup. */
interface Cost {
  readonly mode: Mode
  readonly prepare: number
  readonly up: number
  readonly down: number
  readonly micros: number
}

/** The mode with the least time for all lookups so far, preparing included. */
export function chooseMode(
  layout: Layout,
  directory: DirectorySize,
  offers: { readonly instant: boolean; readonly servers?: number },
  lookups: number,
): Mode {
  if (layout.databaseBytes <= LOCAL_BYTES) return 'local'
  const servers = Math.min(Math.max((offers.servers ?? 2) >>> 0, 2), 8)
  const costs = [
    offers.instant ? instantCost(layout, blocksOf(layout, directory), servers) : undefined,
    servers === 2 ? fullCost(layout, directory.directoryBytes >>> 0) : singleCost(layout),
  ].filter(cost => cost !== undefined)
  const [first, second] = costs.map(cost => ({ mode: cost.mode, time: timeOf(cost, counted(lookups || 0)) }))
  if (first === undefined) return servers === 2 ? 'full' : 'local'
  return second !== undefined && second.time < first.time ? second.mode : first.mode
}

/** Microseconds of preparing and of some lookups. */
function timeOf({ prepare, up, down, micros }: Cost, lookups: bigint): bigint {
  const lookup = transfer(up, UPLINK_KBIT) + transfer(down, DOWNLINK_KBIT) + micros
  return BigInt(transfer(prepare, DOWNLINK_KBIT)) + lookups * BigInt(lookup)
}

function transfer(bytes: number, kbit: number): number {
  return Math.ceil((bytes * 8000) / kbit)
}

/** A number as a u64, saturating. */
function counted(lookups: number): bigint {
  return lookups < 2 ** 64 ? BigInt(Math.trunc(Math.max(lookups, 0))) : 2n ** 64n - 1n
}

function instantCost(layout: Layout, blocks: Layout | undefined, servers: number): Cost {
  let [up, down, micros] = [0, 0, 0]
  for (const asked of blocks === undefined ? [layout] : [blocks, layout]) {
    const { queryBytes, seedBytes, answerBytes } = shapeFor(asked, servers)
    const sharing = servers === 2 ? 0 : SHARING_BYTES
    up += servers * (HEADER_BYTES + sharing) + (servers - 1) * seedBytes + queryBytes
    down += servers * (HEADER_BYTES + answerBytes)
    micros += servers * Math.floor((asked.databaseBytes + treeBytesRead(asked)) / 10_000)
  }
  return { mode: 'instant', prepare: 0, up, down, micros }
}

/** Bytes of trees that a server reads: all levels from the groups' up, without the commitments. */
function treeBytesRead(layout: Layout): number {
  let nodes = 0
  for (let level = keyShape(layout).groupLog; level < layout.depth; level++) {
    nodes += Math.ceil(layout.partitionBlocks / 2 ** level)
  }
  return layout.partitions * nodes * DIGEST_BYTES
}

function fullCost(layout: Layout, directoryBytes: number): Cost {
  const { partitions, partitionBytes, slots, blockBytes, depth, databaseBytes } = layout
  const isTagged = partitionBytes + (OFFSET_BYTES + TAG_BYTES) * slots + directoryBytes <= MEMORY_BYTES
  const proofBytes = isTagged ? 0 : depth * DIGEST_BYTES
  const micros = 2 * (Math.floor((partitions * 150) / 1000) + Math.floor((partitions * proofBytes) / 540))
  const up = 2 * (HEADER_BYTES + OFFSET_BYTES * partitions)
  const down = 2 * (HEADER_BYTES + partitions * (blockBytes + proofBytes))
  return { mode: 'full', prepare: databaseBytes, up, down, micros }
}

/** Undefined if one server cannot answer it (rust-core/core/src/single/geometry.rs). */
function singleCost({ slots, blockBytes, databaseBytes }: Layout): Cost | undefined {
  const most = Math.max(8 << 20, 2 * slots)
  const fits = (records: number) => 60 * records * (blockBytes + 10) <= most && 32 * records <= slots
  let stripeRecords = 1 << 16
  while (stripeRecords > 1 && !fits(stripeRecords)) stripeRecords /= 2
  const stripes = 2 * Math.ceil(Math.ceil(slots / stripeRecords) / 2)
  if (stripes > 1 << 14 || stripes * blockBytes > 64 << 20) return undefined
  const up = HEADER_BYTES + Math.ceil(stripes / 8) + OFFSET_BYTES * stripes
  const down = HEADER_BYTES + 2 * blockBytes
  return { mode: 'single', prepare: databaseBytes, up, down, micros: Math.floor((stripes * 40) / 1000) }
}

/** The blocks of the directory, expected ones if the manifest has none (rust-core/core/src/directory/shape.rs, `Plan`). */
function blocksOf(layout: Layout, directory: DirectorySize): Layout | undefined {
  const { directoryBytes, directoryBlockLog = 0, directoryBlockBytes = 0 } = directory
  if (directoryBytes >>> 0 === 0) return undefined
  return possibleBlocks(directoryBlockLog >>> 0, directoryBlockBytes >>> 0) ?? expectedBlocks(layout)
}

function possibleBlocks(log: number, blockBytes: number): Layout | undefined {
  try {
    return layoutOfBlocks(log, blockBytes)
  } catch {
    return undefined
  }
}

function expectedBlocks({ records, partitions, partitionRecords }: Layout): Layout | undefined {
  const added = Math.max(partitions * partitionRecords - records, Math.floor(records / 16), 1024)
  const plans = Array.from({ length: 17 }, (_, log) => {
    const [keys, more] = [Math.ceil(records / 2 ** log), Math.ceil(added / 2 ** log)]
    const room = more + 6 * ceiledRoot(more) + 4
    const bytes = 16 + Math.ceil((keys + 4 * ceiledRoot(keys)) / 2) + room * 20
    const blocks = possibleBlocks(log, 32 * Math.ceil(bytes / 32))
    return { blocks, bytes: blocks === undefined ? Infinity : blocks.instantRequestBytes + blocks.instantAnswerBytes }
  })
  const least = Math.min(...plans.map(({ bytes }) => bytes))
  return plans.find(({ bytes }) => bytes - least <= Math.floor(least / 2))?.blocks
}

function ceiledRoot(n: number): number {
  return Math.ceil(Math.sqrt(n))
}
