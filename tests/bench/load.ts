// A server under many clients at once: how many lookups it answers a second, and how long each takes. The requests are
// those of real clients, recorded; the same for a server that gives records away in plain.

import { Agent, request } from 'node:http'
import type { Proofs } from '@pirouette/protocol'

/** What is sent over and over, and how to tell whether the reply is right. */
export interface Load {
  readonly requests: readonly { readonly url: string; readonly body?: Uint8Array }[]
  /** throws if the reply to request `i` is wrong */
  readonly check: (i: number, reply: Buffer) => void
}

export interface LoadResult {
  readonly perSecond: number
  /** from sending a request to the end of its reply */
  readonly latencyMs: readonly number[]
}

/** Keeps `clients` requests under way, each on a connection of its own, for `seconds`. */
export async function putUnderLoad({ requests, check }: Load, clients: number, seconds: number): Promise<LoadResult> {
  const agent = new Agent({ keepAlive: true, maxSockets: clients })
  const latencyMs: number[] = []
  let next = 0
  const client = async (until: number) => {
    while (performance.now() < until) {
      const i = next++ % requests.length
      const start = performance.now()
      const reply = await exchange(agent, requests[i]!)
      latencyMs.push(performance.now() - start)
      check(i, reply)
    }
  }
  const run = async (milliseconds: number) => {
    const until = performance.now() + milliseconds
    await Promise.all(Array.from({ length: clients }, () => client(until)))
  }
  try {
    await run(500) // connections, and code that has run before
    latencyMs.length = 0
    const start = performance.now()
    await run(1000 * seconds)
    return { perSecond: (1000 * latencyMs.length) / (performance.now() - start), latencyMs }
  } finally {
    agent.destroy()
  }
}

function exchange(agent: Agent, { url, body }: Load['requests'][number]): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST'
    const sent = request(url, { agent, method, ...(body && { headers: { 'content-length': body.length } }) }, reply => {
      const chunks: Buffer[] = []
      reply.on('data', chunk => chunks.push(chunk))
      reply.on('error', reject)
      reply.on('end', () => {
        if (reply.statusCode === 200) resolve(Buffer.concat(chunks))
        else reject(new Error(`expected status 200, got ${reply.statusCode}`))
      })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** A lookup's two requests, as the SDK sent them. */
export type RecordedLookup = readonly { readonly url: string; readonly body: Uint8Array }[]

/** Lookups of random records by a client of these servers. */
export async function recordLookups(
  servers: [string, string],
  proofs: Proofs,
  count: number,
): Promise<RecordedLookup[]> {
  const { open } = await import('@pirouette/client')
  const recorded: { readonly url: string; readonly body: Uint8Array }[] = []
  const map = await open({
    servers,
    mode: 'full',
    proofs,
    storage: 'memory',
    fetch: (url, init) => {
      if (url.endsWith('/v1/answer')) recorded.push({ url, body: Uint8Array.from(init.body as Uint8Array) })
      return fetch(url, init)
    },
  })
  for (let i = 0; i < count; i++) await map.at(Math.floor(Math.random() * map.size))
  await map.close()
  return Array.from({ length: count }, (_, i) => recorded.slice(2 * i, 2 * i + 2))
}
