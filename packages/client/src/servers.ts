// The two servers of a map, as URLs: checked, normalised and put into an order that does not depend on the caller's.

import { UsageError } from './errors.js'
import type { Identity } from './storage.js'

export interface Server {
  /** origin and path without a final slash: names the server in errors and in stored state */
  readonly name: string
}

/** In ascending order of their names, so that nothing can depend on positions in the caller's array (S5). */
export type ServerPair = readonly [Server, Server]

/** Whose state it is: the same whatever the order in `servers`. */
export function identityOf([a, b]: ServerPair): Identity {
  return [a.name, b.name]
}

/**
 * Reads `open({ servers })`. Refuses anything but two http(s) URLs of different origins, without credentials, query or
 * fragment.
 */
export function parseServers(servers: readonly (string | URL)[]): ServerPair {
  if (!Array.isArray(servers) || servers.length !== 2) {
    throw new UsageError('servers: expected exactly two URLs, of two operators who do not collude')
  }
  const [a, b] = servers.map(parseUrl) as [URL, URL]
  // One origin is one party, whatever the paths: it would see both vectors.
  if (originOf(a) === originOf(b)) {
    throw new UsageError(`servers: both have the origin ${a.origin}; whoever answers there would see both queries`)
  }
  const [first, second] = [nameOf(a), nameOf(b)].sort() as [string, string]
  return [{ name: first }, { name: second }]
}

function parseUrl(text: string | URL): URL {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw new UsageError('servers: expected absolute URLs such as https://a.example')
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new UsageError(`servers: expected https or http, got ${url.protocol}`)
  }
  // Never quoted: a password may stand in it.
  if (url.username !== '' || url.password !== '') throw new UsageError('servers: credentials in a URL are refused')
  if (url.search !== '' || url.hash !== '') throw new UsageError('servers: a query or fragment in a URL is refused')
  return url
}

/** The origin for comparison: `a.example.` and `a.example` are one host. */
function originOf(url: URL): string {
  return `${url.protocol}//${url.hostname.replace(/\.$/, '')}:${url.port}`
}

function nameOf(url: URL): string {
  return url.origin + url.pathname.replace(/\/+$/, '')
}
