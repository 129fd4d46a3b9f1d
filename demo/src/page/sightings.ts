// Draws what the two servers saw: a row for every lookup, newest first, with what was asked (only this page knows it) and a plot of
// what each server was sent. learnt.ts shows the newest plots beside the answer as well.

import { type Config, fetchSeen, type Seen, type ServerName, type Sighting } from './backstage.js'
import type { Database } from './databases.js'
import { bytes, count, element } from './format.js'

const ROWS_KEPT = 6
const SVG = 'http://www.w3.org/2000/svg'

/** What a server saw of a lookup. All numbers of the sighting are below `bound`. */
export interface Seeing {
  readonly server: ServerName
  readonly sighting: Sighting
  readonly bound: number
}

export class Sightings {
  readonly #list: HTMLOListElement
  readonly #empty: HTMLElement
  readonly #config: Config
  /** ids of the last sightings that were drawn, or that are older than this page */
  readonly #drawn: Record<ServerName, number>
  readonly #previous = new Map<string, Sighting>()
  /** settles after the last work that runs alone */
  #turn: Promise<unknown> = Promise.resolve()

  constructor(elements: { list: HTMLOListElement; empty: HTMLElement }, config: Config) {
    this.#list = elements.list
    this.#empty = elements.empty
    this.#config = config
    this.#drawn = { ...config.seen }
  }

  /** Runs `work` after earlier work: what the servers see meanwhile belongs to it. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work)
    this.#turn = result.catch(() => {})
    return result
  }

  /**
   * Draws what `servers` saw of the lookup that has just ended; resolves to nothing if it was not sent. `sent`: what the page
   * sent, if no proxy records what servers see.
   */
  async draw(
    database: Database['name'],
    asked: string,
    servers: readonly ServerName[],
    sent?: Seen,
  ): Promise<readonly Seeing[]> {
    const seen = sent ?? (await fetchSeen())
    const isNew = (server: ServerName, { id }: Sighting) => sent !== undefined || id > this.#drawn[server]
    const newest = (server: ServerName) => seen[server].findLast(one => one.database === database && isNew(server, one))
    const seeings = servers.flatMap(server => {
      const sighting = newest(server)
      return sighting === undefined ? [] : [{ server, sighting, bound: this.#boundOf(database, sighting) }]
    })
    const plots = seeings.map(seeing => {
      const { server, sighting } = seeing
      const before = this.#previous.get(`${server} ${database}`)
      this.#previous.set(`${server} ${database}`, sighting)
      if (sent === undefined) this.#drawn[server] = sighting.id
      return plotFigure(seeing, before)
    })
    if (plots.length < servers.length) return [] // ended before it was sent
    const label = element('p', { class: 'asked' }, element('span', { class: 'quiet' }, 'You asked'), asked)
    this.#list.prepend(element('li', {}, label, ...plots))
    while (this.#list.children.length > ROWS_KEPT) this.#list.lastElementChild?.remove()
    this.#empty.hidden = true
    return seeings
  }

  /** The least number that is above all possible numbers of a sighting. */
  #boundOf(database: Database['name'], { of, columns }: Sighting): number {
    if (of === 'bytes') return 256
    if (database === 'own') throw new Error('expected instant lookups of the visitor’s own database')
    const { partitionRecords, slots } = this.#config.databases[database]!
    return of === 'offsets' ? partitionRecords : 2 ** Math.ceil(Math.log2(slots / columns))
  }
}

function plotFigure({ server, sighting: now, bound }: Seeing, before: Sighting | undefined) {
  const numbers = now.vectors.flat()
  const what = {
    bytes: `${count(now.vectors.length, 'share')} of a secret, ${now.columns} bytes each`,
    offsets: `${count(now.vectors.length, 'question')} of ${now.columns} places`,
    stripes: `${count(now.vectors.length, 'question')} of ${now.columns} places, each in one of two halves`,
  }[now.of]
  const caption = element(
    'figcaption',
    {},
    element('strong', { class: `server ${server.toLowerCase()}` }, `Server ${server} saw`),
    ` ${what}, in ${bytes(now.bytes)}`,
    now.claimed ? ', 80 of them to notice copies of this page' : '',
  )
  const details = element(
    'details',
    {},
    element('summary', {}, 'The numbers'),
    element('pre', { tabindex: '0' }, now.vectors.map(vector => vector.join(' ')).join('\n')),
  )
  const figure = element('figure', { class: server.toLowerCase() }, caption, plot(now, bound))
  if (before?.of === now.of && before.vectors.flat().length === numbers.length) {
    const same = before.vectors.flat().filter((number, i) => number === numbers[i]).length
    const expected = numbers.length / bound
    figure.append(
      element(
        'p',
        { class: 'quiet' },
        `In common with the lookup before: ${same} of ${numbers.length} (by chance: ${expected.toPrecision(1)})`,
      ),
    )
  }
  figure.append(details)
  return figure
}

/** A column for each partition, or each byte of a key; a dot for each number. One unit is a column wide and 1 high. */
export function plot({ of, vectors, columns }: Sighting, bound: number): SVGElement {
  const svg = svgElement('svg', {
    class: of,
    viewBox: `0 0 ${columns} ${bound}`,
    preserveAspectRatio: 'none',
    role: 'img',
    'aria-label': `${vectors.flat().length} ${of} between 0 and ${bound - 1}`,
  })
  for (let q = 0; q < columns; q += 1) {
    if (of !== 'bytes') svg.append(svgElement('path', { class: 'partition', d: `M ${q + 0.5} 0 V ${bound}` }))
    // Strokes of length zero with round ends are dots that stay round when the plot is stretched.
    const dots = vectors.map(vector => `M ${q + 0.5} ${vector[q]! + 0.5} h 0`)
    svg.append(svgElement('path', { class: 'dots', d: dots.join(' ') }))
  }
  return svg
}

function svgElement(name: string, attributes: Record<string, string>): SVGElement {
  const made = document.createElementNS(SVG, name) as SVGElement
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  return made
}
