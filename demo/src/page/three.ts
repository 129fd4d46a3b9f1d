// The page *Three servers*: three servers answer a lookup, and some of them show each other what they were sent.

import type { Config, ServerName } from './backstage.js'
import { databases } from './databases.js'
import { count, element, find, grouped } from './format.js'
import { noise } from './noise.js'
import { type Ended, Session } from './session.js'
import { trouble } from './trouble.js'
import { fetchManifest } from './wire/manifest.js'
import { pool } from './wire/pooled.js'

const ALL = ['A', 'B', 'C'] as const
const POOLS: readonly (readonly ServerName[])[] = [['A', 'B'], ['A', 'C'], ['B', 'C'], ALL]

export class Three {
  readonly #page: HTMLElement
  readonly #session: Session
  readonly #input: HTMLInputElement
  readonly #button: HTMLButtonElement

  constructor(page: HTMLElement, config: Config) {
    this.#page = page
    this.#session = new Session(databases.phishing, config, { servers: ALL })
    this.#input = find(page, 'form input', HTMLInputElement)
    this.#button = find(page, 'form button', HTMLButtonElement)
    this.#input.value = databases.phishing.examples[0]
    find(page, 'form', HTMLFormElement).addEventListener('submit', event => {
      event.preventDefault()
      void this.start()
    })
  }

  /** Looks up what stands in the field. */
  async start(): Promise<void> {
    if (this.#button.disabled) return
    const key = this.#session.database.read(this.#input.value)
    if (key === undefined) return this.#say(this.#session.database.unreadable)
    this.#button.disabled = true
    this.#say('Asking three servers…')
    try {
      const ended = await this.#session.ask(key)
      if ('error' in ended.result) throw ended.result.error
      this.#say(`${ended.result.verdict.title}: ${key}`)
      this.#show(ended)
    } catch (error) {
      this.#say(trouble(error, () => void this.start()))
    }
    this.#button.disabled = false
  }

  #say(what: string | Node): void {
    find(this.#page, '#three-said', HTMLElement).replaceChildren(what)
    find(this.#page, '#three-shown', HTMLElement).hidden = true
  }

  #show(ended: Ended): void {
    const { exchanges } = ended
    find(this.#page, '#three-panels', HTMLElement).replaceChildren(...ALL.map(server => noise(server, exchanges)))
    find(this.#page, '#pooled', HTMLElement).replaceChildren(
      element('p', {}, 'Choose who shows the others what they were sent.'),
    )
    const buttons = POOLS.map(servers => {
      const text = servers.length === ALL.length ? 'All three' : servers.join(' and ')
      const button = element('button', { type: 'button', 'aria-pressed': 'false' }, text)
      button.addEventListener('click', () => {
        for (const other of buttons) other.setAttribute('aria-pressed', String(other === button))
        void this.#pool(ended, servers)
      })
      return button
    })
    find(this.#page, '#pools', HTMLElement).replaceChildren(...buttons)
    find(this.#page, '#three-shown', HTMLElement).hidden = false
  }

  async #pool({ exchanges }: Ended, servers: readonly ServerName[]): Promise<void> {
    const manifest = await fetchManifest(this.#session.urlAt('A'), exchanges[0]!)
    const steps = Array.from({ length: exchanges.length / ALL.length }, (_, i) =>
      exchanges.slice(i * ALL.length, (i + 1) * ALL.length),
    )
    const lines = steps.map(step => {
      const requests = servers.map(server => step.find(exchange => exchange.server === server)!.sent)
      const { of, positions, marked } = pool(manifest, requests, step[0]!.reply!.bytes.length)
      const place = of === 'directory' ? 'part of the directory' : 'place of the list'
      const own = marked[0]!
      const found = own.length === 1 ? `, ${place} number ${grouped(own[0]! + 1)}` : ''
      return element('li', {}, `${count(own.length, 'mark')} on ${count(positions, 'position')}${found}`)
    })
    const all = servers.length === ALL.length
    find(this.#page, '#pooled', HTMLElement).replaceChildren(
      element('p', {}, element('strong', {}, all ? 'They learn what you asked.' : 'They learn nothing.')),
      element('p', {}, 'Put together, what they were sent marks, for the first question of each step:'),
      element('ul', {}, ...lines),
      element(
        'p',
        { class: 'quiet' },
        all
          ? 'Each step has one mark left. That is the place that you asked for, and the servers know what stands there.'
          : 'About half of all positions, as if by coin flips. What the third server was sent is missing, and hides the place.',
      ),
    )
  }
}
