// `keyhush plan`: what a database will cost, before there is one. The formulas are the core's (docs/costs.md).

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

/** The options of `plan` as commander gives them. */
export interface PlanArguments extends Omit<Workload, 'memoryBytes' | 'uplinkKbit' | 'downlinkKbit' | 'servers'> {
  readonly servers: number
  /** MB */
  readonly memory?: number
  /** kbit/s */
  readonly uplink?: number
  readonly downlink?: number
  readonly json?: boolean
}

export async function plan(options: PlanArguments): Promise<void> {
  const { json, memory, uplink, downlink, servers, ...demand } = options
  const workload: Workload = {
    ...demand,
    servers: servers === 1 ? undefined : servers,
    memoryBytes: memory === undefined ? undefined : memory * 1_000_000,
    uplinkKbit: uplink,
    downlinkKbit: downlink,
  }
  const core = await loadCore()
  try {
    const plan = planFor(core, servers, core.plan(workload))
    process.stdout.write(json ? `${JSON.stringify(plan, undefined, 2)}\n` : describePlan(plan))
  } catch (error) {
    if ((error as Partial<CoreError>).code === undefined) throw error
    throw new BuildError((error as CoreError).message)
  }
}

/** Without the modes that so many servers do not have. One server answers instant lookups by a scheme of its own. */
function planFor(core: Core, servers: number, plan: Plan): Plan {
  const alone = servers === 1 ? oneServerPlan(core, plan) : []
  const modes = plan.modes.flatMap(costs => {
    if (costs.mode === 'full') return servers === 2 ? [costs] : []
    return costs.mode === 'instant' && servers === 1 ? alone : [costs]
  })
  return { ...plan, modes }
}

/** A WebAssembly memory ends here, and a server keeps its database in one. */
const WASM_BYTES = 2 ** 32

function describePlan({ layout, modes, merkle, tags, recommended, reason, workload }: Plan): string {
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = layout
  const { serverBytes } = { merkle, tags }[recommended]
  const text = [
    `${records} ${workload.keyed ? 'keyed' : 'keyless'} records of ${recordBytes} bytes: ` +
      `${partitions} partitions of ${partitionRecords}${blockRecords > 1 ? `, ${blockRecords} a block` : ''}`,
    `Memory of a server: ${bytes(merkle.serverBytes)}, or ${bytes(tags.serverBytes)} with --proofs tags, and 200 MB for the process`,
    '',
    ...aligned(modeRows(modes)),
    'Beside its server time, a request takes about 0.1 ms, as any request to Node does.',
    ...(modes.some(({ mode }) => mode === 'full') ? ['', `Recommended: full, ${recommended}.`, reason] : []),
    ...(serverBytes > WASM_BYTES ? [`No server can hold ${bytes(serverBytes)}: at most 4.3 GB. Split the data.`] : []),
  ]
  return `${text.join('\n')}\n`
}

/** A head, and a row for each way to look up. */
function modeRows(modes: readonly ModeCosts[]): string[][] {
  const head = ['', 'before the first lookup', 'a lookup', 'a day', 'memory', 'disk', 'server time a lookup']
  const rows = modes.map(costs => [
    `${costs.mode}${costs.mode === 'full' ? `, ${costs.proofs}` : ''}`,
    bytes(costs.firstBytes),
    ...[costs.lookupBytesUp + costs.lookupBytesDown, costs.dayBytes, costs.memoryBytes, costs.diskBytes].map(bytes),
    costs.serverLookupMicros === 0 ? '–' : duration(costs.serverLookupMicros),
  ])
  return [head, ...rows]
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
  const [value, unit] = micros < 1_000_000 ? [micros / 1000, 'ms'] : [micros / 1_000_000, 's']
  return `${value.toFixed(value < 100 ? 1 : 0)} ${unit}`
}
