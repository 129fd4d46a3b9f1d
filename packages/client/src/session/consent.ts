// Before a map in mode `auto` downloads by itself, it waits until the line is not metered, and asks the app.

import { abortable } from '../base/abort.js'
import { UNASKED_BYTES } from '../base/constants.js'
import { UnsupportedError } from '../base/errors.js'
import type { MapEvent } from '../base/events.js'
import type { Connection } from '../platform/connection.js'
import { FILTER } from '../scheme/facts.js'

/** A download that a map would begin by itself. It does not depend on a key, or on what a lookup returned. */
export interface DownloadOffer {
  /** The mode that answers after it, or `filter`. */
  readonly mode: string
  /** Bytes of the whole download. If an earlier visit has begun it, fewer are left. */
  readonly bytes: number
  /**
   * Why the map would download:
   *
   * - `small`: the database is so small that keeping it is cheaper than asking.
   * - `lookups`: so many lookups were made that the download would have been cheaper.
   * - `unfinished`: an earlier download was not finished.
   * - `outdated`: no update list leads on from the map's state.
   * - `needed`: without it these servers answer nothing.
   * - `filter`: a filter, by `open({ filter })`. It is asked for by itself, whatever you said of another download.
   */
  readonly reason: 'small' | 'lookups' | 'unfinished' | 'outdated' | 'needed' | 'filter'
}

/** `auto`: what makes lookups cheaper. `never`: nothing. A function: what it returns `true` for. See `open({ download })`. */
export type Download = 'auto' | 'never' | ((offer: DownloadOffer) => boolean | Promise<boolean>)

/** Which lines a map in mode `auto` uses for large downloads by itself. See `open({ network })`. */
export type Network = 'any' | 'unmetered'

/** A line that may be metered, and whom to tell of a download that waits for its end. */
interface Metering {
  readonly connection: Pick<Connection, 'isMetered' | 'whenChanged'>
  readonly announce: (event: MapEvent) => void
}

export class Consent {
  readonly #download: Download
  /** undefined: any will do */
  readonly #line: Metering | undefined
  #refused: boolean
  /** bytes that a preparation may download: the database may have grown since the app was asked */
  #granted = 0
  /** answers the question that stands */
  #demand = () => {}
  /** ends the wait for the line, if there is one and it is not metered */
  #look = () => {}

  constructor(download: Download, line?: Metering) {
    this.#download = download
    this.#line = line
    this.#refused = download === 'never'
  }

  /** Whether the app has said no. That holds until prepare(), and for `never` always. */
  get refused(): boolean {
    return this.#refused
  }

  /** Whether it may begin now, and the app need not be asked. */
  allows(bytes: number): boolean {
    if (this.#refused) return false
    return bytes <= UNASKED_BYTES || (typeof this.#download !== 'function' && !this.#isMetered)
  }

  /**
   * Waits until the line is not metered, unless nothing else answers. Throws UnsupportedError if the app says no, has said no, or its
   * function throws.
   */
  async ask(offer: DownloadOffer, signal: AbortSignal): Promise<void> {
    if (this.allows(offer.bytes)) return
    const download = this.#download
    if (this.#refused) throw refusalOf(offer)
    const over = new AbortController()
    const demanded = new Promise<boolean>(resolve => {
      this.#demand = () => resolve(true)
    })
    const unmetered = offer.reason === 'needed' ? Promise.resolve() : this.#unmetered(offer, over.signal)
    const asked = unmetered.then(() => typeof download !== 'function' || download(offer))
    const answer = await abortable(Promise.race([demanded, asked]), signal)
      .catch(cause => {
        if (signal.aborted) throw cause
        this.#refused = true
        throw refusalOf(offer, cause)
      })
      .finally(() => over.abort())
    if (answer === true) return
    this.#refused = true
    throw refusalOf(offer)
  }

  /** The same, before a preparation of so many bytes. */
  async askToPrepare(offer: DownloadOffer, signal: AbortSignal): Promise<void> {
    this.#granted = offer.bytes
    await this.ask(offer, signal)
  }

  /** Whether the preparation that was asked for last, or demanded, may download so many bytes. */
  covers(bytes: number): boolean {
    return bytes <= this.#granted
  }

  /** Calls `listener` when a preparation of so many bytes must not go on by itself. Returns how to end that. */
  whenMetered(bytes: number, listener: () => void): () => void {
    if (this.#line === undefined || bytes <= UNASKED_BYTES) return () => {}
    return this.#line.connection.whenChanged(() => {
      if (this.#isMetered && this.#granted !== Number.POSITIVE_INFINITY) listener()
    })
  }

  get #isMetered(): boolean {
    return this.#line?.connection.isMetered === true
  }

  /** Resolves when the line is not metered; never, if `over` aborts before. */
  async #unmetered({ mode, bytes }: DownloadOffer, over: AbortSignal): Promise<void> {
    if (this.#line === undefined || !this.#isMetered) return
    const { connection, announce } = this.#line
    announce({ type: 'postponed', mode, bytes })
    await new Promise<void>(resolve => {
      this.#look = () => {
        if (!this.#isMetered) resolve()
      }
      const withdraw = connection.whenChanged(this.#look)
      over.addEventListener('abort', withdraw, { once: true })
    })
  }

  /** Looks at the line again: Chromium does not tell of each change. */
  look(): void {
    this.#look()
  }

  /** The app demands the download. */
  demand(): void {
    this.#refused = this.#download === 'never'
    this.#granted = Number.POSITIVE_INFINITY
    this.#demand()
  }
}

/** The error of what needs a download that the app does not want, or not on this line. `cause`: what its function has thrown. */
export function refusalOf({ mode, bytes }: Pick<DownloadOffer, 'mode' | 'bytes'>, cause?: unknown): UnsupportedError {
  const message = `expected permission to download ${bytes} bytes for mode '${mode}', got none from open({ download })`
  const advice = mode === FILTER ? 'call reset(), which does' : 'call again, or call prepare() or reset(), which do'
  return new UnsupportedError('download', `${message}; ${advice} not ask`, cause === undefined ? {} : { cause })
}

export function isRefusal(error: unknown): error is UnsupportedError {
  return error instanceof UnsupportedError && error.reason === 'download'
}
