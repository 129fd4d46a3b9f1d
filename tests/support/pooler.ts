// A pooler before a real PostgreSQL server, as pgbouncer is: with `transaction` a connection to the server is a client's for one
// transaction, with `session` for as long as the client stays.

import { createServer, connect as dial, type Socket } from 'node:net'

const SSL_REQUEST = 80877103
const READY = 'Z'.charCodeAt(0)
const TERMINATE = 'X'.charCodeAt(0)
const IDLE = 'I'.charCodeAt(0)

export interface PoolerOptions {
  readonly mode: 'session' | 'transaction'
  /** which of the idle connections is taken: the one that was used last, or first */
  readonly takes: 'last' | 'first'
  /** connections to the server */
  readonly most: number
}

class Backend {
  owner: Socket | undefined
  /** all until it is ready for the first time */
  greeting = Buffer.alloc(0)
  readonly socket: Socket
  #rest = Buffer.alloc(0)

  constructor(port: number, startup: Buffer, onIdle: (backend: Backend) => void) {
    this.socket = dial(port, '127.0.0.1')
    this.socket.write(startup)
    this.socket.on('error', () => {})
    this.socket.on('close', () => this.owner?.destroy())
    let isGreeted = false
    this.socket.on('data', (bytes: Buffer) => {
      if (!isGreeted) this.greeting = Buffer.concat([this.greeting, bytes])
      this.owner?.write(bytes)
      if (!this.#isIdleAfter(bytes)) return
      isGreeted = true
      onIdle(this)
    })
  }

  /** Messages of the server have a byte of kind and their length. */
  #isIdleAfter(bytes: Buffer): boolean {
    this.#rest = Buffer.concat([this.#rest, bytes])
    let isIdle = false
    while (this.#rest.length >= 5 && this.#rest.length > this.#rest.readUInt32BE(1)) {
      isIdle = this.#rest[0] === READY && this.#rest[5] === IDLE
      this.#rest = this.#rest.subarray(1 + this.#rest.readUInt32BE(1))
    }
    return isIdle && this.#rest.length === 0
  }
}

/** Its port. */
export async function startPooler(
  target: number,
  { mode, takes, most }: PoolerOptions,
): Promise<{ port: number; close(): Promise<void> }> {
  const backends = new Set<Backend>()
  const idle: Backend[] = []
  const clients = new Set<Socket>()
  const waiting: { readonly client: Socket; readonly bytes: Buffer[] }[] = []
  let greeting: Buffer | undefined

  const lend = (): void => {
    while (idle.length > 0 && waiting.length > 0) {
      const { client, bytes } = waiting.shift()!
      if (client.destroyed) continue
      const backend = (takes === 'last' ? idle.pop() : idle.shift())!
      backend.owner = client
      for (const each of bytes) backend.socket.write(each)
    }
  }
  const isFree = (backend: Backend) => {
    greeting ??= backend.greeting
    if (mode === 'session' && backend.owner?.destroyed === false) return
    backend.owner = undefined
    idle.push(backend)
    lend()
  }
  const send = (client: Socket, bytes: Buffer) => {
    const own = [...backends].find(({ owner }) => owner === client)
    const turn = waiting.find(each => each.client === client)
    if (bytes[0] === TERMINATE) client.end()
    else if (own !== undefined) own.socket.write(bytes)
    else if (turn !== undefined) turn.bytes.push(bytes)
    else waiting.push({ client, bytes: [bytes] })
    lend()
  }
  const server = createServer(client => {
    clients.add(client)
    let isStarted = false
    client.on('error', () => {})
    client.on('close', () => {
      clients.delete(client)
      for (const backend of backends) if (mode === 'session' && backend.owner === client) isFree(backend)
    })
    client.on('data', (bytes: Buffer) => {
      if (isStarted) return send(client, bytes)
      if (bytes.readUInt32BE(4) === SSL_REQUEST) return void client.write('N')
      isStarted = true
      if (backends.size === most) return void client.write(greeting!)
      let isGreeted = false
      const onIdle = (backend: Backend) => {
        isFree(backend)
        if (!isGreeted) client.write(greeting!)
        isGreeted = true
      }
      backends.add(new Backend(target, bytes, onIdle))
    })
  })
  await new Promise<void>(resolve => void server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as { port: number }).port,
    async close() {
      for (const { socket } of backends) socket.destroy()
      for (const client of clients) client.destroy()
      await new Promise<void>(resolve => void server.close(() => resolve()))
    },
  }
}
