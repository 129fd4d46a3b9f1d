// What only the demo's own server can tell the page, or do for it: where the two servers are, what they saw, who is
// lying, and what was published. The other end is src/node/page-server.ts.

export type ServerName = 'A' | 'B'

/**
 * What becomes of a server's answers on their way: a byte is changed, records are zeros, the answer to an earlier question of the
 * same length comes again, it ends half-way, or does not come.
 */
export const LIES = ['byte', 'zeros', 'again', 'half', 'nothing'] as const
export type Lie = (typeof LIES)[number]
/** `names`: only if the demo was started with it; `own`: the visitor's, in this page alone */
export type DatabaseName = 'phishing' | 'keys' | 'passwords' | 'names' | 'own'

/** `GET /config.json` */
export interface Config {
  readonly servers: Readonly<Record<ServerName, string>>
  /** M of each database: offsets are below it */
  readonly partitionRecords: Readonly<Partial<Record<DatabaseName, number>>>
  /** Q·M of each: with q stripes, offsets are below the least power of two that is not below Q·M/q */
  readonly slots: Readonly<Partial<Record<DatabaseName, number>>>
  /** of each, by mode: bytes of bodies until a first answer, as the SDK computes them */
  readonly firstBytes: Readonly<Partial<Record<DatabaseName, Readonly<Record<string, number>>>>>
  /** 64 hex digits; without it nobody signs */
  readonly publisherKey?: string
  readonly liar: { readonly server: ServerName; readonly lie: Lie } | null
  /** id of the last sighting of each server so far; 0: none */
  readonly seen: Readonly<Record<ServerName, number>>
  /** whether something in front of the servers tells what they see; else the page says what it has sent */
  readonly watched: boolean
}

/** Body of `POST /publish`: what is to become of the phishing list. */
export interface Change {
  readonly op: 'add' | 'delete'
  readonly domain: string
}

/** One epoch of the phishing list. `GET /published.json`: all of this run, oldest first */
export interface Published extends Change {
  readonly epoch: number
}

/** Reply to `POST /publish`: both servers have it, or why not. server: who says so; null: the publisher itself */
export type Outcome =
  | { readonly published: Published }
  | { readonly refusals: readonly { readonly server: ServerName | null; readonly reason: string }[] }

/** All that one server learned from one query. */
export interface Sighting {
  /** counts one server's sightings, from 1 */
  readonly id: number
  /** the path the database is mounted at, e.g. `phishing` */
  readonly database: string
  /** milliseconds since 1970 */
  readonly at: number
  /** length of the request's body */
  readonly bytes: number
  /** whether its last 80 bytes were a claim, for the rollback fence that this server keeps */
  readonly claimed: boolean
  /** what stands in `vectors`: offsets, or of an instant lookup the bytes of keys; of one with one server an offset a stripe */
  readonly of: 'offsets' | 'bytes' | 'stripes'
  /** Q, bytes of a key, or stripes: the length of each vector */
  readonly columns: number
  /** one for each query of the batch */
  readonly vectors: readonly (readonly number[])[]
}

/** `GET /seen.json`: the latest sightings, oldest first */
export type Seen = Readonly<Record<ServerName, readonly Sighting[]>>

export const fetchConfig = () => getJson<Config>('config.json')
export const fetchSeen = () => getJson<Seen>('seen.json')
export const fetchPublished = () => getJson<readonly Published[]>('published.json')

/** `POST /liar`, `{ "server": "A" | "B", "lie": … }` or `null`: who lies from now on, and how. */
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
