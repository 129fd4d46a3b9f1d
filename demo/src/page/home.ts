// A field, what each server saw of the lookup, the answer, and a lie that is caught: the first page, and with other words *One server*.

import { TamperedError } from '@keyhush/client'
import { type Config, setLiar } from './backstage.js'
import { button, bytes, card, element, facts, find, milliseconds } from './format.js'
import { noise, noiseBack, STRIPES } from './noise.js'
import type { Ended, Session } from './session.js'
import { trouble } from './trouble.js'
import type { Words } from './words.js'

export class Home {
  readonly #session: Session
  readonly #config: Config
  readonly #words: Words
  readonly #onAnswer: () => void
  readonly #button: HTMLButtonElement
  readonly #input: HTMLInputElement
  readonly #result: HTMLElement
  readonly #said: HTMLElement

  /** `onAnswer`: called when an answer is shown */
  constructor(page: HTMLElement, session: Session, config: Config, words: Words, onAnswer: () => void = () => {}) {
    this.#session = session
    this.#config = config
    this.#words = words
    this.#onAnswer = onAnswer
    this.#button = find(page, 'form button', HTMLButtonElement)
    this.#input = find(page, 'form input', HTMLInputElement)
    this.#result = find(page, '.result', HTMLElement)
    this.#said = find(page, '.said', HTMLElement)
    const { about, question, examples } = session.database
    find(page, '.lead', HTMLElement).textContent = about
    find(page, '.question', HTMLElement).textContent = question
    find(page, 'form', HTMLFormElement).addEventListener('submit', event => {
      event.preventDefault()
      void this.ask(this.#input.value)
    })
    const buttons = examples.map(example =>
      button(example, () => {
        void this.ask(example)
      }),
    )
    find(page, '.examples', HTMLElement).append(...buttons)
    session.open().catch(() => {}) // a lookup tries again, and says why not
  }

  /** Looks up what was typed. */
  async ask(typed: string): Promise<void> {
    this.#input.value = typed
    const key = this.#session.database.read(typed)
    if (key === undefined) this.#show([card('error', 'Nothing to look up', [this.#session.database.unreadable])])
    else await this.#look(key, false)
  }

  /** Looks `key` up and shows everything. `lie`: a server lies meanwhile. */
  async #look(key: string, lie: boolean): Promise<void> {
    if (this.#button.disabled) return
    this.#button.disabled = true
    this.#result.setAttribute('aria-busy', 'true')
    this.#said.textContent = this.#words.asking
    try {
      const ended = lie ? await this.#askLiar(key) : await this.#session.ask(key)
      const { result } = ended
      if ('error' in result && !(result.error instanceof TamperedError)) throw result.error
      this.#show([...this.#split(ended), this.#answer(ended)])
      this.#onAnswer()
    } catch (error) {
      this.#show([trouble(error, () => void this.#look(key, false))])
    }
    this.#button.disabled = false
  }

  async #askLiar(key: string): Promise<Ended> {
    await setLiar(this.#words.liar)
    try {
      return await this.#session.ask(key)
    } finally {
      await setLiar(null)
    }
  }

  #show(parts: readonly HTMLElement[]): void {
    const hadFocus = this.#result.contains(document.activeElement)
    this.#result.replaceChildren(...parts)
    this.#result.hidden = false
    this.#result.setAttribute('aria-busy', 'false')
    if (hadFocus) parts.at(-1)?.focus() // the pressed button is gone
    const shown = (selector: string) => parts.at(-1)?.querySelector(selector)?.textContent ?? ''
    this.#said.textContent = `${shown('h2')}. ${shown('p')}`
  }

  /** The key, and below it what was sent. */
  #split({ key, exchanges, result }: Ended): HTMLElement[] {
    const { servers } = this.#session
    const parts = servers.map(server => {
      return element('span', { class: `to-${server.toLowerCase()}`, 'aria-hidden': 'true' }, key)
    })
    const panels = servers.map(server => noise(server, exchanges))
    if (servers.length === 1) panels.push(noiseBack(servers[0]!, exchanges))
    const { joined, apart } = this.#words
    return [
      element('p', { class: 'key' }, ...parts, element('code', {}, key)),
      element('div', { class: 'panels' }, ...panels),
      element('p', { class: 'quiet' }, STRIPES),
      element('p', { class: 'join' }, 'verdict' in result ? joined : apart),
    ]
  }

  #answer({ key, result, cost }: Ended): HTMLElement {
    const { liar, title, caught, culprit, them } = this.#words
    if ('verdict' in result) {
      const { kind, title, body } = result.verdict
      const { note } = this.#session.database
      const lie = button(`Make server ${liar} lie`, () => void this.#look(key, true))
      return card(kind, title, body, [
        facts([
          ['Time', milliseconds(cost.ms)],
          ['Sent', bytes(cost.bytesUp)],
          ['Received', bytes(cost.bytesDown)],
        ]),
        ...(note === undefined ? [] : [element('p', { class: 'quiet' }, note)]),
        known(this.#words),
        ...(this.#config.hosted ? [element('div', { class: 'actions' }, lie)] : []),
      ])
    }
    const again = button('Look it up again', () => void this.#look(key, false))
    return card(
      'caught',
      title,
      [`The demo changed one bit of server ${liar}’s reply. ${caught}`],
      [
        facts([
          ['Your app gets', 'TamperedError'],
          ['Used of the replies', 'nothing'],
          [`Known to ${them}`, 'still nothing'],
        ]),
        element('p', { class: 'quiet' }, `${culprit} You may ask again.`),
        element('div', { class: 'actions' }, again),
      ],
    )
  }
}

/** Who knows what after a lookup. */
function known({ unless, all }: Words): HTMLElement {
  return element(
    'dl',
    { class: 'known' },
    element('dt', {}, 'What you asked, and whether it was there'),
    element('dd', {}, element('strong', {}, 'Known to nobody'), `, ${unless}.`),
    element('dt', {}, 'That you asked, when, and from which address'),
    element('dd', {}, `Known to ${all}.`),
  )
}
