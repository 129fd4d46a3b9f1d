// A storage in a PostgreSQL database, which processes on several hosts share: one that writes, by an advisory lock, and replicas.
// Transactions happen one after the other, and are durable (synchronous_commit) when they resolve.
//
// `pg` is loaded when a storage is opened, so that it is needed for this alone.

import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { Client, Pool, PoolClient, PoolConfig } from 'pg'
import { DatasetError, InUseError } from '../base/errors.js'
import { Session } from './postgres-session.js'
import { type Place, placeOf } from './postgres-url.js'
import { Draft, type Engine, type Storage, StorageError, type Transaction } from './storage.js'

const MOST_CONNECTIONS = 10
const QUERY_MILLISECONDS = 30_000

/** One statement writes at most so much, or a single value. */
const ROWS_TOGETHER = 64
const BYTES_TOGETHER = 4 * 1024 * 1024
const ROWS_READ_TOGETHER = 64

/** Whatever the database's defaults are: a commit is on disk, and after waiting for a lock a statement sees the latest rows. */
const OPTIONS = ['-c synchronous_commit=on', '-c default_transaction_isolation=read\\ committed']

/** `writer`: one process at a time, which alone has transactions */
export type Role = 'writer' | 'replica'

export interface PostgresStorage extends Storage {
  readonly engine: Engine
}

/**
 * Opens the storage in a schema of a database, or makes one: `postgres://user@host/database?schema=keyhush`, with the
 * password where PostgreSQL's own tools have it (PGPASSFILE, PGPASSWORD).
 * @throws {DatasetError} saying what to do, if it cannot be reached, does not keep what it was given, or another process writes there
 * @example
 * const storage = await openPostgres('postgres://keyhush@db.example/keyhush?schema=phishing')
 */
export async function openPostgres(url: string, { role = 'writer' }: { role?: Role } = {}): Promise<PostgresStorage> {
  const place = placeOf(url)
  const pg = await loaded(place.location)
  const config: PoolConfig = {
    application_name: `keyhush: process ${process.pid} on ${hostname()}`.slice(0, 63),
    ...place.config,
    query_timeout: QUERY_MILLISECONDS,
    keepAlive: true,
    options: [place.config.options, ...OPTIONS].join(' '),
  }
  const pool = new pg.Pool({ ...config, max: MOST_CONNECTIONS, Client: endingClient(pg) })
  // Idle connections that break: the pool makes others.
  pool.on('error', () => {})
  const storage = new SharedStorage(pool, place, role === 'writer')
  try {
    await storage.begin(() => new pg.Client(config))
    return storage
  } catch (error) {
    await storage.close()
    if (!(error instanceof StorageError)) throw error
    throw new DatasetError(place.location, `expected a database that opens, got: ${error.message}`)
  }
}

type Pg = typeof import('pg')['default']

/** For a pool, which leaves a connection that fails before it is ready to the server; that takes a minute to end it. */
function endingClient({ Client }: Pg): Pg['Client'] {
  return class extends Client {
    override connect(callback?: (error: never, client: never) => void): never {
      return super.connect((error: Error | null) => {
        if (error !== null) this.end().catch(() => {})
        callback?.(error as never, this as never)
      }) as never
    }
  }
}

async function loaded(location: string): Promise<Pg> {
  try {
    return (await import('pg')).default
  } catch {
    throw new DatasetError(location, 'expected the package `pg`, got none; npm install pg')
  }
}

/** What reads the entries in a schema. */
function readsOf(schema: string, query: Engine['query']): Pick<Storage, 'get' | 'entries' | 'count'> {
  return {
    async get(key) {
      const [row] = await query<{ value: Buffer }>(`SELECT value FROM ${schema}.entries WHERE key = $1`, [key])
      return row?.value
    },
    async *entries(prefix, after = prefix) {
      const end = `${prefix}\x7f`
      const text = `SELECT key, value FROM ${schema}.entries
        WHERE key >= $1 AND key > $2 AND key < $3 ORDER BY key LIMIT ${ROWS_READ_TOGETHER}`
      // A key that equals the prefix is one of them.
      for (let last = after === prefix ? '' : after; ; ) {
        const rows = await query<{ key: string; value: Buffer }>(text, [prefix, last, end])
        for (const { key, value } of rows) yield [key, value]
        if (rows.length < ROWS_READ_TOGETHER) return
        last = rows.at(-1)!.key
      }
    },
    async count(prefix) {
      const text = `SELECT count(*)::int AS count FROM ${schema}.entries WHERE key >= $1 AND key < $2`
      const [row] = await query<{ count: number }>(text, [prefix, `${prefix}\x7f`])
      return row!.count
    },
  }
}

class SharedStorage implements PostgresStorage {
  readonly location: string
  readonly engine: Engine
  readonly get: Storage['get']
  readonly entries: Storage['entries']
  readonly count: Storage['count']
  failure: string | undefined
  readonly #pool: Pool
  readonly #schema: string
  readonly #name: string
  readonly #writes: boolean
  #session: Session | undefined
  /** the process that has taken this writer's place */
  #usurper: string | undefined
  #closed: Promise<void> | undefined

  constructor(pool: Pool, { schema, location }: Place, writes: boolean) {
    this.#writes = writes
    this.#pool = pool
    this.location = location
    this.#schema = `"${schema}"`
    this.#name = schema
    const isUsurped = () => this.#usurper !== undefined
    this.engine = {
      schema: this.#schema,
      get usurped() {
        return isUsurped()
      },
      id: randomUUID(),
      query: async <Row>(text: string, values: readonly unknown[] = []) =>
        this.#noting(async () => (await this.#pool.query(text, [...values])).rows as Row[]),
      snapshot: work => this.#snapshot(work),
      notify: message => void this.#pool.query('SELECT pg_notify($1, $2)', [this.#channel, message]).catch(() => {}),
      listen: listener => this.#session!.listen(listener),
    }
    const { get, entries, count } = readsOf(this.#schema, this.engine.query)
    this.get = get
    this.entries = entries
    this.count = count
  }

  get #channel(): string {
    return `keyhush_${this.#name}`
  }

  async begin(connect: () => Client): Promise<void> {
    await this.#makeTables()
    this.#session = await this.#noting(() =>
      Session.open({ connect, channel: `"${this.#channel}"`, begin: client => this.#lock(client) }),
    )
  }

  /**
   * A pooler that gives connections to others between transactions would give them this session's locks, too. It gives a client
   * the connection that was used last or the one that has waited longest: the first would be the transaction's, the second another.
   */
  async #checkUnpooled(client: Client): Promise<void> {
    const [own, again] = [await processOf(client), await processOf(client)]
    const other = await this.#transaction('BEGIN', processOf)
    if (own === again && own !== other) return
    const reason =
      'expected a connection of its own, got one that a pooler gives to others between transactions; connect to PostgreSQL itself, or let the pooler pool sessions'
    throw new CalledOff(new DatasetError(this.location, reason))
  }

  /** Takes the writer's lock for as long as `client` is connected. */
  async #lock(client: Client): Promise<void> {
    if (this.#session === undefined) await this.#checkUnpooled(client)
    await client.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [`keyhush process ${this.engine.id}`])
    if (!this.#writes) return
    const name = `keyhush ${this.#name} writer`
    const { rows } = await client.query('SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS locked', [name])
    this.#usurper = rows[0].locked ? undefined : await holderOf(client, name)
    if (this.#usurper === undefined) return this.#takeOver(client)
    throw new CalledOff(new InUseError(this.location, `it is open already, by ${this.#usurper}; stop that first`))
  }

  /** Waits for what another process is writing; transactions that it begins later are called off. */
  async #takeOver(client: Client): Promise<void> {
    await client.query(`
      SELECT pg_advisory_xact_lock(hashtextextended('keyhush ${this.#name} entries', 0));
      INSERT INTO ${this.#schema}.writer VALUES (true, '${this.engine.id}') ON CONFLICT (one) DO UPDATE SET id = excluded.id`)
  }

  /** Makes the tables, if they are not there, of a database that keeps what it says it has kept. */
  async #makeTables(): Promise<void> {
    await this.#holding(async client => {
      await this.#checkDurable(client)
      const { rows } = await client.query(
        'SELECT to_regnamespace($1) IS NOT NULL AS schema, to_regclass($2) IS NOT NULL AS entries',
        [this.#schema, `${this.#schema}.entries`],
      )
      const { schema, entries } = rows[0]
      if (!schema) await client.query(`CREATE SCHEMA ${this.#schema}`)
      // No statement that waits for readers: a backup may read for hours, and all others would wait behind it.
      if (entries) return
      await client.query(`
        CREATE TABLE ${this.#schema}.entries (key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL);
        ALTER TABLE ${this.#schema}.entries ALTER COLUMN value SET STORAGE EXTERNAL;
        CREATE TABLE ${this.#schema}.writer (one boolean PRIMARY KEY CHECK (one), id text NOT NULL)`)
    })
  }

  async #checkDurable(client: PoolClient): Promise<void> {
    const ways = {
      fsync: 'set fsync = on in its configuration',
      full_page_writes: 'set full_page_writes = on in its configuration',
      data_checksums: 'stop it, run pg_checksums --enable, and start it: a flipped bit must not go unnoticed',
      synchronous_commit: 'let the pooler pass `options` on, or connect to PostgreSQL itself', // OPTIONS has it
    }
    for (const [setting, way] of Object.entries(ways)) {
      const { rows } = await client.query('SELECT current_setting($1) AS value', [setting])
      const { value } = rows[0]
      if (value === 'on') continue
      throw new CalledOff(
        new DatasetError(this.location, `expected ${setting} = on, got ${setting} = ${value}; ${way}`),
      )
    }
  }

  transact<T>(keys: readonly string[], work: (transaction: Transaction) => T): Promise<T> {
    return this.#holding(async client => {
      if (!this.#writes) throw new CalledOff(new Error('a replica writes nothing; publish to the writer'))
      const { rows: writers } = await client.query(`SELECT id FROM ${this.#schema}.writer`)
      if (this.#usurper !== undefined || writers[0]?.id !== this.engine.id)
        throw new CalledOff(new StorageError('EBUSY', `${this.#usurper ?? 'another process'} writes to this store now`))
      const there = new Map<string, Uint8Array>()
      if (keys.length > 0) {
        const text = `SELECT key, value FROM ${this.#schema}.entries WHERE key = ANY($1)`
        const { rows } = await client.query<{ key: string; value: Buffer }>(text, [keys])
        for (const { key, value } of rows) there.set(key, value)
      }
      const draft = new Draft(keys, key => there.get(key))
      let result: T
      try {
        result = work(draft)
      } catch (error) {
        throw new CalledOff(error)
      }
      await this.#write(client, draft.writes)
      return result
    })
  }

  async #write(client: PoolClient, writes: ReadonlyMap<string, Uint8Array | undefined>): Promise<void> {
    const removed = [...writes].filter(([, value]) => value === undefined).map(([key]) => key)
    if (removed.length > 0) await client.query(`DELETE FROM ${this.#schema}.entries WHERE key = ANY($1)`, [removed])
    let together: unknown[] = []
    let bytes = 0
    const flush = async () => {
      if (together.length === 0) return
      const rows = Array.from({ length: together.length / 2 }, (_, i) => `($${2 * i + 1}, $${2 * i + 2})`)
      await client.query(
        `INSERT INTO ${this.#schema}.entries VALUES ${rows.join()} ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
        together,
      )
      together = []
      bytes = 0
    }
    for (const [key, value] of writes) {
      if (value === undefined) continue
      if (together.length >= 2 * ROWS_TOGETHER || bytes + value.length > BYTES_TOGETHER) await flush()
      together.push(key, Buffer.from(value.buffer, value.byteOffset, value.length))
      bytes += value.length
    }
    await flush()
  }

  close(): Promise<void> {
    this.#closed ??= (async () => {
      await this.#session?.close()
      await this.#pool.end()
    })()
    return this.#closed
  }

  #snapshot<T>(work: (storage: Storage) => Promise<T>): Promise<T> {
    return this.#transaction('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY', async client => {
      const query = async <Row>(text: string, values: readonly unknown[] = []) =>
        client.query(text, [...values]).then(
          ({ rows }) => rows as Row[],
          (error: unknown) => Promise.reject(this.#failed(error)),
        )
      return await work({
        ...readsOf(this.#schema, query),
        location: this.location,
        failure: undefined,
        transact: () => Promise.reject(new Error('expected reads, got a transaction; a snapshot is read-only')),
        close: async () => {},
      }).catch((error: unknown) => Promise.reject(error instanceof StorageError ? error : new CalledOff(error)))
    })
  }

  /** Runs `work` in a transaction of the database, while no other of this storage runs anywhere. */
  #holding<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    return this.#transaction('BEGIN', async client => {
      await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`keyhush ${this.#name} entries`])
      return await work(client)
    })
  }

  #transaction<T>(begin: string, work: (client: PoolClient) => Promise<T>): Promise<T> {
    return this.#noting(async () => {
      const client = await this.#pool.connect()
      let broken: Error | undefined
      try {
        await client.query(begin)
        const result = await work(client)
        await client.query('COMMIT')
        return result
      } catch (error) {
        if (error instanceof CalledOff) await client.query('ROLLBACK')
        else broken = error as Error
        throw error
      } finally {
        client.release(broken) // of a connection in doubt nothing more is asked
      }
    })
  }

  /** Makes StorageErrors of what fails in the database, or on the way there. */
  async #noting<T>(work: () => Promise<T>): Promise<T> {
    try {
      const result = await work()
      this.failure = undefined
      return result
    } catch (error) {
      if (error instanceof CalledOff) throw error.reason
      const failed = error instanceof StorageError ? error : this.#failed(error)
      this.failure = failed.message
      throw failed
    }
  }

  #failed(error: unknown): StorageError {
    const code = codeOf(error)
    const named = code === UNKNOWN ? '' : ` (${code})`
    const what = WORDS[code] ?? saidBy(error) ?? 'it does not answer, or refuses; see its log'
    return new StorageError(code, `the store at ${this.location} cannot be used${named}: ${what}`, 'away')
  }
}

/** The server's process that answers this connection. */
async function processOf(client: Pick<Client, 'query'>): Promise<number> {
  return (await client.query('SELECT pg_backend_pid() AS pid')).rows[0].pid
}

/** The process that has an advisory lock, for people: it has named itself. */
async function holderOf(client: Client, name: string): Promise<string> {
  const { rows } = await client.query(
    `SELECT a.application_name AS name, coalesce(host(a.client_addr), 'its own host') AS host, to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS since
     FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
     WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
       AND (l.classid::bigint << 32) | l.objid::bigint = hashtextextended($1, 0)`,
    [name],
  )
  const line = rows.map(row => `${row.name} (from ${row.host}) since ${row.since}`)[0] ?? ''
  return /^[\x20-\x7e]{1,200}$/.test(line) ? line : 'another process'
}

/** Ends a transaction for a reason that is not the database's. */
class CalledOff extends Error {
  readonly reason: unknown

  constructor(reason: unknown) {
    super('called off')
    this.reason = reason
  }
}

const NO_AUTHORITY =
  'its certificate is of no authority that is known here; name the file of its authority with sslrootcert= in --store'

/** What is wrong, and what to do, by SQLSTATE or the system's name. */
const WORDS: Readonly<Record<string, string>> = {
  '08P01': 'it, or a pooler before it, does not take a setting; connect to PostgreSQL itself',
  '25006': 'it is read-only, like a standby; name the primary server',
  '28000': 'it refuses this user; create the role, and allow it in pg_hba.conf',
  '28P01':
    'the password is wrong or missing; put it into PGPASSWORD, or into the file that PGPASSFILE names, of mode 0600, with a line for this host, port, database and role',
  '3D000': 'it has no such database; create it with createdb, or correct the name in --store',
  '42501': 'the role lacks permission; let it own the schema, or create one in the database',
  '42601': 'it does not know a statement; use PostgreSQL 15 or later',
  '53100': 'its disk is full; free some space there',
  '53300': 'it has no connection left; raise max_connections: each process takes up to 11',
  '57P01': 'it is stopping; start it again',
  '57P03': 'it is starting or stopping; try again in a moment',
  CERT_HAS_EXPIRED: 'its certificate has expired; renew it',
  DEPTH_ZERO_SELF_SIGNED_CERT: NO_AUTHORITY,
  ECONNREFUSED: 'nothing listens there; start PostgreSQL, or correct host and port in --store',
  ECONNRESET: 'the connection broke; check that PostgreSQL runs',
  ENOENT: 'there is no socket; start PostgreSQL, or correct the folder and port in --store',
  ENOTFOUND: 'its host name is unknown; correct the host in --store',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate has other host names; correct the host in --store',
  ETIMEDOUT: 'it does not answer in time; check that it runs and can be reached',
  SELF_SIGNED_CERT_IN_CHAIN: NO_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: NO_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: NO_AUTHORITY,
}

const UNKNOWN = 'unknown'

/** What the system or `pg` says. The server's messages may quote values and are not repeated. */
function saidBy(error: unknown): string | undefined {
  if (!(error instanceof Error) || 'severity' in error || error instanceof TypeError) return undefined
  return error.message === '' ? undefined : error.message
}

/** SQLSTATE, or the system's name. */
function codeOf(error: unknown): string {
  const { code, message = '' } = error as { code?: unknown; message?: string }
  if (typeof code === 'string' && /^[A-Z0-9_]{1,40}$/.test(code)) return code
  if (/timeout/i.test(message)) return 'ETIMEDOUT'
  if (/terminated/i.test(message)) return 'ECONNRESET'
  if (/does not support SSL/.test(message)) return 'it offers no TLS'
  if (/^SASL: .*password must be/.test(message)) return '28P01' // no password was found
  return UNKNOWN
}
