// Code that only some maps need. Bundlers put it in files of its own.

import { UnsupportedError } from '../base/errors.js'

/** Loads such a part. Throws UnsupportedError. */
export async function loadPart<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (cause) {
    const message =
      'expected a file of this package, got the failure in `cause`; serve all files that your bundler wrote'
    throw new UnsupportedError('module', message, { cause })
  }
}
