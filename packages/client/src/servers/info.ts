// What a server says that it offers (docs/protocol.md, `/v1/info`). Servers are not compared by it, so it proves nothing.

import { type Info, parseInfo, WireError } from '@keyhush/protocol'
import { fromWire } from './manifests.js'
import { withRetry } from './retry.js'
import { getBounded, type Link } from './transport.js'

const LONGEST_INFO = 64 * 1024

export async function infoOf(link: Link, signal: AbortSignal): Promise<Info> {
  const bytes = await withRetry(link, signal, () => getBounded(link, '/v1/info', LONGEST_INFO, signal))
  return fromWire(link, () => {
    let json: unknown
    try {
      json = JSON.parse(new TextDecoder().decode(bytes))
    } catch {
      throw new WireError('malformed', 'info: expected JSON')
    }
    return parseInfo(json)
  })
}
