// Code that only some maps need, in files of its own, which bundlers make of it.

import { UnsupportedError } from '../base/errors.js'

/** Loads such a part. Throws UnsupportedError. */
export async function loadPart<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (cause) {
    const message =
      'a part of the client could not be loaded; `cause` says why. Are all files that the bundler wrote served?'
    throw new UnsupportedError('module', message, { cause })
  }
}
