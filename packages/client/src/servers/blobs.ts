// What goes by its hash may come from where a server says that it is, a static host, say, if the app lets it. Nothing from there is
// believed, as nothing from servers is; and whatever is wrong with it, the server has it too.

import { ServerError } from '../base/errors.js'
import { infoOf } from './info.js'
import { nameOf } from './pair.js'
import { withRetry } from './retry.js'
import type { Link, Links } from './transport.js'

/** Told of what has failed without failing anybody's call. */
export interface Incidents {
  incident(server: string, code: ServerError['code']): void
}

/** The same links, of servers that may name a host of one of these origins. */
export function withBlobHosts(links: Links, origins: readonly string[]): Links {
  return origins.length === 0 ? links : links.map(link => ({ ...link, elsewhere: { origins } }))
}

/**
 * Does `work`, which fetches blobs and checks them, with the host that this server names for them; if that fails, or there is
 * none, with the server itself, again if the connection broke. A host that has failed once is not asked again.
 */
export async function withBlobHost<T>(
  link: Link,
  heard: Incidents,
  signal: AbortSignal,
  work: (link: Link) => Promise<T>,
): Promise<T> {
  const { elsewhere } = link
  const fromServer = () => withRetry(link, signal, () => work(link))
  if (elsewhere === undefined) return await fromServer()
  elsewhere.host ??= await told(link, elsewhere.origins, signal)
  const { host } = elsewhere
  if (host === '') return await fromServer()
  try {
    return await work({ ...link, server: { name: host } })
  } catch (error) {
    if (signal.aborted || !(error instanceof ServerError)) throw error
    elsewhere.host = ''
    heard.incident(host, error.code)
    return await fromServer()
  }
}

/** Empty: it names none, or none that the app lets it name. */
async function told(link: Link, origins: readonly string[], signal: AbortSignal): Promise<string> {
  try {
    return blobHostOf((await infoOf(link, signal)).blobs, origins) ?? ''
  } catch (error) {
    if (signal.aborted || !(error instanceof ServerError)) throw error
    return '' // what is wrong with it will be seen when it is asked itself
  }
}

/** What a server says of where blobs are, as `Server.name`; undefined: nothing, or not where the app lets it. */
function blobHostOf(text: string | undefined, origins: readonly string[]): string | undefined {
  const url = text !== undefined && URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !origins.includes(url.origin)) return undefined
  return url.username + url.password + url.search + url.hash === '' ? nameOf(url) : undefined
}
