// The page *One server*: a lookup at server A alone, the sizes of what is sent, and what it costs beside two servers and a download.

import { type Estimate, estimate } from '@keyhush/client'
import { type Config, prepareAlone } from './backstage.js'
import { alone, databases } from './databases.js'
import { bytes, count, element, find } from './format.js'
import { Home } from './home.js'
import { Session } from './session.js'
import { trouble } from './trouble.js'
import { sideBySide } from './wire/side-by-side.js'
import { ALONE } from './words.js'

export class One {
  readonly #page: HTMLElement
  readonly #config: Config
  readonly #session: Session

  constructor(page: HTMLElement, config: Config) {
    this.#page = page
    this.#config = config
    this.#session = new Session(alone, config, { servers: ['A'] })
  }

  /** Has the server prepared, and looks up an example. */
  async start(): Promise<void> {
    const said = find(this.#page, '#one-said', HTMLElement)
    try {
      await prepareAlone()
    } catch (error) {
      said.replaceChildren(trouble(error, () => void this.start()))
      return
    }
    said.hidden = true
    find(this.#page, '#one-ready', HTMLElement).hidden = false
    const compare = () => void this.#compare().catch(() => {}) // the next answer tries again
    await new Home(this.#page, this.#session, this.#config, ALONE, compare).ask(alone.examples[0])
  }

  /** Shows the last lookup that found something beside the last that did not. Where one of them is missing, it looks an example up. */
  async #compare(): Promise<void> {
    const { last } = this.#session
    if (last.found === undefined) await this.#session.ask(alone.examples[0])
    if (last.absent === undefined) await this.#session.ask(alone.examples.at(-1)!)
    if (last.found === undefined || last.absent === undefined) return
    const [one, other] = [last.found, last.absent].map(({ key, exchanges }) => ({ typed: key, exchanges }))
    find(this.#page, '#one-side', HTMLElement).replaceChildren(...sideBySide(one!, other!, 'one-side-title'))
    const shown = find(this.#page, '#one-shown', HTMLElement)
    if (!shown.hidden) return
    await this.#estimate()
    shown.hidden = false
  }

  /** Costs as the SDK computes them, from what the servers state. */
  async #estimate(): Promise<void> {
    const two = (['A', 'B'] as const).map(server => `${this.#config.servers[server]}/${databases.phishing.name}`)
    const at = [this.#session.urlAt('A')]
    const [ofTwo, ofOne] = await Promise.all([estimate(two), estimate(at, { experimental: true })])
    const [both, one, local] = [ofTwo.modes.instant!, ofOne.modes.instant!, ofOne.modes.local!]
    find(this.#page, 'tbody.costs', HTMLTableSectionElement).replaceChildren(
      row('Two servers', 'As on the first page. The two operators must not share what they see.', both),
      row('One server', 'As here. Nothing is kept but the public hint that the publisher has signed.', one),
      row('Download the list', 'Lookups ask nobody.', local),
    )
    const lookups = Math.ceil((local.firstBytes - one.firstBytes) / lookupBytes(one))
    const few = `The download moves as much as ${count(lookups, 'lookup')} at one server: so small a list is better downloaded. `
    const more = element('a', { href: '#/cost' }, 'What it costs')
    find(this.#page, '#one-verdict', HTMLElement).replaceChildren(few, 'For larger lists: ', more)
  }
}

type Costs = NonNullable<Estimate['modes']['instant']>

const lookupBytes = ({ lookupBytesUp, lookupBytesDown }: Costs) => lookupBytesUp + lookupBytesDown

function row(title: string, means: string, costs: Costs): HTMLElement {
  const lookup = lookupBytes(costs)
  return element(
    'tr',
    {},
    element('th', { scope: 'row' }, title, element('small', { class: 'quiet' }, means)),
    element('td', { 'data-label': 'Before the first lookup' }, bytes(costs.firstBytes)),
    element('td', { 'data-label': 'A lookup' }, lookup === 0 ? 'nothing' : bytes(lookup)),
  )
}
