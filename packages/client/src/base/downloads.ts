// Downloads that a map in mode `auto` begins by itself, and the app's say over them.

import { UnsupportedError } from './errors.js'

/** A download that a map would begin by itself. Nothing in it, nor when it is made, follows from what was looked up or came back. */
export interface DownloadOffer {
  /** how lookups are answered after it */
  readonly mode: string
  /** of the whole download; of one that an earlier visit has begun, less is to come */
  readonly bytes: number
  /**
   * `small`: the database is so small that keeping it is cheaper than asking. `lookups`: so many lookups were made that it would have
   * been cheaper. `unfinished`: it was begun before. `outdated`: no list of changes leads on from the state that there is. `needed`:
   * without it these servers answer nothing.
   */
  readonly reason: 'small' | 'lookups' | 'unfinished' | 'outdated' | 'needed'
}

/** `auto`: whatever is cheaper; `never`: nothing by itself; a function: what it resolves to `true` for. */
export type Download = 'auto' | 'never' | ((offer: DownloadOffer) => boolean | Promise<boolean>)

/** The error of what needs a download that the app does not want. `cause`: what its function has thrown. */
export function refusalOf({ mode, bytes }: Pick<DownloadOffer, 'mode' | 'bytes'>, cause?: unknown): UnsupportedError {
  const message = `expected leave to download ${bytes} bytes for mode '${mode}', got none from open({ download })`
  return new UnsupportedError(
    'download',
    `${message}; ask again, or call prepare() or reset(), which ask nobody`,
    cause === undefined ? {} : { cause },
  )
}

export function isRefusal(error: unknown): error is UnsupportedError {
  return error instanceof UnsupportedError && error.reason === 'download'
}
