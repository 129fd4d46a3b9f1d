// The lasting connection of a process to its PostgreSQL database. It holds the writer's lock, and receives what other processes
// notify. If it breaks, another is made, however many attempts that takes.

import type { Client } from 'pg'

const PAUSE_MILLISECONDS = 500

/** A host that has vanished is noticed within half a minute, not after two hours. The database does not end what is idle. */
const LASTING =
  'SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; SET statement_timeout = 0; SET idle_session_timeout = 0'

export interface SessionOptions {
  readonly connect: () => Client
  /** called on every new connection; if it throws, that connection ends, and if it is the first, `open` throws */
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

  /** Calls `listener` with each message, and with '' whenever messages may have been missed. Returns unsubscribe. */
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
      if (this.#client !== client) return // `connect` fails below
      this.#client = undefined
      this.#later()
    }
    client.on('error', again)
    client.on('end', again)
    client.on('notification', ({ payload = '' }) => this.#tell(payload))
    try {
      await client.connect()
      await client.query(LASTING)
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
