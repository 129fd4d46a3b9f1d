// The card *On the wire*: checks of the last lookup's traffic, a lookup that found something beside one that did not, and every
// request with its bytes explained.

import { decodeManifest, LONGEST_MANIFEST_BYTES, type Manifest } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm/client'
import type { ServerName } from '../backstage.js'
import { count, element, find } from '../format.js'
import { readBounded } from './bounded.js'
import { type Check, check, type Seen } from './checks.js'
import { type Field, fieldsOfReply, fieldsOfRequest } from './fields.js'
import type { Exchange, Fetch } from './recorder.js'

/** A lookup that has ended. */
export interface Ended {
  /** database, mode and proofs: only lookups of the same kind are compared */
  readonly kind: string
  readonly typed: string
  readonly keys: readonly string[]
  readonly found: boolean
  readonly exchanges: readonly Exchange[]
  /** base URL of the database at a server, and the fetch for it */
  readonly server: string
  readonly fetch: Fetch
}

const SHOWN_BYTES = 16

export class Explorer {
  readonly #card: HTMLElement
  readonly #previous = new Map<string, Seen>()
  /** by kind: the last lookup that found something, and the last that did not */
  readonly #last = new Map<string, { found?: Seen; absent?: Seen }>()
  readonly #manifests = new Map<string, Promise<Manifest>>()

  constructor(card: HTMLElement) {
    this.#card = card
  }

  async show({ kind, typed, keys, found, exchanges, server, fetch }: Ended): Promise<void> {
    const asking = exchanges.find(({ path }) => !path.endsWith('/v1/fence'))
    if (asking === undefined) return // answered from memory, without requests
    const core = await loadCore('instant')
    const encoded = keys.map(key => new TextEncoder().encode(key))
    const fingerprints = encoded.map(key => core.fingerprint(key))
    const now: Seen = { typed, keys: encoded, fingerprints, found, exchanges }
    const checks = check(now, this.#previous.get(kind))
    this.#previous.set(kind, now)
    const last = { ...this.#last.get(kind), [found ? 'found' : 'absent']: now }
    this.#last.set(kind, last)
    const manifest = await this.#manifest(server, fetch, asking)
    find(this.#card, '#checks', HTMLUListElement).replaceChildren(...checks.map(line))
    find(this.#card, '#side-by-side', HTMLElement).replaceChildren(...sideBySide(last))
    find(this.#card, '#requests', HTMLOListElement).replaceChildren(
      ...exchanges.map((exchange, i) => request(exchange, i + 1, manifest)),
    )
    find(this.#card, '#wire-shown', HTMLElement).hidden = false
    find(this.#card, '#wire-empty', HTMLElement).hidden = true
  }

  /** The manifest of the epoch in the request. */
  #manifest(server: string, fetch: Fetch, { sent }: Exchange): Promise<Manifest> {
    const view = new DataView(sent.buffer, sent.byteOffset, sent.byteLength)
    const url = `${server}/v1/manifest?generation=${view.getUint32(24, true)}&epoch=${view.getUint32(28, true)}`
    const known = this.#manifests.get(url)
    if (known !== undefined) return known
    const fetched = fetch(url, { credentials: 'omit', referrerPolicy: 'no-referrer', cache: 'no-store' })
      .then(reply => readBounded(reply, LONGEST_MANIFEST_BYTES))
      .then(decodeManifest)
    fetched.catch(() => this.#manifests.delete(url))
    this.#manifests.set(url, fetched)
    return fetched
  }
}

function line({ holds, says }: Check): HTMLLIElement {
  const [mark, spoken] = holds === undefined ? ['–', 'cannot be told'] : holds ? ['✓', 'holds'] : ['✗', 'does not hold']
  return element(
    'li',
    { 'data-holds': String(holds) },
    element('span', { class: 'mark', role: 'img', 'aria-label': spoken }, mark),
    element('span', {}, says),
  )
}

function sideBySide({ found, absent }: { found?: Seen; absent?: Seen }): (Node | string)[] {
  if (found === undefined || absent === undefined) {
    const missing = found === undefined ? 'is in the database' : 'is not in the database'
    return [
      element(
        'p',
        { class: 'quiet' },
        `Look up something that ${missing} as well: both are then compared here, byte for byte.`,
      ),
    ]
  }
  const steps = Math.max(found.exchanges.length, absent.exchanges.length)
  const size = ({ exchanges }: Seen, i: number, way: 'sent' | 'reply') => {
    const exchange = exchanges[i]
    return (way === 'sent' ? exchange?.sent : exchange?.reply?.bytes)?.length
  }
  const rows = Array.from({ length: steps }, (_, i) =>
    (['sent', 'reply'] as const).map(way => {
      const [one, other] = [size(found, i, way), size(absent, i, way)]
      const { server, path } = (found.exchanges[i] ?? absent.exchanges[i])!
      const cell = (length: number | undefined) =>
        element('td', { 'data-equal': String(one === other) }, length === undefined ? '–' : count(length, 'byte'))
      const what = way === 'sent' ? `Question to ${path}` : 'Answer'
      return element('tr', {}, element('th', { scope: 'row' }, who(server), ` ${what}`), cell(one), cell(other))
    }),
  ).flat()
  const head = ({ typed }: Seen, title: string) => element('th', { scope: 'col' }, title, element('small', {}, typed))
  const sizes = (seen: Seen) => seen.exchanges.map(({ sent, reply }) => `${sent.length} ${reply?.bytes.length}`).join()
  const verdict =
    sizes(found) === sizes(absent)
      ? 'The same, byte for byte in length: nobody on the way can tell them apart.'
      : 'They differ.'
  return [
    element(
      'table',
      { 'aria-labelledby': 'side-title' },
      element('thead', {}, element('tr', {}, element('td', {}), head(found, 'Found'), head(absent, 'Not there'))),
      element('tbody', {}, ...rows),
    ),
    element('p', { class: 'same' }, verdict),
  ]
}

const who = (server: ServerName) => element('strong', { class: `server ${server.toLowerCase()}` }, `Server ${server}`)

function request({ server, method, path, sent, reply }: Exchange, number: number, manifest: Manifest): HTMLLIElement {
  const question = element(
    'details',
    {},
    element('summary', {}, `${method} ${path}, ${count(sent.length, 'byte')} sent`),
    table(fieldsOfRequest(path, sent), sent),
  )
  const answer =
    reply === undefined
      ? element('p', { class: 'quiet' }, 'No answer.')
      : element(
          'details',
          {},
          element('summary', {}, `The answer, ${count(reply.bytes.length, 'byte')} received`),
          table(fieldsOfReply(path, sent, reply.bytes, manifest), reply.bytes),
        )
  const title = element('p', {}, `${number}. `, who(server))
  return element('li', { class: server.toLowerCase() }, title, question, answer)
}

function table(fields: readonly Field[], all: Uint8Array): HTMLTableElement {
  const row = ({ at, bytes: length, name, means, value }: Field) => {
    const shown =
      value ?? hex(all.subarray(at, at + Math.min(length, SHOWN_BYTES))) + (length > SHOWN_BYTES ? ' …' : '')
    return element(
      'tr',
      {},
      element('td', {}, String(at)),
      element('td', {}, String(length)),
      element('th', { scope: 'row' }, name, element('small', { class: 'quiet' }, means), element('code', {}, shown)),
    )
  }
  return element(
    'table',
    { class: 'fields' },
    element(
      'thead',
      {},
      element(
        'tr',
        {},
        element('th', { scope: 'col' }, 'From'),
        element('th', { scope: 'col' }, 'Bytes'),
        element('th', { scope: 'col' }, 'What they are'),
      ),
    ),
    element('tbody', {}, ...fields.map(row)),
  )
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join(' ')
}
