// What the page and the demo's own server exchange: where the servers are, which one lies, and what was published. The other
// end is src/node/page-server.ts.

/** Server C is for the page *Three servers*, and has the phishing list alone. */
export type ServerName = 'A' | 'B' | 'C'

/** The demo's databases. databases.ts has the words for each, node/data.ts the records. */
export const DATABASES = ['phishing', 'keys', 'names'] as const
export type DatabaseName = (typeof DATABASES)[number]

/** What the page needs to know of a database before it opens it. */
export interface Shape {
  readonly records: number
  /** by mode: bytes of bodies of all servers until a first answer, from the SDK's estimate */
  readonly firstBytes: Readonly<Record<string, number>>
}

/** `GET /config.json` */
export interface Config {
  readonly servers: Readonly<Record<'A' | 'B', string>> & { readonly C?: string }
  /** those that servers A and B have */
  readonly databases: Readonly<Partial<Record<DatabaseName, Shape>>>
  /** 64 hex digits. Without it the databases are not signed. */
  readonly publisherKey?: string
  /** The demo's own server is there: it makes a server lie, and publishes. */
  readonly hosted: boolean
}

/** Body of `POST /publish`: a change of the phishing list. */
export interface Change {
  readonly op: 'add' | 'delete'
  readonly domain: string
}

/** One epoch of the phishing list. `GET /published.json` returns all epochs of this run, oldest first. */
export interface Published extends Change {
  readonly epoch: number
  /** milliseconds since 1970 */
  readonly at: number
}

/** Whose key is watched on the page *Key directory*. */
export const OWNER = 'quiet-otter-17@example.org'

/** SHA-512 of this is the key of a name. */
export const seedOf = (name: string) => `keyhush demo key of ${name}`

/** Reply to `POST /publish`, `POST /key` and `POST /hide`. A refusal comes from a server, or, if `server` is null, from the publisher. */
export type Outcome<Done = Published> =
  | { readonly published: Done }
  | { readonly refusals: readonly { readonly server: ServerName | null; readonly reason: string }[] }

export const fetchConfig = () => getJson<Config>('config.json')
export const fetchPublished = () => getJson<readonly Published[]>('published.json')

/** `POST /liar`: which server lies from now on; null: none. */
export async function setLiar(liar: ServerName | null): Promise<void> {
  const response = await fetch('liar', posting(liar))
  if (!response.ok) throw new Error(`could not set the liar: ${response.status}`)
}

/** `POST /alone`: resolves when the server of *One server* answers. */
export async function prepareAlone(): Promise<void> {
  const response = await fetch('alone', posting(null))
  if (!response.ok) throw new Error(`the server did not start: ${await response.text()}`)
}

export const publish = (change: Change) => getJson<Outcome>('publish', posting(change))

/** `POST /key`: puts a false key in the place of the owner's; `false`: puts the owner's back. */
export const replaceKey = (byFalse: boolean) => getJson<Outcome<{ readonly epoch: number }>>('key', posting(byFalse))

/** `POST /hide`: puts a false key in the place of the owner's, and signs a list that says another key was changed. */
export const hideReplacement = () =>
  getJson<Outcome<{ readonly epoch: number; readonly auditor: string }>>('hide', posting(null))

/** How many passwords the list of *Check a password* has, and the one whose row is shown. */
export const BREACHED = 10_000
export const SHOWN_PASSWORD = '123456'

/** A record's bytes as a file has them. */
export interface StoredRow {
  readonly file: string
  /** where it begins in the file */
  readonly at: number
  readonly hex: string
}

/** Reply to `POST /breached`, once the servers and evaluators of *Check a password* answer. */
export interface Breached {
  readonly evaluationKey: string
  /** the row of SHOWN_PASSWORD, of the same list without `transform` */
  readonly plain: StoredRow
  /** the same row on the disk of server A */
  readonly sealed: StoredRow
}

export const prepareBreached = () => getJson<Breached>('breached', posting(null))

const posting = (body: unknown): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
})

async function getJson<T>(path: string, init: RequestInit = {}): Promise<T> {
  const response = await fetch(path, init)
  if (!response.ok) throw new Error(`${path}: ${response.status}`)
  return (await response.json()) as T
}
