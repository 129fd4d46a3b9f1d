// The page *Check a password*: a form asks a confidential list of breached passwords when it is submitted. Below it stand what both operators
// saw, and what a thief of a server's disk finds. The password is in no text, address or store of the page.

import type { KeyhushMap } from '@keyhush/client'
import { confidential } from '@keyhush/confidential'
import { loadCore } from '@keyhush/wasm/client'
import { BREACHED, type Breached, type Config, prepareBreached, SHOWN_PASSWORD } from './backstage.js'
import type { Database, Verdict } from './databases.js'
import { button, bytes, card, element, facts, find, grouped, milliseconds } from './format.js'
import { noise } from './noise.js'
import { type Ended, Session } from './session.js'
import { trouble } from './trouble.js'
import { check, type Seen } from './wire/checks.js'
import { line, table } from './wire/explorer.js'
import type { Field } from './wire/fields.js'
import type { Exchange, Fetch } from './wire/recorder.js'
import { sideBySide } from './wire/side-by-side.js'

const FINGERPRINT_BYTES = 16
const [LENGTH_BYTES, SALT_BYTES] = [2, 12]

const breached: Database = {
  name: 'breached',
  about: '',
  question: '',
  examples: [SHOWN_PASSWORD, 'dragon', 'correct horse battery staple'],
  read: typed => typed || undefined,
  unreadable: 'Type a password.',
  keysOf: password => [password],
  ask: async (map, password) => verdictOf(await map.getText(password)),
}

function verdictOf(place: string | undefined): Verdict {
  if (place === undefined) {
    return {
      kind: 'absent',
      title: 'Not in the list',
      body: ['This password is not in the breach list. That is proved.'],
    }
  }
  const rank = `It is number ${grouped(Number(place))} of the ${grouped(BREACHED)} most common passwords of breaches.`
  return { kind: 'alarm', title: 'Choose another password', body: ['This password is in the breach list. ', rank] }
}

export class SignUp {
  readonly #page: HTMLElement
  readonly #config: Config
  readonly #form: HTMLFormElement
  readonly #password: HTMLInputElement
  readonly #submit: HTMLButtonElement
  readonly #said: HTMLElement
  readonly #result: HTMLElement
  #session: Session | undefined

  constructor(page: HTMLElement, config: Config) {
    this.#page = page
    this.#config = config
    this.#form = find(page, 'form', HTMLFormElement)
    this.#password = find(page, '[name=password]', HTMLInputElement)
    this.#submit = find(page, 'form button', HTMLButtonElement)
    this.#said = find(page, '.said', HTMLElement)
    this.#result = find(page, '.result', HTMLElement)
    this.#form.addEventListener('submit', event => {
      event.preventDefault()
      void this.#ask()
    })
    const buttons = breached.examples.map(example =>
      button(example, () => {
        this.#password.value = example
        this.#form.requestSubmit()
      }),
    )
    find(page, '.examples', HTMLElement).append(...buttons)
  }

  /** Has servers and evaluators started, and shows a row of the list on a disk. */
  async start(): Promise<void> {
    const said = this.#at('#breached-starting')
    try {
      const shown = await prepareBreached()
      this.#session = this.#opened(shown)
      await this.#showDisk(shown)
    } catch (error) {
      said.replaceChildren(trouble(error, () => void this.start()))
      return
    }
    said.hidden = true
    this.#at('#breached-ready').hidden = false
    this.#session.open().catch(() => {}) // a lookup tries again, and says why not
  }

  #opened({ evaluationKey }: Breached): Session {
    /** The paths of its requests tell how far a lookup is. */
    const onwards: Fetch = (url, init) => {
      if (this.#submit.disabled && url.endsWith('/v1/evaluate')) this.#say('Step 1 of 2: asking both evaluators…')
      if (this.#submit.disabled && url.endsWith('/v1/instant')) this.#say('Step 2 of 2: asking both servers…')
      return fetch(url, init)
    }
    const wrap = (map: KeyhushMap, fetch: Fetch) => {
      const evaluators = session.servers.map(server => session.urlAt(server))
      return confidential(map, { evaluationKey, evaluators, fetch })
    }
    const session = new Session(breached, this.#config, { onwards, wrap })
    return session
  }

  /** Asks for what stands in the field. */
  async #ask(): Promise<void> {
    const [session, password] = [this.#session, breached.read(this.#password.value)]
    if (this.#submit.disabled || session === undefined || password === undefined) return
    this.#submit.disabled = true
    this.#result.setAttribute('aria-busy', 'true')
    this.#say('Asking…')
    try {
      const ended = await session.ask(password)
      if ('error' in ended.result) throw ended.result.error
      this.#show(answer(ended, ended.result.verdict))
      const panels = session.servers.map(server => noise(server, ended.exchanges))
      this.#at('#breached-panels').replaceChildren(...panels)
      this.#compare(session, ended).catch(() => {}) // the next answer tries again
    } catch (error) {
      this.#at('#breached-shown').hidden = true
      this.#show(trouble(error, () => this.#form.requestSubmit()))
    }
    this.#submit.disabled = false
  }

  #show(what: HTMLElement): void {
    const hadFocus = this.#result.contains(document.activeElement)
    this.#result.replaceChildren(what)
    this.#result.hidden = false
    this.#result.setAttribute('aria-busy', 'false')
    if (hadFocus) what.focus() // the pressed button is gone
    const shown = (selector: string) => what.querySelector(selector)?.textContent ?? ''
    this.#say(`${shown('h2')}. ${shown('p')}`)
    this.#said.classList.add('unseen') // the card has the same words
  }

  /** Shows this lookup beside the last that ended otherwise. Where there is none, it makes one. */
  async #compare(session: Session, ended: Ended): Promise<void> {
    const { last } = session
    if (last.found === undefined) await session.ask(SHOWN_PASSWORD)
    if (last.absent === undefined) await session.ask(crypto.randomUUID())
    if (last.found === undefined || last.absent === undefined) return
    const other = ended === last.found ? last.absent : last.found
    const [now, before] = await Promise.all([ended, other].map(seen))
    const [found, absent] = [last.found, last.absent].map(({ exchanges }, i) => ({
      typed: NAMES[i]!,
      exchanges: inOrder(exchanges),
    }))
    this.#at('#breached-side').replaceChildren(...sideBySide(found!, absent!, 'breached-side-title'))
    this.#at('#breached-checks').replaceChildren(...check(now!, before).map(line))
    this.#at('#breached-shown').hidden = false
  }

  async #showDisk({ plain, sealed }: Breached): Promise<void> {
    const { fingerprint } = await loadCore('instant')
    const hash = fingerprint(new TextEncoder().encode(SHOWN_PASSWORD))
    const rows = [
      { at: '#breached-plain', row: plain, fields: plainFields },
      { at: '#breached-sealed', row: sealed, fields: sealedFields },
    ]
    for (const { at, row, fields } of rows) {
      const bytes = fromHex(row.hex)
      const isIn = hash.every((byte, i) => bytes[i] === byte)
      const says = isIn
        ? 'The hash of the guess stands here. So the thief knows that the list has it, and reads its place.'
        : 'The hash of the guess does not stand here. To test a guess, the thief must ask both evaluators, within their limits.'
      this.#at(at).replaceChildren(
        element(
          'p',
          { class: 'quiet' },
          `${grouped(bytes.length)} bytes of the file ${row.file.replace(/^(.{12}).+$/, '$1…')}, from byte ${grouped(row.at)}`,
        ),
        table(fields(bytes), bytes),
        element('ul', { class: 'checks' }, line({ holds: !isIn, says })),
      )
    }
  }

  #say(text: string): void {
    this.#said.textContent = text
    this.#said.classList.remove('unseen')
  }

  #at(selector: string): HTMLElement {
    return find(this.#page, selector, HTMLElement)
  }
}

/** Server A first, in each step. */
function inOrder(exchanges: readonly Exchange[]): Exchange[] {
  const of = (server: string) => exchanges.filter(exchange => exchange.server === server)
  const [ofA, ofB] = [of('A'), of('B')]
  return ofA.flatMap((exchange, i) => [exchange, ...ofB.slice(i, i + 1)])
}

/** In the place of passwords. */
const NAMES = ['a password of the list', 'another']

async function seen({ key, exchanges, result }: Ended): Promise<Seen> {
  const { fingerprint } = await loadCore('instant')
  const keys = [new TextEncoder().encode(key)]
  const found = 'verdict' in result && result.verdict.kind !== 'absent'
  return { typed: '', keys, fingerprints: keys.map(key => fingerprint(key)), found, exchanges }
}

function answer({ exchanges }: Ended, { kind, title, body }: Verdict): HTMLElement {
  const sum = (size: (exchange: Exchange) => number) => bytes(exchanges.reduce((sum, one) => sum + size(one), 0))
  const ms = Math.max(...exchanges.map(({ to }) => to)) - Math.min(...exchanges.map(({ from }) => from))
  return card(kind, title, body, [
    facts([
      ['Time', milliseconds(ms)],
      ['Sent', sum(({ sent }) => sent.length)],
      ['Received', sum(({ reply }) => reply?.bytes.length ?? 0)],
    ]),
    element(
      'dl',
      { class: 'known' },
      element('dt', {}, 'Your password, and whether the list has it'),
      element('dd', {}, element('strong', {}, 'Known to nobody'), ', unless both operators work together.'),
      element('dt', {}, 'That you asked, when, and from which address'),
      element('dd', {}, 'Known to both operators.'),
    ),
  ])
}

/** As docs/protocol.md has a record with a length: what is behind the value are zeros. */
function plainFields(bytes: Uint8Array): Field[] {
  const at = FINGERPRINT_BYTES + LENGTH_BYTES
  const value = new TextDecoder().decode(bytes.subarray(at)).replaceAll('\0', '')
  return [
    {
      at: 0,
      bytes: FINGERPRINT_BYTES,
      name: 'Hash of the password',
      means: 'whoever guesses the password can compute it',
    },
    { at: FINGERPRINT_BYTES, bytes: LENGTH_BYTES, name: 'Length', means: 'of the value' },
    { at, bytes: bytes.length - at, name: 'Value', means: `readable: place ${value} among the passwords` },
  ]
}

/** As docs/protocol/confidential.md has a value. */
function sealedFields(bytes: Uint8Array): Field[] {
  const at = FINGERPRINT_BYTES + SALT_BYTES
  return [
    {
      at: 0,
      bytes: FINGERPRINT_BYTES,
      name: 'Hash of another key',
      means: 'made of the password by both evaluators',
    },
    { at: FINGERPRINT_BYTES, bytes: SALT_BYTES, name: 'Salt', means: 'new each time the owner seals the value' },
    { at, bytes: bytes.length - at, name: 'Value', means: 'sealed: only who has that key opens it' },
  ]
}

const fromHex = (hex: string) => Uint8Array.from(hex.match(/../g) ?? [], byte => Number.parseInt(byte, 16))
