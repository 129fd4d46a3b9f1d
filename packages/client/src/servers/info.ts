// What a server shows and offers (docs/protocol.md, `/v1/info`): the epochs that it answers, each with its manifest's hash, and their
// signatures. What servers offer is not compared, and proves nothing.

import { type Info, parseInfo } from '@keyhush/protocol'
import type { Environment } from '../platform/environment.js'
import { type Agreed, fromWire, newestOf } from './manifests.js'
import { elsewhere, getBounded, type Link, type Links } from './transport.js'

const LONGEST_INFO = 64 * 1024

export async function infoOf(link: Link, signal: AbortSignal, path = '/v1/info'): Promise<Info> {
  const bytes = await getBounded(link, path, LONGEST_INFO, signal)
  const json = jsonIn(bytes)
  if (json?.format === undefined) throw elsewhere(link.server.name, path, 'status 200 and no info')
  const info = fromWire(link, () => parseInfo(json))
  link.standing.offers.set(link.server.name, info.offers)
  return info
}

/** Undefined: it is none, or has no members. */
function jsonIn(bytes: Uint8Array): { readonly format?: unknown } | undefined {
  try {
    return JSON.parse(new TextDecoder().decode(bytes)) ?? undefined
  } catch {
    return undefined
  }
}

/** Replies that were asked for beforehand. Each is used once. */
export class Heard {
  readonly #infos = new Map<string, Promise<Info>>()

  /** Asks a server as soon as `before` has resolved. Whoever calls `take` first gets the reply. */
  async ask(link: Link, signal: AbortSignal, before?: Promise<void>): Promise<Info> {
    const asked = link.meter.asking(async () => {
      await before
      return await infoOf(link, signal)
    })
    return await this.keep(link, asked)
  }

  keep({ server }: Link, info: Promise<Info>): Promise<Info> {
    this.#infos.set(server.name, info)
    return info
  }

  take({ server }: Link, _signal?: AbortSignal): Promise<Info> | undefined {
    const info = this.#infos.get(server.name)
    this.#infos.delete(server.name)
    return info
  }
}

/** The replies to the first questions. */
export interface Greeting {
  readonly heard: Heard
  /** the newest ones, by their server */
  readonly manifests: ReadonlyMap<string, Promise<Agreed>>
}

/**
 * Asks all servers the first questions at once, which need neither the core nor a stored state: for the newest manifest, and then what they
 * show and offer. What fails is asked for again.
 */
export function greet(links: Links, { pause }: Pick<Environment, 'pause'>, signal: AbortSignal): Greeting {
  const heard = new Heard()
  const manifests = new Map(links.map(link => [link.server.name, link.meter.asking(() => newestOf(link, signal))]))
  for (const manifest of manifests.values()) manifest.catch(() => {})
  const paused = pause() // a request takes a phone milliseconds to make
  for (const link of links) heard.ask(link, signal, paused).catch(() => {})
  return { heard, manifests }
}
