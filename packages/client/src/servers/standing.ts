// Which servers of a map were late, or broke off, when they were asked last, and what they offer. Those that were late are asked last,
// whatever is asked. The order follows from delays alone, never from what is asked.

import type { Info } from '@keyhush/protocol'
import type { Server } from './parties.js'

/** Anything of one server. */
interface OfServer {
  readonly server: Server
}

/** One for a map, on all its links. */
export class Standing {
  readonly #late = new Set<string>()
  /** by the server's name, as it said last */
  readonly offers = new Map<string, Info['offers']>()
  readonly #lookedAt = new Map<string, number>()

  isLate({ server }: OfServer): boolean {
    return this.#late.has(server.name)
  }

  /** How a server did when it was asked last. */
  note({ server }: OfServer, how: 'in time' | 'late'): void {
    if (how === 'late') this.#late.add(server.name)
    else this.#late.delete(server.name)
  }

  /** When a server was asked last what it shows, by any tab of which this one hears; milliseconds of the environment's clock. */
  lookedAt({ server }: OfServer): number {
    return this.#lookedAt.get(server.name) ?? 0
  }

  noteLook(link: OfServer, at: number): void {
    this.#lookedAt.set(link.server.name, Math.max(at, this.lookedAt(link)))
  }

  /** In the same order, but for those that were late, which come last. */
  order<L extends OfServer>(links: readonly L[]): L[] {
    return [...links.filter(link => !this.isLate(link)), ...links.filter(link => this.isLate(link))]
  }
}
