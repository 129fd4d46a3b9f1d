// More records than a process can have, on paper: 2^30 in 64 databases of 2^24, and what it costs to ask one of them, which shows
// in which the key would be, or all of them each time, which does not. Computed by the plan (docs/costs.md).

import type { Core, ModeCosts } from '@keyhush/wasm'
import { aligned } from './document.js'

const SHARDS = 64
const SHARD_RECORDS = 2 ** 24
const LOOKUPS_A_DAY = 20_000_000
const DAY_SECONDS = 86_400

const NAMES: Readonly<Record<string, string>> = {
  instant: 'instant',
  'full merkle': 'full hints, merkle',
  'full tags': 'full hints, tags',
  single: 'one server',
}

/** As docs/operations/capacity.md has it. */
export function shardTable(core: Core): string {
  const { modes } = core.plan({ records: SHARD_RECORDS, valueBytes: 32, keyed: true })
  const rows = modes.flatMap(costs => {
    const name = NAMES[`${costs.mode} ${costs.proofs ?? ''}`] ?? NAMES[costs.mode]
    return name === undefined ? [] : [[name, ...cells(costs, 1), ...cells(costs, SHARDS)]]
  })
  const heads = ['kept', 'a lookup', 'out, a day', 'processors']
  return aligned([['', ...heads.map(head => `${head}, one`), ...heads.map(head => `${head}, all`)], ...rows])
}

/** Of a client; and of both operators together, of all clients. */
function cells(costs: ModeCosts, shards: number): string[] {
  const { memoryBytes, lookupBytesUp, lookupBytesDown, serverLookupMicros } = costs
  const lookups = shards * LOOKUPS_A_DAY
  return [
    memoryBytes === 0 ? '–' : bytes(shards * memoryBytes),
    bytes(shards * (lookupBytesUp + lookupBytesDown)),
    bytes(lookups * lookupBytesDown),
    `${Number(((lookups * serverLookupMicros) / 1e6 / DAY_SECONDS).toPrecision(2))}`,
  ]
}

function bytes(count: number): string {
  const [unit, size] = (
    [
      ['TB', 1e12],
      ['GB', 1e9],
      ['MB', 1e6],
      ['kB', 1e3],
    ] as const
  ).find(([, size]) => count >= size) ?? ['B', 1]
  return `${Number((count / size).toPrecision(3))} ${unit}`
}
