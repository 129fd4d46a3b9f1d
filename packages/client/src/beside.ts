// @keyhush/client/beside: for packages that ask servers of their own beside a map, in the same way as lookups: in bodies of fixed length,
// without cookies, with the same attempts and deadlines. Apps do not need it.

import { ProtocolError, UsageError, VersionError } from './base/errors.js'
import { platformClock } from './platform/clock.js'
import { platformConnection } from './platform/connection.js'
import { type Fetch, platformFetch } from './platform/environment.js'
import { assertParties, type Development, parseServers } from './servers/parties.js'
import { Standing } from './servers/standing.js'
import { linksOf, post } from './servers/transport.js'
import { onTheWire } from './servers/wire.js'

/** A server beside a map's. */
export interface ServerBeside {
  /** origin and path without a final slash */
  readonly name: string
  /**
   * Sends the same bytes at most three times, unless they are refused, and resolves to a reply of exactly `replyBytes` bytes. Nothing calls it off.
   * @throws {KeyhushError} as a lookup does
   */
  post(path: string, body: Uint8Array, replyBytes: number): Promise<Uint8Array>
}

/**
 * Reads the URLs of servers, one to eight, of different hosts. `option`: what an app calls them.
 * @throws {UsageError} as `open({ servers })`
 */
export function serversBeside(
  option: string,
  urls: readonly (string | URL)[],
  { fetch = platformFetch, ...development }: Development & { readonly fetch?: Fetch | undefined },
): readonly ServerBeside[] {
  const environment = { clock: platformClock, connection: platformConnection, fetch }
  return linksOf(parsed(option, urls, development), environment, new Standing()).map(link => ({
    name: link.server.name,
    post: (path, body, replyBytes) =>
      onTheWire(link, body.length + replyBytes, until => post(link, path, body, replyBytes, until), { isFinal }),
  }))
}

/** What a server has refused for good, or lacks, it will refuse again. */
const isFinal = (error: unknown) =>
  error instanceof VersionError || (error instanceof ProtocolError && error.refusal !== undefined)

function parsed(option: string, urls: readonly (string | URL)[], development: Development) {
  try {
    const servers = parseServers(urls)
    assertParties(servers, servers.length, development)
    return servers
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    throw new UsageError(error.message.replace(/^servers:/, `${option}:`))
  }
}

export { abortable } from './base/abort.js'
export { callApp, checkNames, checkOptions, expected, toApp } from './base/boundary.js'
export { TIMEOUT_MS } from './base/constants.js'
export * from './common.js'
export { wantedOf } from './lookup/keys.js'
export { READ } from './map.js'
export { platformClock } from './platform/clock.js'
export { platformRandom } from './platform/environment.js'
export { sleep } from './servers/ask.js'
export { worstOf } from './servers/failures.js'
