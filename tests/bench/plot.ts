// Line plots as SVG files, for documents: a cost against the number of records, both axes logarithmic, one line a series. No
// dependencies. A plot brings its own background and follows the reader's light or dark scheme. Nothing is told by
// colour alone: every line has its marker, and its name at its end. The picture is as large as its texts need, so none
// is clipped.

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

const AREA = { width: 520, height: 340 } as const
const FONT = 14
/** No usual font is wider on average; tests/bench/plot.test.ts measures what a browser makes of it. */
const CHARACTER = 0.62 * FONT
const LINE = 19
const GAP = 10
const MARKER = 4.5
const MAX_SERIES = 8

/** The picture. Throws RangeError for rows that a logarithmic axis cannot show. */
export function plot({ title, y: yTitle, unit, x: xTitle, rows, dashed = [] }: Plot): string {
  const series = bySeries(rows)
  const xs = [...new Set(rows.map(row => row.x))].sort((a, b) => a - b)
  const ticks = yTicks(rows.flatMap(({ median, min = median, max = median }) => [min, max]))
  const yLabels = ticks.map(({ value, labelled }) => (labelled ? format(value, unit) : ''))

  const left = GAP + widest(yLabels) + GAP
  const top = GAP + 2 * LINE + 2 * GAP
  const right = left + AREA.width
  const bottom = top + AREA.height
  const width = Math.ceil(
    Math.max(right + 4 * GAP + widest([...series.keys()]), GAP + 1.2 * widest([title]), GAP + widest([yTitle])) + GAP,
  )
  const height = bottom + 3 * LINE

  const margin = 2 * GAP // so that markers at the ends do not touch the frame
  const xAt = scale(xs[0]!, xs.at(-1)!, left + margin, right - margin)
  const yAt = scale(ticks[0]!.value, ticks.at(-1)!.value, bottom, top)

  const grid = ticks.map(({ value, labelled }, i) => {
    const at = round(yAt(value))
    const label = labelled ? text(left - GAP, at, yLabels[i]!, 'end') : ''
    return `<path class="${labelled ? 'grid' : 'grid minor'}" d="M${left} ${at}H${right}"/>${label}`
  })
  const xLabels = legible(xs, xAt).map(x => {
    const at = round(xAt(x))
    return `<path class="axis" d="M${at} ${bottom}v5"/>${text(at, bottom + LINE, power(x), 'middle')}`
  })
  const ends = spread(
    [...series.values()].map(points => yAt(points.at(-1)!.median)),
    top,
    bottom,
  )
  const lines = [...series].map(([name, points], i) => {
    const places = points.map(({ x, median }) => [xAt(x), yAt(median)] as const)
    const last = places.at(-1)!
    const spreads = points.map(({ x, median, min = median, max = median }) => {
      const [at, low, high] = [round(xAt(x)), round(yAt(min)), round(yAt(max))]
      return low === high ? '' : `M${at} ${low}V${high}M${at - 4} ${low}h8M${at - 4} ${high}h8`
    })
    return [
      `<g class="s${i}${dashed.includes(name) ? ' dashed' : ''}">`,
      `<path class="line" d="${places.map(([x, y], j) => `${j === 0 ? 'M' : 'L'}${round(x)} ${round(y)}`).join('')}"/>`,
      `<path class="spread" d="${spreads.join('')}"/>`,
      `<path class="leader" d="M${round(last[0] + 2 * MARKER)} ${round(last[1])}L${right + 2 * GAP} ${ends[i]}"/>`,
      `<path class="marker" d="${[...places, [right + 3 * GAP, ends[i]!] as const].map(at => marker(i, at)).join('')}"/>`,
      text(right + 4 * GAP, ends[i]!, name, 'start'),
      '</g>',
    ].join('')
  })

  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title">`,
    `<title id="title">${escaped(`${title}: ${yTitle}`)}</title>`,
    `<style>${STYLE}</style>`,
    `<rect class="back" width="${width}" height="${height}"/>`,
    text(GAP, GAP + LINE / 2, title, 'start', 'title'),
    text(GAP, GAP + 1.5 * LINE, yTitle, 'start', 'quiet'),
    ...grid,
    `<path class="axis" d="M${left} ${bottom}H${right}"/>`,
    ...xLabels,
    text(left + AREA.width / 2, bottom + 2.2 * LINE, xTitle, 'middle', 'quiet'),
    ...lines,
    '</svg>\n',
  ].join('\n')
}

const STYLE = [
  ':root{--back:#fff;--text:#1b2430;--quiet:#566173;--grid:#d9dee5;--minor:#eef1f4}',
  colours('#1d4ed8', '#c2410c', '#0e7490', '#7e22ce', '#15803d', '#b91c1c', '#854d0e', '#be185d'),
  '@media (prefers-color-scheme:dark){',
  ':root{--back:#18202a;--text:#e6eaf0;--quiet:#9eabbc;--grid:#323d4b;--minor:#232d39}',
  colours('#7aa5ff', '#fb9a5b', '#3fc1dd', '#d3a5ff', '#6fdc97', '#ff9090', '#e0b45c', '#f59ac5'),
  '}',
  `text{font:${FONT}px system-ui,sans-serif;fill:var(--text);dominant-baseline:central}`,
  `.title{font-size:${1.15 * FONT}px;font-weight:600}`,
  '.quiet{fill:var(--quiet)}',
  '.back{fill:var(--back)}',
  'path{fill:none;stroke-width:1}',
  '.axis{stroke:var(--quiet)}.grid{stroke:var(--grid)}.minor{stroke:var(--minor)}',
  'g text{fill:var(--s)}',
  '.line{stroke:var(--s);stroke-width:2}.spread{stroke:var(--s)}',
  '.leader{stroke:var(--s);stroke-dasharray:1 4}',
  '.marker{stroke:var(--s);stroke-width:1.5;fill:var(--s)}',
  '.dashed .line{stroke-dasharray:6 4}.dashed .marker{fill:var(--back)}',
].join('')

function colours(...each: readonly string[]): string {
  return each.map((colour, i) => `.s${i}{--s:${colour}}`).join('')
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

/** From the numbers `from` … `to` to places, by their logarithms; a single number has the middle. */
function scale(from: number, to: number, start: number, end: number): (value: number) => number {
  const length = Math.log(to / from)
  return value => (length === 0 ? (start + end) / 2 : start + ((end - start) * Math.log(value / from)) / length)
}

interface Tick {
  readonly value: number
  readonly labelled: boolean
}

/** 1, 2 and 5 times powers of ten from below all values to above them. Over many decades only some are labelled. */
function yTicks(values: readonly number[]): Tick[] {
  const least = Math.min(...values)
  const most = Math.max(...values)
  const first = Math.floor(Math.log10(least))
  const steps = Array.from({ length: 3 * (Math.ceil(Math.log10(most)) - first + 1) }, (_, i) => ({
    value: Number(`${[1, 2, 5][i % 3]}e${first + Math.floor(i / 3)}`),
    power: i % 3 === 0,
  }))
  const from = steps.findLastIndex(({ value }) => value <= least)
  const to = steps.findIndex(({ value }) => value >= most)
  const shown = steps.slice(from === to ? Math.max(0, from - 1) : from, (from === to ? to + 1 : to) + 1)
  const room = (AREA.height / LINE) * 0.6
  const every = shown.length <= room
  return shown.map(({ value, power }) => ({ value, labelled: every || power }))
}

/** Those of the x whose labels do not touch. */
function legible(xs: readonly number[], at: (x: number) => number): number[] {
  const shown: number[] = []
  for (const x of xs) {
    const before = shown.at(-1)
    const room = before === undefined ? 0 : (widest([power(before)]) + widest([power(x)])) / 2 + GAP
    if (before === undefined || at(x) - at(before) >= room) shown.push(x)
  }
  return shown
}

/** Places for labels near these heights, a line apart, in the same order, from `top` to `bottom`. */
function spread(heights: readonly number[], top: number, bottom: number): number[] {
  const order = heights.map((_, i) => i).sort((a, b) => heights[a]! - heights[b]!)
  const placed = order.map(i => heights[i]!)
  // Neighbours that are too close are pushed apart, each by half, until (nearly) none is; what is left goes one way.
  for (let pass = 0; pass < 100; pass++) {
    for (let i = 1; i < placed.length; i++) {
      const missing = Math.max(0, LINE - (placed[i]! - placed[i - 1]!))
      placed[i - 1]! -= missing / 2
      placed[i]! += missing / 2
    }
  }
  placed.forEach((place, i) => {
    placed[i] = Math.max(place, i === 0 ? top : placed[i - 1]! + LINE)
  })
  for (let i = placed.length - 1; i >= 0; i--) {
    placed[i] = Math.min(placed[i]!, i === placed.length - 1 ? bottom : placed[i + 1]! - LINE)
  }
  const places: number[] = []
  order.forEach((series, i) => {
    places[series] = round(placed[i]!)
  })
  return places
}

/** Eight shapes around a place. */
function marker(series: number, [x, y]: readonly [number, number]): string {
  const r = MARKER
  const shape = [
    `m${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`, // disc
    `m${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`, // square
    `m0 ${-1.3 * r}l${1.2 * r} ${2.2 * r}h${-2.4 * r}z`, // triangle
    `m0 ${-1.4 * r}l${1.4 * r} ${1.4 * r}l${-1.4 * r} ${1.4 * r}l${-1.4 * r} ${-1.4 * r}z`, // diamond
    `m0 ${1.3 * r}l${1.2 * r} ${-2.2 * r}h${-2.4 * r}z`, // triangle, downwards
    `m${-r} ${-r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}`, // cross
    `m0 ${-1.3 * r}v${2.6 * r}m${-1.3 * r} ${-1.3 * r}h${2.6 * r}`, // plus
    `m${-1.3 * r} ${-r / 2}h${2.6 * r}v${r}h${-2.6 * r}z`, // bar
  ][series % MAX_SERIES]!
  return `M${round(x)} ${round(y)}${shape.replaceAll(/-?\d+\.\d+/g, number => `${round(Number(number))}`)}`
}

const UNITS: Record<Unit, readonly (readonly [number, string])[]> = {
  bytes: [1e12, 1e9, 1e6, 1e3, 1].map((each, i) => [each, [' TB', ' GB', ' MB', ' kB', ' B'][i]!]),
  seconds: [1, 1e-3, 1e-6, 1e-9].map((each, i) => [each, [' s', ' ms', ' µs', ' ns'][i]!]),
  count: [1e9, 1e6, 1e3, 1].map((each, i) => [each, [' G', ' M', ' k', ''][i]!]),
}

/** `5 ms`, in powers of 1000 */
export function format(value: number, unit: Unit): string {
  // A little below, because 1e-3 may come out as 0.00099….
  const [each, name] = UNITS[unit].find(([each]) => value >= each * 0.999) ?? UNITS[unit].at(-1)!
  return `${Number((value / each).toPrecision(3))}${name}`
}

/** `2²⁰` for powers of two, `3 M` for others */
export function power(x: number): string {
  const exponent = Math.log2(x)
  if (!Number.isInteger(exponent) || exponent < 4) return format(x, 'count')
  return `2${[...`${exponent}`].map(digit => '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(digit)]).join('')}`
}

function text(x: number, y: number, content: string, anchor: 'start' | 'middle' | 'end', kind?: string): string {
  const className = kind === undefined ? '' : ` class="${kind}"`
  return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}"${className}>${escaped(content)}</text>`
}

const widest = (texts: readonly string[]) => Math.max(...texts.map(each => Math.ceil([...each].length * CHARACTER)))
const round = (place: number) => Math.round(10 * place) / 10
const escaped = (content: string) =>
  content.replaceAll(/[<>&"]/g, character => ({ '<': '&lt;', '>': '&gt;', '&': '&amp;', '"': '&quot;' })[character]!)
