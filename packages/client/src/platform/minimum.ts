// What this package needs of the platform. (Whether there is WebAssembly with SIMD, starting.ts finds out.)

import { UnsupportedError } from '../base/errors.js'
import { type Environment, platformFetch, platformRandom } from './environment.js'

const NEEDED = [
  ...['AbortController', 'AbortSignal.prototype.throwIfAborted', 'Array.prototype.at', 'Object.hasOwn'],
  ...['TextDecoder', 'TextEncoder', 'URL', 'performance.now', 'queueMicrotask', 'setTimeout'],
]

/** Throws UnsupportedError, with the name of each function that the platform lacks and the app has not passed. */
export function assertPlatform({ fetch, random }: Partial<Pick<Environment, 'fetch' | 'random'>>): void {
  const needed = [...NEEDED]
  if (fetch === platformFetch) needed.push('fetch')
  if (random === platformRandom) needed.push('crypto.getRandomValues')
  const find = (path: string) =>
    path.split('.').reduce<unknown>((of, name) => (of as Record<string, unknown> | undefined)?.[name], globalThis)
  const missing = needed.filter(path => typeof find(path) !== 'function')
  if (missing.length === 0) return
  const enough = 'Chromium 100, Firefox 97, Safari 16.4, Node 20 and React Native 0.87 are new enough'
  const message = `expected a platform that has ${missing.join(', ')}, got one without; use another: ${enough}`
  throw new UnsupportedError('platform', message)
}
