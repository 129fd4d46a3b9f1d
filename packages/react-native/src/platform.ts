// What React Native has in other ways than browsers: randomness, requests, and URLs.

import { type Environment, type Fetch, UnsupportedError, UsageError } from '@keyhush/client/instant-with'

/** Secure randomness: `expo-crypto` fits, and a `crypto` as browsers have it. */
export interface Crypto {
  getRandomValues(bytes: Uint8Array<ArrayBuffer>): unknown
}

/** One result for each argument: maps share a session only if these are the same. */
function once<K extends object, V>(make: (of: K) => V): (of: K) => V {
  const made = new WeakMap<K, V>()
  return of => {
    const result = made.get(of) ?? make(of)
    made.set(of, result)
    return result
  }
}

const randomBy = once((crypto: Crypto): Environment['random'] => count => {
  const bytes = new Uint8Array(count)
  crypto.getRandomValues(bytes)
  return bytes
})

/** Throws UnsupportedError if there is none: nothing else may take its place. */
export function randomOf(crypto: Crypto | undefined): Environment['random'] {
  if (typeof crypto?.getRandomValues === 'function') return randomBy(crypto)
  const install =
    "npx expo install expo-crypto, import * as crypto from 'expo-crypto', and pass open({ crypto }); or install and import 'react-native-get-random-values' first"
  throw new UnsupportedError('platform', `expected secure randomness, got none; ${install}`)
}

/** React Native's `setImmediate` does not give the thread back. */
export const pause = () => new Promise<void>(resolve => void setTimeout(resolve))

/**
 * `fetch` as the SDK needs it. React Native's differs:
 * - Its replies have no `body`, and are whole when they come. The SDK then refuses one that is longer than allowed. Expo's have one.
 * - On Android it sends no body without a content type.
 * - For `cache: 'no-store'` it writes the time into the URL.
 * - It follows redirects whatever is said.
 */
export const adapted = once(
  (fetch: Fetch): Fetch =>
    async (url, { cache: _, ...init }) => {
      const headers = {
        'cache-control': 'no-store',
        ...(init.body && { 'content-type': 'application/octet-stream' }),
      }
      const response = await fetch(url, { ...init, headers })
      const redirected = response.redirected || isElsewhere(response.url, url)
      if (!redirected) return response
      const { status, headers: replied } = response
      return { status, headers: replied, redirected, arrayBuffer: () => response.arrayBuffer() } as Response
    },
)

/** A URL that was asked is plain (below), so that it comes back as it was. */
function isElsewhere(came: string, asked: string): boolean {
  const place = (url: string) => url.split('?')[0]
  return came !== '' && came !== undefined && place(came) !== place(asked)
}

/** A host in lower case or an IPv4 address, a port that is not the default, and a path without anything to encode. */
const PLAIN =
  /^https?:\/\/(([a-z\d-]+\.)*[a-z][a-z\d-]*|(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3})(:[1-9]\d{0,4})?(\/[\w~-][\w.~-]*)*\/?$/
const DEFAULT_PORT = /^(https:\/\/[^/]*:443|http:\/\/[^/]*:80)(\/|$)/

/**
 * Throws UsageError for URLs that React Native's `URL` may read in another way than its network does: two names of one server must not
 * count as two servers.
 */
export function plain(servers: readonly (string | URL)[]): string[] {
  return [...servers].map(server => {
    const url = String(server)
    if (PLAIN.test(url) && !DEFAULT_PORT.test(url)) return url
    const form = 'https://a.example/list: a host in lower case, letters, digits and dashes'
    throw new UsageError(`servers: expected URLs in the form ${form}, got one in another; write it like this`)
  })
}
