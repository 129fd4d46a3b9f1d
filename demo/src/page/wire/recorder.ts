// Records a map's requests and their replies, byte for byte, as they pass through `open({ fetch })`.

import type { ServerName } from '../backstage.js'
import { readBounded } from './bounded.js'

/** One request and its reply. */
export interface Exchange {
  readonly server: ServerName
  /** below the server's URL, for example `/v1/instant` */
  readonly path: string
  /** what tells the browser which headers and cookies to send */
  readonly options: Readonly<Pick<RequestInit, 'credentials' | 'referrerPolicy' | 'cache' | 'redirect' | 'headers'>>
  readonly sent: Uint8Array
  /** when it was sent and its reply was there, in milliseconds of `performance.now()` */
  readonly from: number
  readonly to: number
  /** undefined: none came, or its status was not 200 */
  readonly reply: { readonly bytes: Uint8Array; readonly encoding: string | null } | undefined
}

type Urls = Readonly<Partial<Record<ServerName, string>>>

export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** a stream without an end */
const EVENTS = /\/v1\/events\b/
const KEPT = 64
/** A longer reply is not recorded. */
const MOST_BYTES = 16 * 1024 * 1024

export class Recorder {
  readonly #urls: Urls
  readonly #onwards: Fetch
  readonly #kept: Promise<Exchange>[] = []
  #count = 0

  /** `urls`: the database's base URL at each server. `onwards`: the fetch that sends the requests. */
  constructor(urls: Urls, onwards: Fetch = (url, init) => fetch(url, init)) {
    this.#urls = urls
    this.#onwards = onwards
  }

  /** For `open({ fetch })`. It sends at once, because all servers have to be asked at the same moment. */
  readonly fetch = (url: string, init: RequestInit): Promise<Response> => {
    const from = performance.now()
    const response = this.#onwards(url, init)
    const { path } = this.#partsOf(url)
    if (EVENTS.test(path)) return response
    this.#count += 1
    let keep: (exchange: Exchange) => void = () => {}
    this.#kept.push(
      new Promise(resolve => {
        keep = resolve
      }),
    )
    if (this.#kept.length > KEPT) this.#kept.shift()
    const unanswered = this.#exchange(url, init, from, undefined)
    return response.then(
      given => {
        const encoding = given.headers.get('content-encoding')
        const reply =
          given.status === 200 ? readBounded(given.clone(), MOST_BYTES) : Promise.reject(new Error('refused'))
        reply.then(
          bytes => keep(this.#exchange(url, init, from, { bytes, encoding })),
          () => keep(unanswered),
        )
        return given
      },
      error => {
        keep(unanswered)
        throw error
      },
    )
  }

  /** The number of requests so far. */
  get count(): number {
    return this.#count
  }

  /** The requests after the first `count`, in the order in which they were sent. Waits for their replies. */
  since(count: number): Promise<Exchange[]> {
    const number = Math.min(this.#kept.length, this.#count - count)
    return Promise.all(number === 0 ? [] : this.#kept.slice(-number))
  }

  #partsOf(url: string): { readonly server: ServerName; readonly path: string } {
    const urls = Object.entries(this.#urls) as [ServerName, string][]
    const [server, base] = urls.find(([, base]) => url.startsWith(`${base}/`)) ?? urls[0]!
    return { server, path: url.slice(base.length) }
  }

  #exchange(url: string, init: RequestInit, from: number, reply: Exchange['reply']): Exchange {
    const { credentials, referrerPolicy, cache, redirect, headers, body } = init
    const options = {
      ...(credentials && { credentials }),
      ...(referrerPolicy && { referrerPolicy }),
      ...(cache && { cache }),
      ...(redirect && { redirect }),
      ...(headers && { headers }),
    }
    const sent = body instanceof Uint8Array ? new Uint8Array(body as Uint8Array) : new Uint8Array()
    return { ...this.#partsOf(url), options, sent, from, to: performance.now(), reply }
  }
}
