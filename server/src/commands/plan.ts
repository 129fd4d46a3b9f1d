// `keyhush plan`: what a database will cost, before there is one. The formulas are the core's (docs/costs.md).

import { writeFileSync } from 'node:fs'
import { MARK_PASSES } from '@keyhush/protocol'
import {
  type Core,
  type CoreError,
  loadCore,
  type ModeCosts,
  oneServerPlan,
  type Plan,
  type Workload,
} from '@keyhush/wasm'
import { BuildError } from '../base/errors.js'
import type { Shape } from '../dataset/shape.js'
import { encodeShape, planShape } from '../dataset/shape-file.js'

/** The options of `plan` as commander gives them. */
export interface PlanArguments extends Omit<Workload, 'memoryBytes' | 'uplinkKbit' | 'downlinkKbit'> {
  /** MB */
  readonly memory?: number
  /** kbit/s */
  readonly uplink?: number
  readonly downlink?: number
  readonly json?: boolean
  readonly shards?: number
  readonly out?: string
  readonly filter?: boolean | undefined
  readonly callsPerDay?: number | undefined
  readonly keysPerCall?: number | undefined
  readonly cover?: number | undefined
}

export async function plan(options: PlanArguments): Promise<void> {
  const { json, memory, uplink, downlink, shards, out, filter, callsPerDay, keysPerCall, cover, ...demand } = options
  const workload: Workload = {
    ...demand,
    memoryBytes: memory === undefined ? undefined : memory * 1_000_000,
    uplinkKbit: uplink,
    downlinkKbit: downlink,
  }
  const core = await loadCore()
  try {
    if (shards !== undefined) return planSharded(core, workload, shards, options)
    if (out !== undefined) throw new BuildError('--out: expected --shards too, got none; leave it out, or give both')
    const made = withOneServer(core, core.plan(workload))
    const filtered = planFilter(core, workload, made, { filter, callsPerDay, keysPerCall, cover })
    const plan = { ...made, ...(filtered && { filter: filtered }) }
    process.stdout.write(
      json
        ? `${JSON.stringify(plan, undefined, 2)}\n`
        : describePlan(made) + (filtered ? describeFilter(filtered) : ''),
    )
  } catch (error) {
    if ((error as Partial<CoreError>).code === undefined) throw error
    throw new BuildError((error as CoreError).message)
  }
}

function writeShape(file: string, shape: Shape): void {
  try {
    writeFileSync(file, encodeShape(shape), { flag: 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new BuildError(
      '--out: expected a new file, got one that is there, and shards are built with it; choose another name',
      file,
    )
  }
}

/** Each shard is a database of its own, so what it costs is planned as such. Writes the shape. */
function planSharded(core: Core, workload: Workload, shards: number, { json, out }: PlanArguments): void {
  const { keyed, partitions: q, pack, servers = 2 } = workload
  if (!keyed || q !== undefined || pack !== undefined || servers < 2) {
    throw new BuildError(
      '--shards: expected --keyed and at least two servers, without --partitions and --pack; change the others',
    )
  }
  const shape = plannedShape(core, workload, shards)
  const { partitions, partitionRecords, blockRecords } = shape
  const slots = partitions * partitionRecords
  const shard = core.plan({ ...workload, records: slots, partitions, pack: blockRecords })
  const held = shard.merkle.serverBytes + LOADING_BYTES * slots
  if (held > WASM_BYTES)
    throw new BuildError(
      `expected at most 4.3 GB for a shard while it is loaded, got ${bytes(held)}; give more --shards`,
    )
  if (out !== undefined) writeShape(out, shape)
  process.stdout.write(
    json ? `${JSON.stringify({ shape, shard }, undefined, 2)}\n` : describeShards(shape, shard, workload.records),
  )
}

function plannedShape(core: Core, workload: Workload, shards: number): Shape {
  if (workload.records < 1 || workload.records >= 2 ** 32)
    throw new BuildError(`--records: expected 1 to 4294967295, got ${workload.records}; use several databases`)
  try {
    return planShape(core, { ...workload, shards })
  } catch (error) {
    if ((error as Partial<CoreError>).code !== 'layout') throw error
    throw new BuildError(
      `${workload.records} records in ${shards} shards; give more --shards: ${(error as Error).message}`,
    )
  }
}

/** What a filter costs, and saves, if no key of a call is listed. Of a day, of one client. */
interface FilterPlan {
  /** downloaded and kept */
  readonly bytes: number
  readonly callsPerDay: number
  readonly keysPerCall: number
  readonly cover: number
  /** the share of the calls that ask */
  readonly asking: number
  readonly dayBytes: number
  readonly dayServerMicros: number
  readonly without: { readonly dayBytes: number; readonly dayServerMicros: number }
}

function planFilter(
  core: Core,
  workload: Workload,
  { merkle, layout }: Plan,
  options: Pick<PlanArguments, 'filter' | 'callsPerDay' | 'keysPerCall' | 'cover'>,
): FilterPlan | undefined {
  const { filter, callsPerDay = 20, keysPerCall = 1, cover = 0 } = options
  const { keyed, servers = 2 } = workload
  if (!filter) {
    const [lonely] = Object.entries(options).filter(([, value]) => value !== undefined)
    if (lonely === undefined) return undefined
    throw new BuildError(
      '--calls-per-day, --keys-per-call, --cover: expected --filter too, got none; give it, or leave them out',
    )
  }
  if (!keyed || servers < 2)
    throw new BuildError(
      '--filter: expected --keyed and at least two servers, got others; change them, or leave it out',
    )
  // A call that asks knows each key's index: it moves what a lookup by index moves.
  const { recordBytes, records } = layout
  const of = (part: Workload) =>
    core.plan({ ...part, queries: keysPerCall }).modes.find(({ mode }) => mode === 'instant')!
  const day = ({ lookupBytesUp, lookupBytesDown, serverLookupMicros }: ModeCosts, calls: number) => ({
    dayBytes: Math.round(calls * (lookupBytesUp + lookupBytesDown)),
    dayServerMicros: Math.round(calls * serverLookupMicros),
  })
  const asking = 1 - (1 - cover) * (1 - MARK_PASSES) ** keysPerCall
  const byIndex = of({ ...workload, keyed: false, variable: false, records, valueBytes: recordBytes, pack: undefined })
  return {
    ...{ bytes: merkle.directoryBytes + records, callsPerDay, keysPerCall, cover, asking },
    ...day(byIndex, asking * callsPerDay),
    without: day(of(workload), callsPerDay),
  }
}

function describeFilter({ callsPerDay, keysPerCall, asking, without, ...filter }: FilterPlan): string {
  const keys = keysPerCall === 1 ? 'a key that is' : `${keysPerCall} keys that are`
  const text = [
    '',
    `A filter: ${bytes(filter.bytes)} before the first answer. Of ${callsPerDay} calls a day for ${keys} not listed, ${(100 * asking).toFixed(1)} % ask.`,
    `They move ${bytes(filter.dayBytes)} a day, and take ${duration(filter.dayServerMicros)} of server time. Without a filter: ${bytes(without.dayBytes)} and ${duration(without.dayServerMicros)}.`,
  ]
  return `${text.join('\n')}\n`
}

/** What a process of a shard takes up besides its database, and connections to PostgreSQL. */
const PROCESS_BYTES = 200e6
/** A slot takes up so many bytes more while a shard is loaded and its directory is checked. WebAssembly gives none back. */
const LOADING_BYTES = 40
const CONNECTIONS = 11

function describeShards(
  { shards, partitions, partitionRecords, blockRecords }: Shape,
  shard: Plan,
  records: number,
): string {
  const slots = partitions * partitionRecords
  const memory = shard.merkle.serverBytes + LOADING_BYTES * slots + PROCESS_BYTES
  const { serverLookupMicros } = shard.modes.find(({ mode }) => mode === 'instant')!
  const text = [
    `${records} keyed records of ${shard.layout.recordBytes} bytes in ${shards} shards`,
    `A shard: ${partitions} partitions of ${partitionRecords}, ${blockRecords} a block; room for ${slots} records`,
    `Memory: ${bytes(memory)} a shard with its process, ${bytes(shards * memory)} for all shards of an operator`,
    `Processor time of a lookup alone: ${duration(shards * serverLookupMicros)} at each operator, in all shards together; lookups at once share it`,
    `PostgreSQL: up to ${CONNECTIONS} connections a process, so ${CONNECTIONS * shards} for ${shards} shards; max_connections is 100 unless you raise it`,
  ]
  return `${text.join('\n')}\n`
}

/** One server answers instant lookups by a scheme of its own. */
function withOneServer(core: Core, plan: Plan): Plan {
  if (plan.workload.servers > 1) return plan
  const [local, ...others] = plan.modes
  return { ...plan, modes: [local!, ...oneServerPlan(core, plan), ...others] }
}

/** A WebAssembly memory ends here, and a server keeps its database in one. */
const WASM_BYTES = 2 ** 32

function describePlan({ layout, modes, merkle, tags, proofs, recommended, reason, workload }: Plan): string {
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = layout
  const { serverBytes } = { merkle, tags }[proofs]
  const { mode } = recommended
  const text = [
    `${records} ${workload.keyed ? 'keyed' : 'keyless'} records of ${recordBytes} bytes: ` +
      `${partitions} partitions of ${partitionRecords}${blockRecords > 1 ? `, ${blockRecords} a block` : ''}`,
    `Memory of a server: ${bytes(merkle.serverBytes)}, or ${bytes(tags.serverBytes)} with --proofs tags, and 200 MB for the process`,
    '',
    ...aligned(modeRows(modes, workload.servers)),
    'Beside its server time, a request takes about 0.1 ms, as any request to Node does.',
    ...forPhones(modes, workload.downlinkKbit),
    '',
    `Recommended: ${mode === 'full' ? `full, ${proofs}` : mode}.`,
    reason,
    ...(serverBytes > WASM_BYTES ? [`No server can hold ${bytes(serverBytes)}: at most 4.3 GB. Split the data.`] : []),
  ]
  return `${text.join('\n')}\n`
}

/** A larger download is said to be too large for a phone. */
const PHONE_BYTES = 100e6

function forPhones(modes: readonly ModeCosts[], downlinkKbit: number): string[] {
  const large = modes.filter(({ firstBytes }) => firstBytes > PHONE_BYTES)
  if (large.length === 0) return []
  const names = [...new Set(large.map(({ mode }) => mode))].join(', ')
  const most = Math.max(...large.map(({ firstBytes }) => firstBytes))
  const seconds = duration(Math.round((8000 * most) / downlinkKbit))
  return [
    `Not for phones: ${names}. They first download ${bytes(most)}, which takes ${seconds} at ${downlinkKbit / 1000} Mbit/s.`,
  ]
}

/** A head, and a row for each way to look up. */
function modeRows(modes: readonly ModeCosts[], servers: number): string[][] {
  const head = ['', 'before the first lookup', 'a lookup', 'a day', 'memory', 'disk', 'server time a lookup']
  const rows = modes.map(costs => [
    nameOf(costs, servers),
    bytes(costs.firstBytes),
    ...[costs.lookupBytesUp + costs.lookupBytesDown, costs.dayBytes, costs.memoryBytes, costs.diskBytes].map(bytes),
    costs.serverLookupMicros === 0 ? '–' : duration(costs.serverLookupMicros),
  ])
  return [head, ...rows]
}

function nameOf({ mode, proofs }: ModeCosts, servers: number): string {
  if (mode === 'full') return `${mode}, ${proofs}`
  return mode === 'instant' && servers === 1 ? `${mode}, experimental` : mode
}

/** Columns of equal width, the first one flush left and the others right. */
function aligned(rows: readonly (readonly string[])[]): string[] {
  const columns = Math.max(...rows.map(row => row.length))
  const widths = Array.from({ length: columns }, (_, i) => Math.max(...rows.map(row => row[i]?.length ?? 0)))
  const pad = (cell: string, i: number) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))
  return rows.map(row => row.map(pad).join('   ').trimEnd())
}

const BYTE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB']

/** `1.3 MB`, in powers of 1000 */
export function bytes(n: number): string {
  if (n === 0) return '–'
  if (n < 1000) return `${n} B`
  const power = Math.min(BYTE_UNITS.length - 1, Math.floor((`${n}`.length - 1) / 3))
  const value = n / 1000 ** power
  return `${value.toFixed(value < 100 ? 1 : 0)} ${BYTE_UNITS[power]}`
}

function duration(micros: number): string {
  if (micros < 100) return `${micros} µs`
  const steps = [
    [60e6, 60e6, 'min'],
    [1e6, 1e6, 's'],
    [0, 1000, 'ms'],
  ] as const
  const [, unit, name] = steps.find(([least]) => micros >= least)!
  const value = micros / unit
  return `${value.toFixed(value < 100 ? 1 : 0)} ${name}`
}
