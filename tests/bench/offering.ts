// Requests to one server, as many clients would send them: when they are
// due, whatever has become of those before, on a connection of their own while they are under way, as those of many clients
// do. They are written, and replies told apart, by as few instructions as may be, for whoever asks needs a processor too.

import { connect, type Socket } from 'node:net'
import { encodeQuery, type Manifest, type Proofs } from '@keyhush/protocol'

/** From when a request is due until its answer is there. */
const IN_TIME_MS = 1000
const MOST_CONNECTIONS = 4096

/** What is sent, and the answer to it. */
export interface Question {
  readonly request: Buffer
  readonly answer: Buffer
}

export interface Offered {
  /** of those due, each on a connection that nothing else was under way on, if there was one */
  readonly inTimePerSecond: number
  readonly late: number
  /** no answer at all, in the time there was; or no connection was left */
  readonly lost: number
}

export async function questionFor(url: string, manifest: Manifest, proofs: Proofs, count: number): Promise<Question> {
  const vectors = new Uint8Array(2 * count * manifest.partitions)
  const offsets = new DataView(vectors.buffer)
  for (let i = 0; i < vectors.length; i += 2) {
    offsets.setUint16(i, Math.floor(Math.random() * manifest.partitionRecords), true)
  }
  const body = encodeQuery(manifest, count, vectors, proofs)
  const reply = await fetch(`${url}/v1/answer`, { method: 'POST', body })
  if (reply.status !== 200) throw new Error(`expected status 200, got ${reply.status}`)
  return { request: requestOf(url, body), answer: Buffer.from(await reply.arrayBuffer()) }
}

/** A POST of `body` to a route of a server's, as it goes over the wire. */
export function requestOf(url: string, body: Uint8Array, route = '/v1/answer'): Buffer {
  const head = `POST ${route} HTTP/1.1\r\nHost: ${new URL(url).host}\r\nContent-Length: ${body.length}\r\n\r\n`
  return Buffer.concat([Buffer.from(head), body])
}

/** Requests a second, whatever becomes of them, or clients, each of which waits for its reply. */
type How = { readonly perSecond: number } | { readonly clients: number }

/** Asks a server for `milliseconds`, after a while that is not counted. Throws if a reply is wrong. */
export async function offer(
  url: string,
  questions: readonly Question[],
  { milliseconds, warmUpMs = 0, ...how }: { readonly milliseconds: number; readonly warmUpMs?: number } & How,
): Promise<Offered> {
  const { hostname, port } = new URL(url)
  const idle: Connection[] = []
  const all = new Set<Connection>()
  const tally = { sent: 0, inTime: 0, late: 0, refused: 0, lost: 0 }
  let failure: Error | undefined
  let over = false
  let chosen = 0
  const begun = performance.now()
  const ask = (due: number, next?: () => void) => {
    let connection = idle.pop()
    if (connection === undefined && all.size < MOST_CONNECTIONS) {
      connection = new Connection(connect(Number(port), hostname))
      all.add(connection)
    }
    const counts = due >= begun + warmUpMs
    if (counts) tally.sent++
    if (connection === undefined) {
      if (counts) tally.lost++
      return
    }
    const used = connection
    const question = questions[chosen++ % questions.length]!
    used.send(question, outcome => {
      if (outcome === 'gone') all.delete(used)
      else idle.push(used)
      if (over) return
      if (outcome === 'wrong') failure = new Error('a reply under load is neither the right answer nor a refusal')
      if (!counts) {
        next?.()
        return
      }
      if (outcome === 'gone') tally.lost++
      else if (outcome === 'refused') tally.refused++
      else if (performance.now() - due <= IN_TIME_MS) tally.inTime++
      else tally.late++
      next?.()
    })
  }
  const client = () => ask(performance.now(), client)
  if ('clients' in how) for (let i = 0; i < how.clients; i++) client()
  let asked = 0
  while (performance.now() - begun < warmUpMs + milliseconds && failure === undefined) {
    await new Promise(resolve => setTimeout(resolve, 2))
    if (!('perSecond' in how)) continue
    const due = ((performance.now() - begun) * how.perSecond) / 1000
    for (; asked < due; asked++) ask(begun + (1000 * asked) / how.perSecond)
  }
  const seconds = (performance.now() - begun - warmUpMs) / 1000
  over = true
  const { sent, inTime, late, refused, lost } = tally
  for (const connection of all) connection.close()
  if (failure !== undefined) throw failure
  const silent = Math.max(0, sent - inTime - late - refused - lost)
  return { inTimePerSecond: inTime / seconds, late, lost: lost + silent }
}

type Outcome = 'answered' | 'refused' | 'wrong' | 'gone'

/** One request at a time. */
class Connection {
  readonly #socket: Socket
  #question: Question | undefined
  #done: (outcome: Outcome) => void = () => {}
  /** of the reply; undefined: its head is still to come */
  #left: number | undefined
  #status = 0
  #isRight = true
  #head: Buffer = Buffer.alloc(0)

  constructor(socket: Socket) {
    this.#socket = socket
    socket.setNoDelay()
    socket.on('data', (chunk: Buffer) => this.#take(chunk))
    socket.on('error', () => {})
    socket.on('close', () => this.#end('gone'))
  }

  send(question: Question, done: (outcome: Outcome) => void): void {
    this.#question = question
    this.#done = done
    this.#left = undefined
    this.#isRight = true
    this.#head = Buffer.alloc(0)
    this.#socket.write(question.request)
  }

  close(): void {
    this.#socket.destroy()
  }

  #take(chunk: Buffer): void {
    const { answer } = this.#question!
    let body = chunk
    if (this.#left === undefined) {
      const head = this.#head.length === 0 ? chunk : Buffer.concat([this.#head, chunk])
      const end = head.indexOf('\r\n\r\n')
      if (end === -1) {
        this.#head = head
        return
      }
      this.#status = Number(head.toString('latin1', 9, 12))
      this.#left = Number(/\r\ncontent-length: (\d+)/i.exec(head.toString('latin1', 0, end))?.[1])
      if (this.#status === 200 && this.#left !== answer.length) this.#isRight = false
      body = head.subarray(end + 4)
    }
    if (this.#status === 200) {
      const at = answer.length - this.#left
      this.#isRight &&= body.equals(answer.subarray(at, at + body.length))
    }
    this.#left -= body.length
    if (this.#left > 0) return
    if (this.#status === 200) this.#end(this.#isRight ? 'answered' : 'wrong')
    else this.#end(this.#status === 503 ? 'refused' : 'wrong')
  }

  #end(outcome: Outcome): void {
    const done = this.#done
    this.#done = () => {}
    done(outcome)
  }
}
