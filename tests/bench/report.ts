// Figures against their targets, as a table that reads well in a terminal and in Markdown.

export interface Figure {
  readonly name: string
  readonly unit: string
  /** the median stays below, or is at most that. None: shown for comparison */
  readonly target?: Target | undefined
  /** none: it cannot be measured here */
  readonly samples: readonly number[]
}

export type Target = readonly ['<' | '≤', number]

/** Figures that belong together. */
export interface Section {
  readonly title: string
  readonly figures: readonly Figure[]
}

export function passed({ target, samples }: Figure): boolean {
  if (target === undefined || samples.length === 0) return true
  const [how, limit] = target
  return how === '<' ? median(samples) < limit : median(samples) <= limit
}

export function report(figures: readonly Figure[]): string {
  const rows = figures.map(figure => {
    const { name, unit, target, samples } = figure
    const measured = samples.length > 0
    return [
      name,
      target === undefined ? '' : `${target[0]} ${target[1]} ${unit}`,
      measured ? `${round(median(samples))} ${unit}` : 'not measured',
      measured ? spread(samples) : '',
      target === undefined || !measured ? '' : passed(figure) ? 'pass' : 'FAIL',
    ]
  })
  const all = [['figure', 'target', 'median', 'min – max', ''], ...rows]
  const widths = all[0]!.map((_, column) => Math.max(...all.map(row => row[column]!.length)))
  const line = (row: readonly string[]) => `| ${row.map((cell, column) => cell.padEnd(widths[column]!)).join(' | ')} |`
  return [line(all[0]!), line(widths.map(width => '-'.repeat(width))), ...rows.map(line)].join('\n')
}

export function median(samples: readonly number[]): number {
  const sorted = ascending(samples)
  const middle = sorted.length / 2
  return (sorted[Math.ceil(middle) - 1]! + sorted[Math.floor(middle)]!) / 2
}

/** The least sample that is not below a `share` of all. */
export function quantile(samples: readonly number[], share: number): number {
  return ascending(samples)[Math.max(0, Math.ceil(share * samples.length) - 1)]!
}

function ascending(samples: readonly number[]): number[] {
  return [...samples].sort((a, b) => a - b)
}

function spread(samples: readonly number[]): string {
  const [least, most] = [quantile(samples, 0), quantile(samples, 1)].map(round)
  return least === most ? '' : `${least} – ${most}`
}

/** Three digits that count. */
function round(value: number): string {
  return `${Number(value.toPrecision(3))}`
}
