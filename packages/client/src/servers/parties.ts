// The servers of a map, one to eight: their URLs are checked, normalised and sorted, and several must be able to be as many parties.
// Names are compared, not addresses: two names of one machine pass.

import { MAX_SERVERS } from '@keyhush/protocol'
import { expected, oneOf } from '../base/boundary.js'
import { UsageError } from '../base/errors.js'
import { agreedBy, type Identity, ONE_PARTY } from '../store/identity.js'

export interface Server {
  /** origin and path without a final slash: the server's name in errors and in stored state */
  readonly name: string
}

/** One or more, in ascending order of their names, so that nothing depends on the caller's order (S5). */
export type Servers = readonly [Server, ...Server[]]

/**
 * The name of a state: the same for any order of `servers`. Modes for one party and for two do not share a state, nor do maps on whose
 * database other numbers of servers have to agree.
 */
export function identityOf(servers: Servers, apart: Apart, atLeast: number): Identity {
  const names = servers.map(({ name }) => name)
  if (servers.length > apart) return [...names, ONE_PARTY]
  return atLeast < servers.length ? [...names, agreedBy(atLeast)] : names
}

/** Of the store for what was shown (session/shown.ts). It names no server, so that states of other sets of servers leave it alone (S5). */
export function shownIdentity(servers: Servers): Identity {
  return besideStates('shown', servers)
}

/** Of the store for a filter (filter/keeping.ts), beside the states of the same servers. */
export function filterIdentity(servers: Servers): Identity {
  return besideStates('filter', servers)
}

function besideStates(what: string, servers: Servers): Identity {
  return [[what, ...servers.map(({ name }) => encodeURIComponent(name))].join('+')]
}

/** For messages. */
export function namesOf(servers: readonly Server[]): string {
  return listed(servers.map(({ name }) => name))
}

/** `a`, `a and b`, or `a, b and c`. */
export function listed(names: readonly string[]): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
}

/** How many parties there are that must not all collude: one if lookups tell the answering server nothing. */
export type Apart = number

/** Servers that may all collude count as one party. Throws UsageError for another value of `collusion`. */
export function apartOf(servers: readonly unknown[] | undefined, collusion: 'tolerated' | undefined): Apart {
  if (collusion !== undefined) oneOf('collusion', ['tolerated'], collusion)
  return collusion === 'tolerated' ? 1 : (servers?.length ?? 2)
}

export interface Development {
  /**
   * `true`: allows what you need to try things out. Never in production: others can then see your keys.
   *
   * - Two servers may be ports of one host. Its operator sees all queries of a lookup, and so the key. Ports of this machine (localhost,
   *   127.0.0.1, [::1]) need no option.
   * - Servers on other machines may use plain http. Anybody on the network path to all of them sees the same.
   * - `pointproofs` may use a key from a ceremony for development. Its maker may be able to forge proofs.
   */
  readonly development?: boolean | undefined
}

/**
 * Reads `open({ servers })`. Refuses anything but one to eight http(s) URLs, of different hosts or ports, without credentials,
 * query or fragment.
 */
export function parseServers(servers: readonly (string | URL)[]): Servers {
  if (!Array.isArray(servers) || servers.length < 1 || servers.length > MAX_SERVERS) {
    const came = Array.isArray(servers) ? `a list of ${servers.length}` : `no list (${typeof servers})`
    throw new UsageError(
      `servers: expected [one URL], or up to ${MAX_SERVERS} of operators who do not all collude, got ${came}; pass a list of URLs`,
    )
  }
  const urls = servers.map(parseUrl)
  // One host and port is one process, also for two paths: it sees the queries of both.
  const twice = urls.find((url, i) => urls.findIndex(other => addressOf(other) === addressOf(url)) < i)
  if (twice !== undefined) {
    throw new UsageError(
      `servers: expected an operator for each, got ${twice.host} twice, which would see both queries; pass another, or it once`,
    )
  }
  return urls
    .map(nameOf)
    .sort()
    .map(name => ({ name })) as [Server, ...Server[]]
}

function parseUrl(text: string | URL): URL {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    const came = typeof text === 'string' ? 'a relative one, or none' : typeof text // not quoted: see below
    throw new UsageError(`servers: expected absolute URLs such as https://a.example, got ${came}; pass the whole URL`)
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new UsageError(`servers: expected https or http, got ${url.protocol}; pass a server's URL`)
  }
  // Never quoted: it may have a password in it.
  if (url.username !== '' || url.password !== '')
    throw new UsageError('servers: expected URLs without credentials, got one with; leave them out')
  if (url.search !== '' || url.hash !== '')
    throw new UsageError('servers: expected URLs without query and fragment, got one with; leave it out')
  return url
}

/**
 * Throws UsageError for servers whose traffic one party can read, unless the app allows that. Two ports of this machine are always
 * allowed, for development.
 */
export function assertParties(servers: Servers, apart: Apart, { development }: Development): void {
  if (development) return
  for (const { name } of servers) {
    const url = new URL(name)
    if (url.protocol === 'https:' || hostOf(url) === LOOPBACK) continue
    const why =
      apart === 1
        ? 'anybody on the network path can change what is not signed'
        : "anybody on the network path can read its queries, and with all servers' queries the key"
    throw new UsageError(
      `servers: expected https, but ${url.origin} is plain http; ${why}. Use https, or pass development: true to try things out`,
    )
  }
  const host = commonHost(servers)
  if (apart === 1 || host === undefined || host === LOOPBACK) return
  const why =
    servers.length === 2 ? 'its operator would see both queries, and so the key' : 'they count as one operator'
  throw new UsageError(
    `servers: expected a host for each operator, but two are on ${host}; ${why}. Use another, or pass development: true to try things out`,
  )
}

/** Throws UsageError for a number of servers that cannot be how many suffice. */
export function checkAtLeast(atLeast: number, apart: Apart): void {
  if (apart < 3) {
    throw new UsageError(`atLeast: expected three servers or more, got ${numberOf(apart)}; leave the option out`)
  }
  if (Number.isInteger(atLeast) && atLeast >= 2 && atLeast <= apart) return
  throw new UsageError(`atLeast: ${expected(`a whole number from 2 to ${apart}`, atLeast)}`)
}

export function numberOf(apart: Apart): string {
  return ['one server', 'two servers'][apart - 1] ?? 'three servers or more'
}

/** A host that two servers are on, `localhost` for all names of this machine's own; undefined: there is none. */
export function commonHost(servers: Servers): string | undefined {
  const hosts = servers.map(({ name }) => hostOf(new URL(name)))
  return hosts.find((host, i) => hosts.indexOf(host) < i)
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

function addressOf(url: URL): string {
  return `${hostOf(url)}:${portOf(url)}`
}

function portOf({ port, protocol }: URL): string {
  return port || (protocol === 'https:' ? '443' : '80')
}

function nameOf(url: URL): string {
  return url.origin + url.pathname.replace(/\/+$/, '')
}

/** Those that have something of an epoch, which take turns, and then the others. It tells nothing: all clients ask in the same order. */
export function inTurns<T>(epoch: number, holders: readonly T[], all: readonly T[]): T[] {
  const turns = epoch % 2 === 0 ? holders : [...holders].reverse()
  return [...new Set([...turns, ...all])]
}
