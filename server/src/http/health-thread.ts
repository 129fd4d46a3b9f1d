// The thread that has health and figures: what they are the thread that answers everything else is asked, and while that is
// held (by a large batch, say, or a disk that hangs) this one says so by itself.

import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'

/** What the thread is started with. */
export interface HealthData {
  readonly host: string
  readonly port: number
  /** how long the other thread may take for a reply */
  readonly heldMilliseconds: number
  /** when the other thread was last seen: nanoseconds of the monotonic clock, one i64 */
  readonly beat: SharedArrayBuffer
  /** how often it is seen */
  readonly beatMilliseconds: number
}

/** What the other thread is asked. */
export interface HealthQuestion {
  readonly id: number
  readonly path: string
}

/** And what it says. */
export interface HealthReply {
  readonly id: number
  readonly status: number
  readonly type: string
  readonly body: string
}

/** As Node has it, of what failed: `syscall` and `address` among it. */
export type SystemError = Pick<NodeJS.ErrnoException, 'message' | 'code' | 'syscall'>

/** What the thread says first: where it listens, or why it cannot. */
export type Beginning = { readonly listening: AddressInfo } | SystemError

const { host, port, heldMilliseconds, beat, beatMilliseconds } = workerData as HealthData
const beats = new BigInt64Array(beat)

/** By path, of which one question at a time is under way, however many ask. */
const underWay = new Map<string, Promise<HealthReply | undefined>>()
const waiting = new Map<number, (reply: HealthReply) => void>()
let asked = 0
/** the figures as they were last known */
let known: HealthReply | undefined

parentPort!.on('message', (reply: HealthReply) => waiting.get(reply.id)?.(reply))

/** So that whoever reaches this port does not take the files that the process may open. */
const MOST_CONNECTIONS = 64

const server = createServer((request, response) => {
  const [path] = (request.url ?? '').split('?', 1) as [string]
  const isRead = request.method === 'GET' || request.method === 'HEAD'
  if (isRead && path === '/healthz') send(response, { status: 200, body: JSON.stringify({ status: 'running' }) })
  else if (isRead && path === '/readyz') void readiness(response)
  else if (isRead && path === '/metrics') void figures(response)
  else send(response, problem(404, 'not_found', 'there is nothing here'))
})
server.once('error', (error: NodeJS.ErrnoException) => {
  const beginning: Beginning = { ...error, message: error.message }
  parentPort!.postMessage(beginning)
})
server.maxConnections = MOST_CONNECTIONS
server.listen(port, host, () => {
  const beginning: Beginning = { listening: server.address() as AddressInfo }
  parentPort!.postMessage(beginning)
})

async function readiness(response: ServerResponse): Promise<void> {
  const reply = await ask('/readyz')
  send(response, reply ?? problem(503, 'not_ready', `not ready: event loop held for ${heldFor()} ms`))
}

/** Without the other thread, those that it had last; how long it has been held is always there, and always new. */
async function figures(response: ServerResponse): Promise<void> {
  const reply = await ask('/metrics')
  if (reply?.status === 200) known = reply
  const name = 'keyhush_event_loop_held_seconds'
  const held = `# HELP ${name} Since the thread that answers was last seen\n# TYPE ${name} gauge\n${name} ${heldFor() / 1000}\n`
  send(response, { status: 200, type: known?.type ?? 'text/plain', body: `${known?.body ?? ''}${held}` })
}

/** undefined: the other thread is held. */
function ask(path: string): Promise<HealthReply | undefined> {
  const before = underWay.get(path)
  if (before !== undefined) return before
  if (isHeld()) return Promise.resolve(undefined)
  const id = asked++
  const reply = new Promise<HealthReply | undefined>(resolve => {
    const timer = setTimeout(() => resolve(undefined), heldMilliseconds)
    waiting.set(id, reply => {
      clearTimeout(timer)
      resolve(reply)
    })
  }).finally(() => {
    waiting.delete(id)
    underWay.delete(path)
  })
  underWay.set(path, reply)
  const question: HealthQuestion = { id, path }
  parentPort!.postMessage(question)
  return reply
}

/** Whether the other thread has been away for so long already that nobody need ask it, or wait. */
function isHeld(): boolean {
  return heldFor() >= heldMilliseconds + beatMilliseconds
}

/** Milliseconds. */
function heldFor(): number {
  return Math.max(0, Math.round(Number(process.hrtime.bigint() - Atomics.load(beats, 0)) / 1e6))
}

function problem(status: number, code: string, message: string) {
  return { status, body: JSON.stringify({ code, message }) }
}

function send(response: ServerResponse, reply: { status: number; type?: string; body: string }): void {
  const { status, type = 'application/json; charset=utf-8', body } = reply
  const headers = { 'Content-Type': type, 'Content-Length': Buffer.byteLength(body), 'Cache-Control': 'no-store' }
  response.writeHead(status, headers).end(body)
}
