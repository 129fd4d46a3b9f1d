// The page *See what is sent*: a lookup that found something beside one that did not, checks of their traffic, and every request
// with its bytes explained.

import type { Manifest } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm/client'
import { count, element, find } from '../format.js'
import type { Ended, Session } from '../session.js'
import { type Check, check, type Seen } from './checks.js'
import { type Field, fieldsOfReply, fieldsOfRequest } from './fields.js'
import { fetchManifest } from './manifest.js'
import type { Exchange } from './recorder.js'
import { sideBySide, who } from './side-by-side.js'

const SHOWN_BYTES = 16

export class Explorer {
  readonly #page: HTMLElement
  readonly #session: Session

  constructor(page: HTMLElement, session: Session) {
    this.#page = page
    this.#session = session
  }

  /** Shows the visitor's last lookups. Where there is none yet, it looks an example up. */
  async show(): Promise<void> {
    const { last, database } = this.#session
    const found = last.found ?? (await this.#session.ask(database.examples[0]))
    const absent = last.absent ?? (await this.#session.ask(database.examples.at(-1)!))
    for (const { result } of [found, absent]) if ('error' in result) throw result.error
    const [one, other] = await Promise.all([this.#seen(found, true), this.#seen(absent, false)])
    const manifest = await fetchManifest(this.#session.urlAt('A'), absent.exchanges[0]!)
    find(this.#page, '#checks', HTMLUListElement).replaceChildren(...check(other, one).map(line))
    find(this.#page, '#side-by-side', HTMLElement).replaceChildren(...sideBySide(one, other, 'side-title'))
    find(this.#page, '#requests', HTMLOListElement).replaceChildren(
      ...absent.exchanges.map((exchange, i) => request(exchange, i, manifest)),
    )
    find(this.#page, '#wire-shown', HTMLElement).hidden = false
  }

  async #seen({ key, exchanges }: Ended, found: boolean): Promise<Seen> {
    const core = await loadCore('instant')
    const keys = this.#session.database.keysOf(key).map(key => new TextEncoder().encode(key))
    return { typed: key, keys, fingerprints: keys.map(key => core.fingerprint(key)), found, exchanges }
  }
}

/** A check, and whether it holds. */
export function line({ holds, says }: Check): HTMLLIElement {
  const [mark, spoken] = holds === undefined ? ['–', 'cannot be told'] : holds ? ['✓', 'holds'] : ['✗', 'does not hold']
  return element(
    'li',
    { 'data-holds': String(holds) },
    element('span', { class: 'mark', role: 'img', 'aria-label': spoken }, mark),
    element('span', {}, says),
  )
}

/** The first request is open. */
function request({ server, path, sent, reply }: Exchange, index: number, manifest: Manifest): HTMLLIElement {
  const part = (text: string, fields: readonly Field[], bytes: Uint8Array, open = false) =>
    element('details', open ? { open: '' } : {}, element('summary', {}, text), table(shortened(fields), bytes))
  const title = element('h3', {}, who(server), `, request ${1 + Math.floor(index / 2)}`)
  const question = part(`${count(sent.length, 'byte')} sent`, fieldsOfRequest(sent), sent, index === 0)
  const answer =
    reply === undefined
      ? element('p', {}, 'No reply.')
      : part(`${count(reply.bytes.length, 'byte')} received`, fieldsOfReply(reply.bytes, manifest), reply.bytes)
  return element('li', { class: server.toLowerCase(), 'data-path': path }, title, question, answer)
}

/** Of several questions in a message, only the first is shown field by field. Empty fields are left out. */
function shortened(all: readonly Field[]): readonly Field[] {
  const fields = all.filter(({ bytes }) => bytes > 0)
  const isLater = ({ name }: Field) => /^Question (?!1:)/.test(name)
  const later = fields.filter(isLater)
  if (later.length === 0) return fields
  const bytes = later.reduce((sum, field) => sum + field.bytes, 0)
  const rest = { at: later[0]!.at, bytes, name: 'Further questions', means: 'each with the same fields' }
  return [...fields.filter(field => !isLater(field)), rest]
}

/** Fields with the bytes that they have. */
export function table(fields: readonly Field[], all: Uint8Array): HTMLTableElement {
  const row = ({ at, bytes: length, name, means, value }: Field) => {
    const shown =
      value ?? hex(all.subarray(at, at + Math.min(length, SHOWN_BYTES))) + (length > SHOWN_BYTES ? ' …' : '')
    return element(
      'tr',
      {},
      element('th', { scope: 'row' }, name, element('small', { class: 'quiet' }, means)),
      element('td', { 'data-label': 'From byte' }, String(at)),
      element('td', { 'data-label': 'Bytes' }, String(length)),
      element('td', { 'data-label': 'Value' }, element('code', {}, shown)),
    )
  }
  const titles = ['What', 'From byte', 'Bytes', 'Value'].map(title => element('th', { scope: 'col' }, title))
  return element(
    'table',
    { class: 'fields' },
    element('thead', {}, element('tr', {}, ...titles)),
    element('tbody', {}, ...fields.map(row)),
  )
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join(' ')
}
