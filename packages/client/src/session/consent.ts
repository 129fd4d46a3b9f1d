// Asks the app before a map in mode `auto` downloads by itself.

import { abortable } from '../base/abort.js'
import { UNASKED_BYTES } from '../base/constants.js'
import { UnsupportedError } from '../base/errors.js'

/** A download that a map would begin by itself. It does not depend on a key, or on what a lookup returned. */
export interface DownloadOffer {
  /** The mode that answers after it. */
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
   */
  readonly reason: 'small' | 'lookups' | 'unfinished' | 'outdated' | 'needed'
}

/** `auto`: what makes lookups cheaper. `never`: nothing. A function: what it returns `true` for. See `open({ download })`. */
export type Download = 'auto' | 'never' | ((offer: DownloadOffer) => boolean | Promise<boolean>)

export class Consent {
  readonly #download: Download
  #refused: boolean
  /** answers the question that stands */
  #demand = () => {}

  constructor(download: Download) {
    this.#download = download
    this.#refused = download === 'never'
  }

  /** Whether the app has said no. That holds until prepare(), and for `never` always. */
  get refused(): boolean {
    return this.#refused
  }

  /** Whether the app need not be asked. */
  allows(bytes: number): boolean {
    return !this.#refused && (typeof this.#download !== 'function' || bytes <= UNASKED_BYTES)
  }

  /** Throws UnsupportedError if the app says no, has said no, or its function throws. */
  async ask(offer: DownloadOffer, signal: AbortSignal): Promise<void> {
    if (this.allows(offer.bytes)) return
    const download = this.#download
    if (this.#refused || typeof download !== 'function') throw refusalOf(offer)
    const demanded = new Promise<boolean>(resolve => {
      this.#demand = () => resolve(true)
    })
    const asked = Promise.resolve().then(() => download(offer))
    const answer = await abortable(Promise.race([demanded, asked]), signal).catch(cause => {
      if (signal.aborted) throw cause
      this.#refused = true
      throw refusalOf(offer, cause)
    })
    if (answer === true) return
    this.#refused = true
    throw refusalOf(offer)
  }

  /** The app demands the download. */
  demand(): void {
    this.#refused = this.#download === 'never'
    this.#demand()
  }
}

/** The error of what needs a download that the app does not want. `cause`: what its function has thrown. */
export function refusalOf({ mode, bytes }: Pick<DownloadOffer, 'mode' | 'bytes'>, cause?: unknown): UnsupportedError {
  const message = `expected permission to download ${bytes} bytes for mode '${mode}', got none from open({ download })`
  return new UnsupportedError(
    'download',
    `${message}; call again, or call prepare() or reset(), which do not ask`,
    cause === undefined ? {} : { cause },
  )
}

export function isRefusal(error: unknown): error is UnsupportedError {
  return error instanceof UnsupportedError && error.reason === 'download'
}
