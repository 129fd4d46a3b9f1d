// Plots: that lines are where their numbers are, and that what a browser makes of a plot can be read, in light and dark.

import type { Browser } from 'puppeteer-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launchBrowser } from '../../tools/browsers.mjs'
import { type Plot, plot, type Row } from './plot.js'

const sizes = [16, 18, 20, 22, 24].map(exponent => 2 ** exponent)
const rowsOf = (series: string, medianOf: (x: number) => number, spread = 1): Row[] =>
  sizes.map(x => ({ series, x, median: medianOf(x), min: medianOf(x) / spread, max: medianOf(x) * spread }))
const base = { title: 'A lookup', y: 'bytes, both ways', unit: 'bytes', x: 'records (N)' } as const

const gallery: Record<string, Plot> = {
  'some series': {
    ...base,
    rows: [...rowsOf('ours', Math.sqrt, 1.5), ...rowsOf('the paper’s', x => 13 * Math.sqrt(x))],
    dashed: ['the paper’s'],
  },
  'one point': { ...base, unit: 'count', rows: [{ series: 'ours', x: 3_000_000, median: 13_000, max: 14_000 }] },
  'equal numbers': { ...base, rows: rowsOf('flat', () => 100) },
  'a power of ten, alone': { ...base, unit: 'seconds', rows: [{ series: 'ours', x: 1, median: 1 }] },
  'long texts and markup': {
    title: 'A title much longer than the picture would be wide if it were not for a title as long as this one is',
    y: 'bytes & <b>more</b> "quoted"',
    unit: 'bytes',
    x: '<N>',
    rows: rowsOf('MMMM WWWW & <a series> of a rather long name', x => x),
  },
  'many series that end together at the top': {
    ...base,
    rows: Array.from({ length: 8 }, (_, i) => rowsOf(`series ${i}`, x => x * (1 + i / 1e6))).flat(),
  },
  'many series that end together at the bottom': {
    ...base,
    rows: Array.from({ length: 8 }, (_, i) => rowsOf(`series ${i}`, x => 1 / (x + i))).flat(),
  },
  'from nanoseconds to days': { ...base, unit: 'seconds', rows: rowsOf('ours', x => 1e-9 * 10 ** (x / 2 ** 20)) },
  'a hundred places': {
    ...base,
    rows: Array.from({ length: 100 }, (_, i) => ({ series: 'ours', x: 1000 + i, median: 100 + i })),
  },
}

/** The places of every series' line. */
function lines(svg: string): [number, number][][] {
  return [...svg.matchAll(/<path d="(M[^"]+)" fill="none"[^>]* stroke-width="2"/g)].map(([, line]) =>
    [...line!.matchAll(/[ML]([\d.]+) ([\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]),
  )
}

test('equal ratios are equal distances, on both axes, and rows may come in any order', () => {
  const rows = rowsOf('square', x => x ** 2)
  const svg = plot({ ...base, rows })
  const [places] = lines(svg) as [[number, number][]]
  const steps = places.slice(1).map(([x, y], i) => [x - places[i]![0], y - places[i]![1]])
  for (const [dx, dy] of steps) {
    expect(dx).toBeCloseTo(steps[0]![0]!, 0)
    expect(dy).toBeCloseTo(steps[0]![1]!, 0)
  }
  expect(steps[0]![0]).toBeGreaterThan(0)
  expect(steps[0]![1]).toBeLessThan(0) // more is higher
  expect(plot({ ...base, rows: rows.toReversed() })).toBe(svg)
})

test('two series stand to each other as their numbers do', () => {
  const rows = [...rowsOf('ten', () => 10), ...rowsOf('hundred', () => 100), ...rowsOf('thousand', () => 1000)]
  const svg = plot({ ...base, rows })
  const [ten, hundred, thousand] = lines(svg).map(places => places[0]![1])
  expect(ten! - hundred!).toBeCloseTo(hundred! - thousand!, 0)
})

test('only what has a spread shows one, and only what is named is dashed', () => {
  const svg = plot(gallery['some series']!)
  const thin = [...svg.matchAll(/<path d="M[^"]*" fill="#000" stroke="(#\w+)"/g)].map(([, colour]) => colour)
  const [ours] = [...svg.matchAll(/stroke="(#\w+)" stroke-width="2"/g)].map(([, colour]) => colour)
  expect(thin.filter(colour => colour === ours)).toHaveLength(3 * sizes.length)
  expect([...svg.matchAll(/stroke-width="2"( stroke-dasharray)?/g)].map(([, dashed]) => dashed !== undefined)).toEqual([
    false,
    true,
  ])
})

test.each([
  ['nothing', []],
  ['zero', [{ series: 'a', x: 1, median: 0 }]],
  ['less than nothing', [{ series: 'a', x: -1, median: 1 }]],
  ['no number', [{ series: 'a', x: 1, median: Number.NaN }]],
  ['infinity', [{ series: 'a', x: 1, median: Number.POSITIVE_INFINITY }]],
  ['a median outside its spread', [{ series: 'a', x: 1, median: 3, min: 1, max: 2 }]],
  [
    'two numbers in one place',
    [
      { series: 'a', x: 1, median: 1 },
      { series: 'a', x: 1, median: 2 },
    ],
  ],
  ['nine series', Array.from({ length: 9 }, (_, i) => ({ series: `${i}`, x: 1, median: 1 }))],
])('%s cannot be plotted', (_, rows) => {
  expect(() => plot({ ...base, rows })).toThrow(RangeError)
})

describe('in a browser', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await launchBrowser('chromium')
  })
  afterAll(() => browser.close())

  test.each(Object.entries(gallery))('%s: no text is clipped or touches another, all can be read', async (_, each) => {
    const page = await browser.newPage()
    await page.goto(`data:image/svg+xml,${encodeURIComponent(plot(each))}`)
    const { width, height, texts } = await page.evaluate(() => {
      const svg = document.documentElement as unknown as SVGSVGElement
      const texts = [...svg.querySelectorAll('text')].map(text => {
        const { x, y, width, height } = text.getBoundingClientRect()
        return { content: text.textContent ?? '', fill: getComputedStyle(text).fill, x, y, width, height }
      })
      return { width: svg.width.baseVal.value, height: svg.height.baseVal.value, texts }
    })
    const words = texts.map(({ content }) => content).join(' ')
    const names = new Set(each.rows.map(row => row.series))
    for (const content of [each.y, each.x, ...names])
      for (const word of content.split(' ')) expect(words).toContain(word)
    for (const [i, text] of texts.entries()) {
      expect(text.x, text.content).toBeGreaterThanOrEqual(0)
      expect(text.y, text.content).toBeGreaterThanOrEqual(0)
      expect(text.x + text.width, text.content).toBeLessThanOrEqual(width)
      expect(text.y + text.height, text.content).toBeLessThanOrEqual(height)
      expect(contrast(text.fill, 'rgb(255, 255, 255)'), text.content).toBeGreaterThanOrEqual(4.5) // WCAG AA
      for (const other of texts.slice(i + 1)) {
        const apart =
          text.x + text.width <= other.x ||
          other.x + other.width <= text.x ||
          text.y + text.height <= other.y + 3 ||
          other.y + other.height <= text.y + 3
        expect(apart, `${text.content} and ${other.content}`).toBe(true)
      }
    }
    await page.close()
  })
})

/** WCAG's relative luminance of `rgb(r, g, b)`. */
function luminance(colour: string): number {
  const [r, g, b] = colour.match(/\d+/g)!.map(part => {
    const share = Number(part) / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  }) as [number, number, number]
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

function contrast(one: string, other: string): number {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number]
  return (light + 0.05) / (dark + 0.05)
}
