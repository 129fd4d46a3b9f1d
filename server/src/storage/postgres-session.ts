// The one connection of a process to its PostgreSQL database that lasts: it holds the writer's lock, as long as it is there and
// no longer, and hears what other processes say. When it breaks another is made, for as long as it takes.

import type { Client } from 'pg'

const PAUSE_MILLISECONDS = 500

/** A host that has vanished is noticed within half a minute, not after two hours. */
const KEEPALIVE =
  'SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; SET statement_timeout = 0'

export interface SessionOptions {
  readonly connect: () => Client
  /** done anew on every connection; what it throws ends that one, and the first one for good */
  readonly begin: (client: Client) => Promise<void>
  /** quoted */
  readonly channel: string
}

export class Session {
  readonly #options: SessionOptions
  readonly #listeners = new Set<(message: string) => void>()
  #client: Client | undefined
  #timer: NodeJS.Timeout | undefined
  #closed = false

  private constructor(options: SessionOptions) {
    this.#options = options
  }

  /** Throws what connecting, or `begin`, throws. */
  static async open(options: SessionOptions): Promise<Session> {
    const session = new Session(options)
    await session.#connect()
    return session
  }

  /** `listener` is told what others say, and '' whenever something may have been missed. Returns how to end that. */
  listen(listener: (message: string) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    await this.#client?.end().catch(() => {})
  }

  async #connect(): Promise<void> {
    const client = this.#options.connect()
    let isBroken = false
    const again = () => {
      if (isBroken) return
      isBroken = true
      if (this.#client !== client) return // it is this very connecting that fails
      this.#client = undefined
      this.#later()
    }
    client.on('error', again)
    client.on('end', again)
    client.on('notification', ({ payload = '' }) => this.#tell(payload))
    try {
      await client.connect()
      await client.query(KEEPALIVE)
      await this.#options.begin(client)
      await client.query(`LISTEN ${this.#options.channel}`)
      if (isBroken) throw new Error('Connection terminated')
    } catch (error) {
      isBroken = true
      await client.end().catch(() => {})
      throw error
    }
    this.#client = client
    if (this.#closed) await client.end().catch(() => {})
    this.#tell('')
  }

  #later(): void {
    if (this.#closed) return
    this.#timer = setTimeout(() => this.#connect().catch(() => this.#later()), PAUSE_MILLISECONDS)
  }

  #tell(message: string): void {
    for (const listener of this.#listeners) listener(message)
  }
}
