// The youngest functions of the platform that this package needs. (Whether there is WebAssembly with SIMD, starting.ts finds out.)

import { UnsupportedError } from '../base/errors.js'

/** Throws UnsupportedError on a platform that lacks one. */
export function assertPlatform(): void {
  const needed: Readonly<Record<string, unknown>> = {
    'AbortSignal.prototype.throwIfAborted': typeof AbortSignal === 'function' && AbortSignal.prototype.throwIfAborted,
    'Array.prototype.at': Array.prototype.at,
    'Object.hasOwn': Object.hasOwn,
  }
  const missing = Object.keys(needed).filter(name => typeof needed[name] !== 'function')
  if (missing.length === 0) return
  const enough = 'Chromium 100, Firefox 97, Safari 16.4 and React Native 0.87 are new enough'
  const message = `expected a platform that has ${missing.join(', ')}, got an older one; update it: ${enough}`
  throw new UnsupportedError('platform', message)
}
