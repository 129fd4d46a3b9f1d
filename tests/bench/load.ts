// A server under many clients at once: how many lookups it answers a second, and how long each takes. The requests are
// those of real clients, recorded; the same for a server that gives records away in plain.

import { Agent, request } from 'node:http'
import type { KeyhushMap, OpenOptions } from '@keyhush/client'

/** What is sent over and over, and how to tell whether the reply is right. */
export interface Load {
  readonly requests: readonly { readonly url: string; readonly body?: Uint8Array }[]
  /** throws if the reply to request `i` is wrong */
  readonly check: (i: number, reply: Buffer) => void
}

export interface LoadResult {
  /** replies in all, those included that were asked for before the clock began */
  readonly answered: number
  readonly perSecond: number
  /** from sending a request to the end of its reply */
  readonly latencyMs: readonly number[]
  /** the same of each client */
  readonly ofEach: readonly (readonly number[])[]
}

/** Keeps `clients` requests under way, each on a connection of its own, for `seconds`. */
export async function putUnderLoad({ requests, check }: Load, clients: number, seconds: number): Promise<LoadResult> {
  const agent = new Agent({ keepAlive: true, maxSockets: clients })
  const ofEach: number[][] = Array.from({ length: clients }, () => [])
  let next = 0
  const client = async (latencyMs: number[], until: number) => {
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
    await Promise.all(ofEach.map(latencyMs => client(latencyMs, until)))
  }
  try {
    await run(500) // connections, and code that has run before
    const before = ofEach.reduce((sum, latencyMs) => sum + latencyMs.splice(0).length, 0)
    const start = performance.now()
    await run(1000 * seconds)
    const latencyMs = ofEach.flat()
    const perSecond = (1000 * latencyMs.length) / (performance.now() - start)
    return { answered: before + latencyMs.length, perSecond, latencyMs, ofEach }
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

/** A lookup's requests, as the SDK sent them, with the replies that it took. */
export type RecordedLookup = readonly {
  readonly url: string
  readonly body: Uint8Array
  readonly reply: Uint8Array
}[]

export const bodyBytes = (lookup: RecordedLookup): number =>
  lookup.reduce((sum, { body, reply }) => sum + body.length + reply.length, 0)

/** Lookups by a client of its own; of random records, unless it is said of what. */
export async function recordLookups(
  options: Omit<OpenOptions, 'fetch'>,
  count: number,
  lookUp: (map: KeyhushMap) => Promise<unknown> = map => map.at(Math.floor(Math.random() * map.size)),
): Promise<RecordedLookup[]> {
  const { open } = await import('@keyhush/client')
  let recorded: RecordedLookup[number][] = []
  const map = await open({
    ...options,
    push: false,
    fetch: async (url, init) => {
      const response = await fetch(url, init)
      if (init.method === 'POST' && /\/v1\/(answer|instant)$/.test(url)) {
        const reply = new Uint8Array(await response.clone().arrayBuffer())
        recorded.push({ url, body: Uint8Array.from(init.body as Uint8Array), reply })
      }
      return response
    },
  })
  const lookups: RecordedLookup[] = []
  for (let i = 0; i < count; i++) {
    recorded = []
    await lookUp(map)
    lookups.push(recorded)
  }
  await map.close()
  return lookups
}

/** The part of recorded lookups that went to one server, whose replies are to be as they were: a client has verified those. */
export function repliesAsBefore(recorded: readonly RecordedLookup[], server: string): Load {
  const requests = recorded.flat().filter(({ url }) => url.startsWith(`${server}/`))
  return {
    requests,
    check(i, reply) {
      if (!reply.equals(requests[i]!.reply)) throw new Error('a reply under load is another than the client had')
    },
  }
}
