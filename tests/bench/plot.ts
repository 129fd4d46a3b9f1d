// Line plots as SVG files, for documents: a cost against the number of records, both axes logarithmic, one line a series.
// Apache ECharts draws them. Nothing is told by colour alone: every line has its marker, and its name at its end.

import * as echarts from 'echarts'

/** What was measured of one series at one place. A value that is known without spread has its median alone. */
export interface Row {
  readonly series: string
  readonly x: number
  readonly median: number
  readonly min?: number
  readonly max?: number
}

export interface Plot {
  readonly title: string
  /** what the y axis shows, in words */
  readonly y: string
  /** what its numbers are */
  readonly unit: Unit
  /** what the x axis shows */
  readonly x: string
  /** in any order; series are drawn in the order of their first row */
  readonly rows: readonly Row[]
  /** series drawn with broken lines and hollow markers: somebody else's figures */
  readonly dashed?: readonly string[]
}

export type Unit = 'bytes' | 'seconds' | 'count'

const WIDTH = 900
const HEIGHT = 460
/** Room for names at the ends of lines; longer ones go on in a second line. */
const NAMES = 230
const MAX_SERIES = 8
/** On white, each with a contrast of 4.5 at least (WCAG AA). */
const COLOURS = ['#1d4ed8', '#c2410c', '#0e7490', '#7e22ce', '#15803d', '#b91c1c', '#854d0e', '#be185d']
const MARKERS = [
  ...['circle', 'rect', 'triangle', 'diamond'],
  'path://M0 0H10L5 9z', // triangle, downwards
  'path://M0 1L1 0L5 4L9 0L10 1L6 5L10 9L9 10L5 6L1 10L0 9L4 5z', // cross
  'path://M4 0H6V4H10V6H6V10H4V6H0V4H4z', // plus
  'roundRect',
]

/** The picture. Throws RangeError for rows that a logarithmic axis cannot show. */
export function plot({ title, y, unit, x, rows, dashed = [] }: Plot): string {
  const series = bySeries(rows)
  const xs = rows.map(row => Math.log2(row.x))
  const ys = rows.flatMap(({ median, min = median, max = median }) => [min, max])
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height: HEIGHT })
  try {
    chart.setOption({
      animation: false,
      backgroundColor: '#fff',
      color: COLOURS,
      textStyle: { fontFamily: 'sans-serif', fontSize: 14 },
      title: {
        ...{ text: title, subtext: y, left: 10, top: 8, itemGap: 4 },
        textStyle: { fontSize: 16, color: '#1b2430', width: WIDTH - 60, overflow: 'truncate' },
        subtextStyle: { fontSize: 14, color: '#566173' },
      },
      grid: { left: 110, right: NAMES, top: 70, bottom: 60 },
      // In powers of two: ECharts divides a linear axis of exponents better than a logarithmic one of base 2.
      xAxis: {
        ...{ type: 'value', name: x, nameLocation: 'middle', nameGap: 32, ...around(xs), minInterval: 1 },
        splitLine: { show: false },
        nameTextStyle: { fontSize: 14, color: '#566173' },
        axisLabel: {
          fontSize: 14,
          color: '#1b2430',
          hideOverlap: true,
          showMaxLabel: false,
          formatter: (at: number) => power(2 ** at),
        },
      },
      yAxis: {
        ...{ type: 'log', min: decade(Math.min(...ys), Math.floor), max: decade(Math.max(...ys), Math.ceil) },
        minorTick: { show: true },
        axisLabel: {
          fontSize: 14,
          color: '#1b2430',
          hideOverlap: true,
          formatter: (value: number) => format(value, unit),
        },
      },
      series: [...series].flatMap(([name, points], i) => [
        line(name, points, i, dashed.includes(name)),
        ...spreads(points, COLOURS[i]!),
      ]),
    })
    return `${accessible(chart.renderToSVGString(), `${title}: ${y}`)}\n`
  } finally {
    chart.dispose()
  }
}

function line(name: string, points: readonly Row[], i: number, dashed: boolean): echarts.SeriesOption {
  return {
    ...{ type: 'line', name, symbol: MARKERS[i]!, symbolSize: 10, showAllSymbol: true, silent: true, clip: false },
    emphasis: { disabled: true },
    data: points.map(({ x, median }) => [Math.log2(x), median]),
    lineStyle: { width: 2, color: COLOURS[i]!, type: dashed ? [6, 4] : 'solid' },
    // Hollow, if it is somebody else's.
    itemStyle: dashed ? { color: '#fff', borderColor: COLOURS[i]!, borderWidth: 2 } : { color: COLOURS[i]! },
    endLabel: {
      ...{ show: true, formatter: '{a}', distance: 16, fontSize: 14, color: COLOURS[i]! },
      ...{ width: NAMES - 30, overflow: 'break' },
    },
    labelLayout: { moveOverlap: 'shiftY' },
  }
}

/** From the least to the most of every row that has both. */
function spreads(points: readonly Row[], stroke: string): echarts.SeriesOption[] {
  const data = points.flatMap(({ x, median, min = median, max = median }) =>
    min === max ? [] : [[Math.log2(x), min, max]],
  )
  if (data.length === 0) return []
  return [
    {
      ...{ type: 'custom', silent: true, clip: false, data, encode: { x: 0, y: [1, 2] } },
      renderItem: (_, api) => {
        const [x, low] = api.coord([api.value(0), api.value(1)]) as [number, number]
        const [, high] = api.coord([api.value(0), api.value(2)]) as [number, number]
        const bar = (x1: number, y1: number, x2: number, y2: number) =>
          ({ type: 'line', shape: { x1, y1, x2, y2 }, style: { stroke, lineWidth: 1 } }) as const
        return {
          type: 'group',
          children: [bar(x, low, x, high), bar(x - 4, low, x + 4, low), bar(x - 4, high, x + 4, high)],
        }
      },
    },
  ]
}

/** A little more than these exponents. */
function around(exponents: readonly number[]): { min: number; max: number } {
  const [least, most] = [Math.min(...exponents), Math.max(...exponents)]
  return { min: Math.ceil(least) - 1, max: Math.floor(most) + 1 }
}

/** The power of ten below or above, and another where there would be no height. */
function decade(value: number, round: (exponent: number) => number): number {
  const exponent = round(Math.log10(value) + (round === Math.ceil ? 1e-9 : -1e-9))
  return Number(`1e${exponent}`)
}

/** With what a screen reader says of it, and without what a mouse does to it. */
function accessible(svg: string, title: string): string {
  const name = title.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  return svg
    .replace(/<svg ([^>]*)>/, `<svg $1 role="img"><title>${name}</title>`)
    .replaceAll(/<style.*?<\/style>|<defs.*?<\/defs>| (class|clip-path|ecmeta\w+)="[^"]*"/gs, '')
}

/** Rows by series, ascending by x. */
function bySeries(rows: readonly Row[]): Map<string, Row[]> {
  const series = new Map<string, Row[]>()
  for (const row of rows) {
    const { x, median, min = median, max = median } = row
    if (!(x > 0 && min > 0 && min <= median && median <= max && max < Number.POSITIVE_INFINITY)) {
      throw new RangeError(`${row.series} at ${x}: expected 0 < min ≤ median ≤ max, got ${min}, ${median}, ${max}`)
    }
    const points = series.get(row.series) ?? []
    if (points.some(point => point.x === x)) throw new RangeError(`${row.series}: two rows at ${x}`)
    series.set(row.series, [...points, row])
  }
  if (series.size < 1 || series.size > MAX_SERIES) {
    throw new RangeError(`expected 1 to ${MAX_SERIES} series, got ${series.size}`)
  }
  for (const points of series.values()) points.sort((a, b) => a.x - b.x)
  return series
}

const UNITS: Record<Unit, readonly (readonly [number, string])[]> = {
  bytes: [1e12, 1e9, 1e6, 1e3, 1].map((each, i) => [each, ['TB', 'GB', 'MB', 'kB', 'B'][i]!]),
  seconds: [1, 1e-3, 1e-6, 1e-9].map((each, i) => [each, ['s', 'ms', 'µs', 'ns'][i]!]),
  count: [1e9, 1e6, 1e3, 1].map((each, i) => [each, ['G', 'M', 'k', ''][i]!]),
}

/** A unit, and how values look in it, without its name. */
export interface Scale {
  readonly name: string
  readonly shown: (value: number) => string
}

/** The largest unit of which `value` has one. */
export function scaleFor(value: number, unit: Unit): Scale {
  // A little below, because 1e-3 may come out as 0.00099….
  const [each, name] = UNITS[unit].find(([each]) => value >= each * 0.999) ?? UNITS[unit].at(-1)!
  // Rounded before it is divided, so that a value has the same digits in every unit.
  return { name, shown: value => `${Number((Number(value.toPrecision(3)) / each).toPrecision(3))}` }
}

/** `5 ms`, in powers of 1000 */
export function format(value: number, unit: Unit): string {
  const { name, shown } = scaleFor(value, unit)
  return `${shown(value)}${name && ` ${name}`}`
}

/** `2²⁰` for powers of two, `3 M` for others */
export function power(x: number): string {
  const exponent = Math.log2(x)
  if (!Number.isInteger(exponent) || exponent < 4) return format(x, 'count')
  return `2${[...`${exponent}`].map(digit => '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(digit)]).join('')}`
}
