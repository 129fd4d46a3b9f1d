// Code that only some maps need. Bundlers put it in files of its own.

import { UnsupportedError } from '../base/errors.js'

/** What to say where one does not come: both causes look alike. */
export const NOT_LOADED =
  'expected a file of this package, got the failure in `cause`: the device is offline, or the app was deployed anew; call again, then reload the page. If it lasts, serve all files that your bundler wrote'

/** Loads such a part. Throws UnsupportedError. */
export async function loadPart<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (cause) {
    throw new UnsupportedError('module', NOT_LOADED, { cause, retryable: true })
  }
}
