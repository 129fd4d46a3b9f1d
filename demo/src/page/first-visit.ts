// The page *A first visit*: opens a map without stored state, looks one name up, and shows each phase with its time and bytes.

import type { Config, Shape } from './backstage.js'
import { databases } from './databases.js'
import { bytes, element, find, milliseconds } from './format.js'
import { MODES } from './modes.js'
import { Session } from './session.js'
import { inWords } from './trouble.js'
import type { Exchange } from './wire/recorder.js'

const HOME_BITS_A_SECOND = 20e6

export class FirstVisit {
  readonly #page: HTMLElement
  readonly #config: Config

  constructor(page: HTMLElement, config: Config, { firstBytes }: Shape) {
    this.#page = page
    this.#config = config
    const rows = MODES.flatMap(({ name, title, means }) => {
      const moved = firstBytes[name]
      return moved === undefined ? [] : [compared(title, means, moved)]
    })
    find(page, 'tbody', HTMLTableSectionElement).replaceChildren(...rows)
    find(page, '#visit-again', HTMLButtonElement).addEventListener('click', () => void this.start())
  }

  async start(): Promise<void> {
    const button = find(this.#page, '#visit-again', HTMLButtonElement)
    const said = find(this.#page, '#visited', HTMLElement)
    button.disabled = true
    const session = new Session(databases.keys, this.#config)
    const began = performance.now()
    try {
      const { result } = await session.ask(databases.keys.examples[0])
      if ('error' in result) throw result.error
      const exchanges = await session.recorder.since(0)
      const total = performance.now() - began
      const moved = exchanges.reduce((sum, one) => sum + sizeOf(one), 0)
      said.textContent = `First answer after ${milliseconds(total)} and ${bytes(moved)}.`
      find(this.#page, '#phases', HTMLOListElement).replaceChildren(
        ...phasesOf(exchanges).map(([title, both]) => phase(title, both, began, total)),
      )
    } catch (error) {
      const { title, text } = inWords(error)
      said.textContent = `${title}. ${text}`
      find(this.#page, '#phases', HTMLOListElement).replaceChildren()
    }
    await session.close().catch(() => {})
    button.disabled = false
  }
}

const sizeOf = ({ sent, reply }: Exchange) => sent.length + (reply?.bytes.length ?? 0)

/** The requests of each phase, to both servers. */
function phasesOf(exchanges: readonly Exchange[]): [title: string, both: readonly Exchange[]][] {
  const phases = new Map<string, Exchange[]>()
  for (const exchange of exchanges) {
    const { server, path } = exchange
    const same = exchanges.filter(other => other.server === server && other.path === path)
    const title = titleOf(path, same.indexOf(exchange))
    phases.set(title, [...(phases.get(title) ?? []), exchange])
  }
  return [...phases]
}

function titleOf(path: string, nth: number): string {
  if (path.includes('/v1/manifest')) return 'Both servers give the fingerprint of the list'
  if (path.includes('/v1/info')) return 'Both servers say what they offer'
  if (!path.endsWith('/v1/instant')) return path
  return nth === 0 ? 'Private lookup of the place of the name' : 'Private lookup of what is there'
}

/** Two bars as long as the requests took, and their bytes. */
function phase(title: string, both: readonly Exchange[], began: number, total: number): HTMLElement {
  const tracks = both.map(({ server, from, to }) => {
    const bar = element('span', { class: `bar ${server.toLowerCase()}` })
    bar.style.setProperty('--from', String((from - began) / total))
    bar.style.setProperty('--to', String((to - began) / total))
    return element('span', { class: 'track', 'aria-hidden': 'true' }, bar)
  })
  const took = Math.max(...both.map(({ to }) => to)) - Math.min(...both.map(({ from }) => from))
  const moved = both.reduce((sum, one) => sum + sizeOf(one), 0)
  const cost = element('span', { class: 'quiet' }, ` ${milliseconds(took)}, ${bytes(moved)}`)
  return element('li', {}, ...tracks, element('span', {}, title, cost))
}

function compared(title: string, means: string, moved: number): HTMLElement {
  return element(
    'tr',
    {},
    element('th', { scope: 'row' }, title, element('small', { class: 'quiet' }, means)),
    element('td', { 'data-label': 'Moved' }, bytes(moved)),
    element('td', { 'data-label': 'Transfer at 20 Mbit/s' }, milliseconds((8000 * moved) / HOME_BITS_A_SECOND)),
  )
}
