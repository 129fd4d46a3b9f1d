// Code that only some maps need. Bundlers put it in files of its own.

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
