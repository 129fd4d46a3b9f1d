// What a server shows and offers (docs/protocol.md, `/v1/info`): the epochs that it answers, each with its manifest's hash, and their
// signatures. What servers offer is not compared, and proves nothing.

import { type Info, parseInfo, WireError } from '@keyhush/protocol'
import { fromWire } from './manifests.js'
import { getBounded, type Link } from './transport.js'

const LONGEST_INFO = 64 * 1024

export async function infoOf(link: Link, signal: AbortSignal): Promise<Info> {
  const bytes = await getBounded(link, '/v1/info', LONGEST_INFO, signal)
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

/** Replies of servers that were asked for beforehand. Each is used once. */
export class Heard {
  readonly #infos = new Map<string, Promise<Info>>()

  /** Asks a server, once `before` resolves, for whoever needs its reply first. */
  ask(link: Link, signal: AbortSignal, before: Promise<void> = Promise.resolve()): Promise<Info> {
    const info = before.then(() => link.meter.asking(() => infoOf(link, signal)))
    info.catch(() => {}) // whoever takes it hears of it
    this.#infos.set(link.server.name, info)
    return info
  }

  take({ server }: Link): Promise<Info> | undefined {
    const info = this.#infos.get(server.name)
    this.#infos.delete(server.name)
    return info
  }
}
