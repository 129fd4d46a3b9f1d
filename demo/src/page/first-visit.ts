// Measures a first visit in this browser: for each mode it opens a map without stored state, looks up one name, and shows the
// bytes and the time until the answer.

import { open, UnsupportedError } from '@keyhush/client'
import type { Config } from './backstage.js'
import type { Database } from './databases.js'
import { bytes, element, find, grouped, messageOf, milliseconds } from './format.js'
import { MODES, type Mode, type ModeName } from './modes.js'
import type { Sightings } from './sightings.js'

/** Everything up to the first answer. */
interface Visit {
  /** bodies, sent and received, of all servers */
  readonly bytes: number
  readonly ms: number
}

interface Row {
  readonly mode: Mode
  readonly moved: HTMLTableCellElement
  readonly time: HTMLTableCellElement
  readonly atHome: HTMLTableCellElement
}

const HOME_BITS_A_SECOND = 20e6
const TICK_MS = 50

export class FirstVisit {
  readonly #database: Database
  readonly #config: Config
  readonly #sightings: Sightings
  readonly #begin: HTMLButtonElement
  readonly #stop: HTMLButtonElement
  readonly #said: HTMLElement
  readonly #rows: readonly Row[]
  #stopping = new AbortController()

  constructor(card: HTMLElement, database: Database, config: Config, sightings: Sightings) {
    this.#database = database
    this.#config = config
    this.#sightings = sightings
    this.#begin = find(card, '#measure', HTMLButtonElement)
    this.#stop = find(card, '#measure-stop', HTMLButtonElement)
    this.#said = find(card, '#measured', HTMLElement)
    this.#rows = MODES.map(mode => {
      const cell = (label: string) => element('td', { 'data-label': label }, '–')
      return { mode, moved: cell('Moved'), time: cell('Took here'), atHome: cell('At 20 Mbit/s') }
    })
    const body = this.#rows.map(({ mode, moved, time, atHome }) => {
      const head = element('th', { scope: 'row' }, mode.title, element('small', { class: 'quiet' }, mode.means))
      return element('tr', { 'data-mode': mode.name }, head, moved, time, atHome)
    })
    find(card, 'tbody', HTMLTableSectionElement).replaceChildren(...body)
    this.#begin.addEventListener('click', () => void this.#measure())
    this.#stop.addEventListener('click', () => this.#stopping.abort())
  }

  async #measure(): Promise<void> {
    this.#stopping = new AbortController()
    const { signal } = this.#stopping
    this.#running(true)
    for (const { moved, time, atHome } of this.#rows) for (const cell of [moved, time, atHome]) cell.textContent = '–'
    const visits = new Map<ModeName, Visit>()
    try {
      for (const [i, row] of this.#rows.entries()) {
        this.#said.textContent = `${row.mode.title}, ${i + 1} of ${this.#rows.length}…`
        // The page's lookups wait meanwhile: they would share the time, and the sightings.
        const visit = await this.#sightings.alone(() => this.#visit(row, signal))
        if (visit !== undefined) visits.set(row.mode.name, visit)
      }
      this.#said.textContent = inWords(visits)
    } catch (error) {
      this.#said.textContent = signal.aborted ? 'Stopped.' : `The measurement failed: ${messageOf(error)}`
    }
    this.#running(false)
  }

  /** undefined: the servers do not offer the mode */
  async #visit({ mode, moved, time, atHome }: Row, signal: AbortSignal): Promise<Visit | undefined> {
    signal.throwIfAborted()
    const { servers, publisherKey } = this.#config
    if (mode.name === 'single' && publisherKey === undefined) {
      moved.textContent = 'not offered'
      return undefined
    }
    const [a, b] = [`${servers.A}/${this.#database.name}`, `${servers.B}/${this.#database.name}`]
    const began = performance.now()
    const tick = () => {
      time.textContent = milliseconds(performance.now() - began)
    }
    const ticking = setInterval(tick, TICK_MS)
    try {
      const map = await open({
        servers: mode.name === 'single' ? [a] : [a, b],
        ...{ mode: mode.name, storage: 'memory', push: false, signal },
        ...(publisherKey !== undefined && { publisherKey }),
        onProgress: ({ loadedBytes, totalBytes }) => {
          moved.textContent = `${Math.floor((100 * loadedBytes) / totalBytes)} %`
        },
      })
      try {
        await map.get(this.#database.examples[0]!)
        const ms = performance.now() - began
        signal.throwIfAborted()
        const traffic = map.stats.servers.flatMap(({ offline, lookups, fence }) => [offline, lookups, fence])
        const visit = { ms, bytes: traffic.reduce((sum, { bytesUp, bytesDown }) => sum + bytesUp + bytesDown, 0) }
        moved.textContent = bytes(visit.bytes)
        time.textContent = milliseconds(ms)
        atHome.textContent = milliseconds((8000 * visit.bytes) / HOME_BITS_A_SECOND)
        return visit
      } finally {
        await map.close()
      }
    } catch (error) {
      for (const cell of [moved, time, atHome]) cell.textContent = '–'
      if (!(error instanceof UnsupportedError)) throw error
      moved.textContent = 'not offered'
      return undefined
    } finally {
      clearInterval(ticking)
    }
  }

  #running(running: boolean): void {
    // The pressed button disappears: its focus moves to the other one.
    const focused = document.activeElement === (running ? this.#begin : this.#stop)
    this.#begin.hidden = running
    this.#stop.hidden = !running
    if (focused) (running ? this.#stop : this.#begin).focus()
  }
}

function inWords(visits: ReadonlyMap<ModeName, Visit>): string {
  const [least] = MODES.flatMap(mode => {
    const visit = visits.get(mode.name)
    return visit === undefined ? [] : [{ mode, visit }]
  }).sort((a, b) => a.visit.bytes - b.visit.bytes)
  const all = visits.get('local')
  if (least === undefined || all === undefined) return ''
  if (least.mode.name === 'local') return 'Here nothing moves less than to keep it all.'
  const times = (all.bytes / least.visit.bytes).toPrecision(2)
  return `To keep it all moves ${grouped(Number(times))} times as much as “${least.mode.title}” before the first answer.`
}
