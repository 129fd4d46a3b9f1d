// The first page: a field, what each server saw of the lookup, the answer, and a lie that is caught.

import { TamperedError } from '@keyhush/client'
import { type Config, setLiar } from './backstage.js'
import { bytes, element, find, messageOf, milliseconds } from './format.js'
import { noise } from './noise.js'
import type { Ended, Session } from './session.js'

export class Home {
  readonly #session: Session
  readonly #config: Config
  readonly #button: HTMLButtonElement
  readonly #input: HTMLInputElement
  readonly #result: HTMLElement
  readonly #said: HTMLElement

  constructor(page: HTMLElement, session: Session, config: Config) {
    this.#session = session
    this.#config = config
    this.#button = find(page, 'form button', HTMLButtonElement)
    this.#input = find(page, 'form input', HTMLInputElement)
    this.#result = find(page, '#result', HTMLElement)
    this.#said = find(page, '#said', HTMLElement)
    const { about, question, examples } = session.database
    find(page, '.lead', HTMLElement).textContent = about
    find(page, '.question', HTMLElement).textContent = question
    find(page, 'form', HTMLFormElement).addEventListener('submit', event => {
      event.preventDefault()
      void this.#ask(this.#input.value)
    })
    const buttons = examples.map(example =>
      button(example, () => {
        this.#input.value = example
        void this.#ask(example)
      }),
    )
    find(page, '.examples', HTMLElement).append(...buttons)
    session.open().catch(() => {}) // a lookup tries again, and says why not
  }

  async #ask(typed: string): Promise<void> {
    const key = this.#session.database.read(typed)
    if (key === undefined) this.#show([card('error', 'Nothing to look up', [this.#session.database.unreadable])])
    else await this.#look(key, false)
  }

  /** Looks `key` up and shows everything. `lie`: server B lies meanwhile. */
  async #look(key: string, lie: boolean): Promise<void> {
    if (this.#button.disabled) return
    this.#button.disabled = true
    this.#result.setAttribute('aria-busy', 'true')
    this.#said.textContent = 'Asking both servers…'
    try {
      const ended = lie ? await this.#askLiar(key) : await this.#session.ask(key)
      this.#show([...split(ended), this.#answer(ended)])
    } catch (error) {
      this.#show([card('error', 'No answer', [`${messageOf(error)}. Is the demo still running?`])])
    }
    this.#button.disabled = false
  }

  async #askLiar(key: string): Promise<Ended> {
    await setLiar('B')
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

  #answer({ key, result, cost }: Ended): HTMLElement {
    if ('verdict' in result) {
      const { kind, title, body } = result.verdict
      const lie = button('Make server B lie', () => void this.#look(key, true))
      return card(kind, title, body, [
        facts([
          ['Time', milliseconds(cost.ms)],
          ['Sent', bytes(cost.bytesUp)],
          ['Received', bytes(cost.bytesDown)],
        ]),
        known(),
        ...(this.#config.hosted ? [element('div', { class: 'actions' }, lie)] : []),
      ])
    }
    if (!(result.error instanceof TamperedError)) return card('error', 'No answer', [messageOf(result.error)])
    const again = button('Look it up again', () => void this.#look(key, false))
    return card(
      'caught',
      'Server B lied. The answer was refused.',
      [
        'One bit of its reply was changed. The proof in the replies caught it: both replies together must match the ',
        'fingerprint of the list that both servers gave before you asked.',
      ],
      [
        facts([
          ['Your app gets', 'TamperedError'],
          ['Used of the replies', 'nothing'],
          ['Known to the servers', 'still nothing'],
        ]),
        element('p', { class: 'quiet' }, 'The proof does not show which of the two lied. You may ask again.'),
        element('div', { class: 'actions' }, again),
      ],
    )
  }
}

/** The key between two panels of what was sent. */
function split({ key, exchanges, result }: Ended): HTMLElement[] {
  const half = (side: string) => element('span', { class: side, 'aria-hidden': 'true' }, key)
  const fits = 'The two replies together give the answer:'
  const joined = 'verdict' in result ? fits : 'The two replies do not fit together:'
  return [
    element('p', { class: 'key' }, half('to-a'), half('to-b'), element('code', {}, key)),
    element('div', { class: 'panels' }, noise('A', exchanges), noise('B', exchanges)),
    element('p', { class: 'join' }, `Each alone looks random. ${joined}`),
  ]
}

function card(kind: string, title: string, body: readonly (Node | string)[], more: readonly Node[] = []): HTMLElement {
  return element(
    'section',
    { class: 'card answer', 'data-kind': kind, tabindex: '-1' },
    element('h2', {}, title),
    element('p', {}, ...body),
    ...more,
  )
}

function facts(rows: readonly (readonly [string, string])[]): HTMLElement {
  return element(
    'dl',
    { class: 'facts' },
    ...rows.map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, value))),
  )
}

/** Who knows what after a lookup. */
function known(): HTMLElement {
  return element(
    'dl',
    { class: 'known' },
    element('dt', {}, 'What you asked, and whether it was there'),
    element('dd', {}, element('strong', {}, 'Known to nobody'), ', unless the two servers share what they saw.'),
    element('dt', {}, 'That you asked, when, and from which address'),
    element('dd', {}, 'Known to both servers.'),
  )
}

function button(text: string, act: () => void): HTMLButtonElement {
  const made = element('button', { type: 'button' }, text)
  made.addEventListener('click', act)
  return made
}
