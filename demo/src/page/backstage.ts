// What the page and the demo's own server exchange: where the two servers are, what they saw, which one lies, and what was
// published. The other end is src/node/page-server.ts.

export type ServerName = 'A' | 'B'

/**
 * What the proxy does to a server's answers: changes a byte, puts zeros for records, repeats the answer to an earlier question of
 * the same length, ends half-way, or sends nothing.
 */
export const LIES = ['byte', 'zeros', 'again', 'half', 'nothing'] as const
export type Lie = (typeof LIES)[number]

/** The demo's databases, in the order of their tabs. databases.ts has a row of words for each, node/data.ts a row of records. */
export const DATABASES = ['phishing', 'keys', 'passwords', 'names'] as const
export type DatabaseName = (typeof DATABASES)[number]

/** What the page needs to know of a database before it opens it. */
export interface Shape {
  /** M: an offset within a partition is below it */
  readonly partitionRecords: number
  /** Q·M. With q stripes, an offset is below the least power of two ≥ Q·M/q. */
  readonly slots: number
  /** by mode: bytes of bodies of all servers until a first answer, as the SDK computes them */
  readonly firstBytes: Readonly<Record<string, number>>
}

/** `GET /config.json` */
export interface Config {
  readonly servers: Readonly<Record<ServerName, string>>
  /** those that both servers have */
  readonly databases: Readonly<Partial<Record<DatabaseName, Shape>>>
  /** 64 hex digits. Without it the databases are not signed. */
  readonly publisherKey?: string
  readonly liar: { readonly server: ServerName; readonly lie: Lie } | null
  /** id of the last sighting of each server so far; 0: none */
  readonly seen: Readonly<Record<ServerName, number>>
  /** Proxies in front of the servers record what the servers see. If false, the page shows what it sent. */
  readonly watched: boolean
}

/** Body of `POST /publish`: a change of the phishing list. */
export interface Change {
  readonly op: 'add' | 'delete'
  readonly domain: string
}

/** One epoch of the phishing list. `GET /published.json` returns all epochs of this run, oldest first. */
export interface Published extends Change {
  readonly epoch: number
}

/** Reply to `POST /publish`. A refusal comes from a server, or, if `server` is null, from the publisher. */
export type Outcome =
  | { readonly published: Published }
  | { readonly refusals: readonly { readonly server: ServerName | null; readonly reason: string }[] }

/** Everything that one server learned from one query. */
export interface Sighting {
  /** counts one server's sightings, from 1 */
  readonly id: number
  /** the path the database is mounted at, e.g. `phishing` */
  readonly database: string
  /** milliseconds since 1970 */
  readonly at: number
  /** length of the request's body */
  readonly bytes: number
  /** its last 80 bytes were a claim for the rollback fence, which this server keeps */
  readonly claimed: boolean
  /** what `vectors` holds. Mode full: offsets; mode instant: bytes of keys; mode single: an offset in each stripe. */
  readonly of: 'offsets' | 'bytes' | 'stripes'
  /** length of each vector: Q, bytes of a key, or stripes */
  readonly columns: number
  /** one for each query of the batch */
  readonly vectors: readonly (readonly number[])[]
}

/** `GET /seen.json`: the latest sightings, oldest first */
export type Seen = Readonly<Record<ServerName, readonly Sighting[]>>

export const fetchConfig = () => getJson<Config>('config.json')
export const fetchSeen = () => getJson<Seen>('seen.json')
export const fetchPublished = () => getJson<readonly Published[]>('published.json')

/** `POST /liar`: which server lies from now on, and how; null: none. */
export async function setLiar(liar: Config['liar']): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch('liar', { method: 'POST', headers, body: JSON.stringify(liar) })
  if (!response.ok) throw new Error(`could not set the liar: ${response.status}`)
}

export const publish = (change: Change) =>
  getJson<Outcome>('publish', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(change),
  })

async function getJson<T>(path: string, init: RequestInit = {}): Promise<T> {
  const response = await fetch(path, init)
  if (!response.ok) throw new Error(`${path}: ${response.status}`)
  return (await response.json()) as T
}
