// The one or two servers of a map: their URLs are checked, normalised and sorted, and two must be able to be two parties. Names are
// compared, not addresses: two names of one machine pass.

import { oneOf } from '../base/boundary.js'
import { UsageError } from '../base/errors.js'
import type { Identity } from '../store/storage.js'

export interface Server {
  /** origin and path without a final slash: the server's name in errors and in stored state */
  readonly name: string
}

/** One, or two in ascending order of their names, so that nothing depends on the caller's order (S5). */
export type Servers = readonly [Server] | readonly [Server, Server]

/** The name of a state: the same for both orders of `servers`. */
export function identityOf(servers: Servers): Identity {
  return servers.map(({ name }) => name)
}

/** For messages. */
export function namesOf(servers: readonly Server[]): string {
  return servers.map(({ name }) => name).join(' and ')
}

/** How many parties must not collude: one if lookups tell the answering server nothing. */
export type Apart = 1 | 2

/** Two servers that may collude count as one party. Throws UsageError for another value of `collusion`. */
export function apartOf(servers: readonly unknown[] | undefined, collusion: 'tolerated' | undefined): Apart {
  if (collusion !== undefined) oneOf('collusion', ['tolerated'], collusion)
  return servers?.length === 1 || collusion === 'tolerated' ? 1 : 2
}

export interface Development {
  /**
   * Never in production: allows what you need to try things out. Two servers may be ports of one host, whose operator then sees both
   * queries of each lookup, and so the key. Servers on other machines may be reached over plain http: anybody on the network path to
   * both sees the same. `pointproofs` may have the key of a ceremony for development, whose maker may be able to forge proofs. Two
   * ports of this machine (localhost, 127.0.0.1, [::1]) need no option.
   */
  readonly development?: boolean | undefined
}

/**
 * Reads `open({ servers })`. Refuses anything but one or two http(s) URLs, of different hosts or ports, without credentials,
 * query or fragment.
 */
export function parseServers(servers: readonly (string | URL)[]): Servers {
  if (!Array.isArray(servers) || (servers.length !== 1 && servers.length !== 2)) {
    const came = Array.isArray(servers) ? `a list of ${servers.length}` : `no list (${typeof servers})`
    throw new UsageError(`servers: expected [one URL] or [two, of operators who do not collude], got ${came}`)
  }
  const [a, b] = servers.map(parseUrl) as [URL, URL?]
  if (b === undefined) return [{ name: nameOf(a) }]
  // One host and port is one process, also for two paths: it sees both vectors.
  if (hostOf(a) === hostOf(b) && portOf(a) === portOf(b)) {
    throw new UsageError(`servers: expected two operators, got ${a.host} twice, which would see both queries`)
  }
  const [first, second] = [nameOf(a), nameOf(b)].sort() as [string, string]
  return [{ name: first }, { name: second }]
}

function parseUrl(text: string | URL): URL {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    const came = typeof text === 'string' ? 'a relative one, or none' : typeof text // not quoted: see below
    throw new UsageError(`servers: expected absolute URLs such as https://a.example, got ${came}`)
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new UsageError(`servers: expected https or http, got ${url.protocol}`)
  }
  // Never quoted: it may have a password in it.
  if (url.username !== '' || url.password !== '') throw new UsageError('servers: credentials in a URL are refused')
  if (url.search !== '' || url.hash !== '') throw new UsageError('servers: a query or fragment in a URL is refused')
  return url
}

/**
 * Throws UsageError for servers whose traffic one party can read, unless the app allows that. Two ports of this machine are always
 * allowed, for development.
 */
export function assertParties(servers: Servers, apart: Apart, { development }: Development): void {
  const urls = servers.map(({ name }) => new URL(name))
  for (const url of urls) {
    if (url.protocol === 'https:' || hostOf(url) === LOOPBACK || development === true) continue
    const why =
      apart === 1
        ? 'anybody on the network path can change what is not signed'
        : "anybody on the network path can read its queries, and with both servers' queries the key"
    throw new UsageError(
      `servers: ${url.origin} is plain http; ${why}. Use https, or pass development: true to try things out`,
    )
  }
  const host = commonHost(servers)
  if (apart === 1 || host === undefined || host === LOOPBACK || development === true) return
  const why = 'its operator would see both queries, and so the key'
  throw new UsageError(
    `servers: both are on ${host}; ${why}. Use two operators' hosts, or pass development: true to try things out`,
  )
}

/** The host both servers are on, `localhost` for all names of this machine's own; undefined: there is none. */
export function commonHost(servers: Servers): string | undefined {
  const [a, b] = servers.map(({ name }) => hostOf(new URL(name)))
  return a === b ? a : undefined
}

const LOOPBACK = 'localhost'

/**
 * One name for each host: without a final dot, IPv4 addresses as such also in IPv6, and `localhost` for all names and addresses of
 * this machine.
 */
function hostOf({ hostname }: URL): string {
  const [, high, low] = /^\[::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})\]$/.exec(hostname) ?? []
  const bytes = [high, low].flatMap(half => [
    Number.parseInt(half ?? '', 16) >> 8,
    Number.parseInt(half ?? '', 16) & 255,
  ])
  const host = high === undefined ? hostname.replace(/\.$/, '') : bytes.join('.')
  return /^(.*\.)?localhost$|^127\.\d+\.\d+\.\d+$|^\[::1\]$/.test(host) ? LOOPBACK : host
}

function portOf({ port, protocol }: URL): string {
  return port || (protocol === 'https:' ? '443' : '80')
}

function nameOf(url: URL): string {
  return url.origin + url.pathname.replace(/\/+$/, '')
}
