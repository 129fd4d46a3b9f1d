// `keyhush plan`: what a database will cost, before there is one. The formulas are the core's (docs/costs.md).

import {
  type CoreError,
  type Costs,
  loadCore,
  type ModeCosts,
  type Plan,
  type Proofs,
  type Workload,
} from '@keyhush/wasm'
import { BuildError } from '../base/errors.js'

/** The options of `plan` as commander gives them. */
export interface PlanArguments {
  readonly records: number
  readonly valueBytes: number
  readonly keyed?: boolean
  readonly variable?: boolean
  readonly partitions?: number[]
  readonly pack?: number | 'auto'
  readonly batch?: number
  readonly lookupsPerDay?: number
  readonly changesPerDay?: number
  /** MB */
  readonly memory?: number
  /** kbit/s */
  readonly uplink?: number
  readonly downlink?: number
  readonly modes?: boolean
  readonly json?: boolean
}

export async function plan({ partitions = [], ...options }: PlanArguments): Promise<void> {
  const { json, modes, memory, uplink, downlink, ...demand } = options
  const workload: Workload = {
    ...demand,
    memoryBytes: memory === undefined ? undefined : memory * 1_000_000,
    uplinkKbit: uplink,
    downlinkKbit: downlink,
  }
  const core = await loadCore()
  const planned = (partitions?: number): Plan => {
    try {
      return core.plan({ ...workload, partitions })
    } catch (error) {
      if ((error as Partial<CoreError>).code === undefined) throw error
      throw new BuildError((error as CoreError).message)
    }
  }
  const plans = partitions.length === 0 ? [planned()] : partitions.map(planned)
  const [first] = plans as [Plan]
  let text: string
  if (json) text = `${JSON.stringify(partitions.length > 1 ? plans : first, undefined, 2)}\n`
  else if (modes) text = plans.map(({ modes }) => markdown(modeRows(modes))).join('\n')
  else if (plans.length > 1) text = describeCurve(plans, planned().layout.partitions)
  else text = describePlan(first)
  process.stdout.write(text)
}

/** A WebAssembly memory ends here, and a server keeps its database in one. */
const WASM_BYTES = 2 ** 32

/** A heading, or a label and what stands beside it for each kind of proof. */
type Row = string | readonly [label: string, cell: (costs: Costs, kind: Proofs) => string]

function describePlan(plan: Plan): string {
  const { keyed, batch, lookupsPerDay, changesPerDay } = plan.workload
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = plan.layout
  const changing = (row: Row) => (changesPerDay > 0 ? [row] : [])
  const directory: Row[] = keyed ? [['key directory, about', costs => bytes(costs.directoryBytes)]] : []
  const rows: Row[] = [
    'Client, in memory',
    ['hint', costs => bytes(costs.hintBytes)],
    ['permutations', costs => bytes(costs.permutationBytes)],
    ['tags', costs => bytes(costs.tagBytes)],
    ...directory,
    ['together', costs => bytes(costs.memoryBytes)],
    ['while downloading, more', costs => bytes(costs.downloadMemoryBytes)],
    'Client, on disk',
    ['checkpoint', costs => bytes(costs.checkpointBytes)],
    ['journal, up to', costs => bytes(costs.journalBytes)],
    'Offline phase, once',
    ['manifests', costs => bytes(2 * costs.manifestBytes)],
    ...directory,
    ['database', costs => bytes(costs.databaseBytes)],
    ['transfer', costs => duration(costs.offlineMicros)],
    `Lookup of ${count(batch, 'record')}, both servers`,
    ['sent', costs => bytes(costs.lookupBytesUp)],
    ['received', costs => bytes(costs.lookupBytesDown)],
    ['transfer', costs => duration(costs.lookupMicros)],
    ['hashes', (costs, kind) => `${costs.lookupHashes} ${kind === 'merkle' ? 'BLAKE3' : 'linear'}`],
    ...changing(['fence', costs => bytes(costs.fenceBytesUp + costs.fenceBytesDown)]),
    `Day of ${count(lookupsPerDay, 'lookup')}${changesPerDay > 0 ? ` and ${count(changesPerDay, 'change')}` : ''}`,
    ['sent', costs => bytes(costs.dayBytesUp)],
    ['received', costs => bytes(costs.dayBytesDown)],
    ...changing(['of it changes', costs => bytes(costs.updateBytes)]),
    'Server, in memory',
    ['database', costs => bytes(costs.databaseBytes)],
    ['trees', costs => bytes(costs.treeBytes)],
    ['content hashes', costs => bytes(costs.contentBytes)],
    ...directory,
    ['together', costs => bytes(costs.serverBytes)],
  ]
  const lines = rows.flatMap(row =>
    typeof row === 'string' ? [[], [row]] : [[`  ${row[0]}`, row[1](plan.merkle, 'merkle'), row[1](plan.tags, 'tags')]],
  )
  const { serverBytes } = plan[plan.recommended]
  const text = [
    `${records} ${keyed ? 'keyed' : 'keyless'} records of ${recordBytes} bytes: ` +
      `${partitions} partitions of ${partitionRecords}${blockRecords > 1 ? `, ${blockRecords} a block` : ''}`,
    '',
    ...aligned(modeRows(plan.modes)),
    '',
    'Hints, by what proves answers',
    ...aligned([['', 'merkle', 'tags'], ...lines.slice(1)]),
    '',
    `Recommended: ${plan.recommended}.`,
    plan.reason,
    ...(serverBytes > WASM_BYTES ? [`No server could hold ${bytes(serverBytes)}: WebAssembly ends at 4.3 GB.`] : []),
  ]
  return `${text.join('\n')}\n`
}

/** A Markdown table with a row for every Q. */
function describeCurve(plans: readonly Plan[], plannedPartitions: number): string {
  const lookup = (costs: Costs) => bytes(costs.lookupBytesUp + costs.lookupBytesDown)
  const rows = plans.map(({ layout: { partitions, partitionRecords }, merkle, tags }) => [
    `${partitions}${partitions === plannedPartitions ? ' (planned)' : ''}`,
    `${partitionRecords}`,
    ...[bytes(merkle.memoryBytes), bytes(tags.memoryBytes)],
    ...[lookup(merkle), lookup(tags), `${merkle.lookupHashes}`],
    bytes(merkle.offlineBytes),
  ])
  const head = ['Q', 'M', 'client, merkle', 'client, tags', 'lookup, merkle', 'lookup, tags', 'BLAKE3', 'offline']
  return markdown([head, ...rows])
}

const MODES: Record<ModeCosts['mode'], string> = {
  local: 'keep it all (local)',
  instant: 'instant',
  light: 'light hint',
  full: 'full hint',
  single: 'one server',
}

/** A head, and a row for each way to look up. */
function modeRows(modes: readonly ModeCosts[]): string[][] {
  const head = ['', 'before the first', 'a lookup', 'a day', 'memory', 'disk', 'servers, before', 'servers, a lookup']
  const rows = modes.map(costs => [
    `${MODES[costs.mode]}${costs.mode === 'light' || costs.mode === 'full' ? `, ${costs.proofs}` : ''}`,
    bytes(costs.firstBytes),
    ...[costs.lookupBytesUp + costs.lookupBytesDown, costs.dayBytes, costs.memoryBytes, costs.diskBytes].map(bytes),
    ...[costs.serverPrepareMicros, costs.serverLookupMicros].map(micros => (micros === 0 ? '–' : duration(micros))),
  ])
  return [head, ...rows]
}

/** A table whose first row is its head. */
function markdown(rows: readonly (readonly string[])[]): string {
  const [first, ...rest] = aligned(rows, ' | ').map(line => `| ${line} |\n`)
  const rule = first!.replaceAll(/[^|\n]+/g, cell => ` ${'-'.repeat(cell.length - 3)}: `)
  return [first, rule, ...rest].join('')
}

/** Columns of equal width, the first one flush left and the others right. */
function aligned(rows: readonly (readonly string[])[], between = '   '): string[] {
  const columns = Math.max(...rows.map(row => row.length))
  const widths = Array.from({ length: columns }, (_, i) => Math.max(...rows.map(row => row[i]?.length ?? 0)))
  const pad = (cell: string, i: number) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))
  return rows.map(row => row.map(pad).join(between).trimEnd())
}

const count = (n: number, noun: string) => `${n} ${noun}${n === 1 ? '' : 's'}`

const BYTE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB']

/** `1.3 MB`, in powers of 1000 */
function bytes(n: number): string {
  if (n === 0) return '–'
  if (n < 1000) return `${n} B`
  const power = Math.min(BYTE_UNITS.length - 1, Math.floor((`${n}`.length - 1) / 3))
  const value = n / 1000 ** power
  return `${value.toFixed(value < 100 ? 1 : 0)} ${BYTE_UNITS[power]}`
}

function duration(micros: number): string {
  if (micros < 100) return `${micros} µs`
  const [value, unit] = micros < 1_000_000 ? [micros / 1000, 'ms'] : [micros / 1_000_000, 's']
  return `${value.toFixed(value < 100 ? 1 : 0)} ${unit}`
}
