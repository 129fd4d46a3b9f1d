// A phone's line to one server, which breaks when the phone goes offline or has another address.

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

interface Connection {
  readonly near: Socket
  readonly far: Socket
  /** of events */
  isStream: boolean
}

export class Line {
  isOffline = false
  readonly #connections = new Set<Connection>()
  readonly #server = createServer(near => this.#join(near))

  private constructor(readonly target: URL) {}

  /** `target`: a server's URL. */
  static async start(target: string): Promise<Line> {
    const line = new Line(new URL(target))
    await once(line.#server.listen(0, '127.0.0.1'), 'listening')
    return line
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** All connections break. `silently`: the phone is not told of it on streams of events, and nothing comes any more. */
  cut(silently = false): void {
    for (const { near, far, isStream } of this.#connections) {
      if (silently && isStream) far.unpipe(near)
      else near.resetAndDestroy()
      far.destroy()
    }
  }

  async close(): Promise<void> {
    this.cut()
    for (const { near } of this.#connections) near.destroy()
    await once(this.#server.close(), 'close')
  }

  #join(near: Socket): void {
    if (this.isOffline) {
      near.resetAndDestroy()
      return
    }
    const far = connect(Number(this.target.port), this.target.hostname)
    const connection = { near, far, isStream: false }
    this.#connections.add(connection)
    near.on('data', bytes => {
      connection.isStream ||= bytes.includes('/v1/events')
    })
    near.pipe(far).pipe(near)
    near.on('error', () => {}) // as it closes
    far.on('error', () => near.destroy())
    near.on('close', () => {
      this.#connections.delete(connection)
      far.destroy()
    })
  }
}
