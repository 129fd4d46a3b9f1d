// Asks the app before a map in mode `auto` downloads by itself.

import { abortable } from '../base/abort.js'
import { UNASKED_BYTES } from '../base/constants.js'
import { type Download, type DownloadOffer, refusalOf } from '../base/downloads.js'

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
