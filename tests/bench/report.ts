// Figures against their targets, as a table that reads well in a terminal and in Markdown.

export interface Figure {
  readonly name: string
  readonly unit: string
  /** the target: the median stays below. None: shown for comparison */
  readonly below?: number
  readonly samples: readonly number[]
}

export function passed({ below, samples }: Figure): boolean {
  return below === undefined || median(samples) < below
}

export function report(figures: readonly Figure[]): string {
  const rows = figures.map(figure => [
    figure.name,
    figure.below === undefined ? '' : `< ${figure.below} ${figure.unit}`,
    `${round(median(figure.samples))} ${figure.unit}`,
    spread(figure.samples),
    figure.below === undefined ? '' : passed(figure) ? 'pass' : 'FAIL',
  ])
  const all = [['figure', 'target', 'median', 'min – max', ''], ...rows]
  const widths = all[0]!.map((_, column) => Math.max(...all.map(row => row[column]!.length)))
  const line = (row: readonly string[]) => `| ${row.map((cell, column) => cell.padEnd(widths[column]!)).join(' | ')} |`
  return [line(all[0]!), line(widths.map(width => '-'.repeat(width))), ...rows.map(line)].join('\n')
}

export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b)
  const middle = sorted.length / 2
  return (sorted[Math.ceil(middle) - 1]! + sorted[Math.floor(middle)]!) / 2
}

function spread(samples: readonly number[]): string {
  const [least, most] = [Math.min(...samples), Math.max(...samples)].map(round)
  return least === most ? '' : `${least} – ${most}`
}

/** Three digits that count. */
function round(value: number): string {
  return `${Number(value.toPrecision(3))}`
}
