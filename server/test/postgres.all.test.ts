// PostgreSQL as a server's storage, on a real server: the laws of every storage and every fence, and what is this one's own.
// `npm test` leaves to `npm run test:all` what takes longer than a moment, or begins another server.

import { chmod, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer as createListener, connect as dial } from 'node:net'
import { join } from 'node:path'
import { decodeFenceReply, type FenceRequest } from '@keyhush/protocol'
import pg from 'pg'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { NEEDS_LINUX } from '../../tests/support/needs.js'
import { type PoolerOptions, startPooler } from '../../tests/support/pooler.js'
import { PostgresServer, queryStore, storeAt } from '../../tests/support/postgres.js'
import { THOROUGH } from '../../tests/support/thorough.js'
import { thoroughly } from '../../tests/support/thoroughly.js'
import { usePostgres } from '../../tests/support/use-postgres.js'
import type { FenceOptions } from '../dist/database/fence.js'
import { PostgresFence } from '../dist/database/postgres-fence.js'
import { DatasetError, UpdatableDatabase } from '../dist/index.js'
import { openPostgres, type PostgresStorage } from '../dist/storage/postgres.js'
import { placeOf } from '../dist/storage/postgres-url.js'
import { StorageError } from '../dist/storage/storage.js'
import { conformance } from '../dist/testing/storage.js'
import { asking, FENCE_LAWS } from './fence-laws.js'
import {
  builtDirectory,
  createIn,
  fenceRequest,
  post,
  pseudoRandom,
  queryAt,
  running,
  temporaryDirectory,
} from './helpers.js'
import { batchOn } from './updatable-helpers.js'

const postgres = usePostgres()
const storeUrl = postgres.store

async function opened(url = storeUrl(), role: 'writer' | 'replica' = 'writer'): Promise<PostgresStorage> {
  const storage = await openPostgres(url, { role })
  onTestFinished(() => storage.close())
  return storage
}

const DAY_SECONDS = 86_400
const REQUEST = new Uint8Array(32).fill(7)

test.each(conformance)('$name', async ({ run }) => run(await opened()))

describe('the fence', () => {
  test.each(FENCE_LAWS.filter(({ name }) => THOROUGH || name.includes('processes')))('$name', async ({ run }) => {
    const url = storeUrl()
    await run(async options => PostgresFence.open((await opened(url, 'replica')).engine, options))
  })

  // The suite itself: processes that do not wait for one another are found out.
  thoroughly(
    'of many that ask processes of their own, one is granted: a fence where two are is found out',
    async () => {
      const url = storeUrl()
      const { run } = FENCE_LAWS.find(({ name }) => name.startsWith('of many that ask processes'))!
      const mutated = run(async options => {
        const fence = await PostgresFence.open((await opened(url, 'replica')).engine, options)
        const [{ text }] = (await queryStore(
          url,
          `SELECT pg_get_functiondef(oid) AS text FROM pg_proc WHERE proname = 'fence_judge' AND pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'schema.fence'::regclass)`,
        )) as [{ text: string }]
        const mutant = text
          .replace(/PERFORM pg_advisory_xact_lock.*/, '')
          .replace(`verdict := 'refused';`, `PERFORM pg_sleep(0.02); verdict := 'refused';`)
        expect(mutant.length).not.toBe(text.length)
        await queryStore(url, mutant)
        return fence
      })
      await expect(mutated).rejects.toMatchObject({ name: 'AssertionError' })
    },
  )

  test('removes what is over, many at a time, and nothing else', async () => {
    const url = storeUrl()
    let seconds = 0
    const { engine } = await opened(url)
    const options: FenceOptions = { days: 8, now: () => 20_000 * DAY_SECONDS, elapsed: () => seconds }
    await PostgresFence.open(engine, options)
    // Those of two days in five are over.
    await queryStore(
      url,
      `INSERT INTO schema.fence SELECT decode(lpad(to_hex(i), 8, '0') || repeat('0', 24), 'hex'), 19990 + i % 5, 1, decode(repeat('00', 32), 'hex'), NULL
       FROM generate_series(1, 5000) AS i`,
    )
    const fence = await PostgresFence.open(engine, options)
    const ask = asking(fence)
    const left: number[] = []
    for (const id of [9001, 9002, 9003]) {
      seconds += 2
      expect(await ask('register', id)).toBe('granted')
      left.push(fence.hints)
    }
    expect(left).toEqual([4001, 3002, 3003])
    expect(await queryStore(url, 'SELECT count(*)::int AS left, min(day) FROM schema.fence')).toEqual([
      { left: 3003, min: 19_992 },
    ])
    expect([await ask('confirm', 2, 1), await ask('confirm', 1, 1), await ask('confirm', 5, 1)]).toEqual([
      'granted',
      'refused',
      'refused',
    ])
  })

  test('another process whose calendar has jumped moves the days on for all, once', async () => {
    const { engine } = await opened()
    const at = (day: number): FenceOptions => ({ days: 20, now: () => day * DAY_SECONDS, elapsed: () => 0 })
    const ask = asking(await PostgresFence.open(engine, at(20_000)))
    expect([await ask('register', 1), await ask('confirm', 1)]).toEqual(['granted', 'granted'])
    await PostgresFence.open(engine, at(29_000))
    await PostgresFence.open(engine, at(29_000))
    expect(await ask('confirm', 1)).toBe('refused') // 30 days are more than 20
    expect([await ask('register', 2), await ask('confirm', 2)]).toEqual(['granted', 'granted'])
    await PostgresFence.open(engine, at(29_010))
    expect(await ask('confirm', 2)).toBe('granted')
    const [clock] = await engine.query(`SELECT day, calendar FROM ${engine.schema}.fence_clock`)
    expect(clock).toEqual({ day: 20_040, calendar: 29_010 })
  })

  thoroughly('forgets in hours what was never confirmed, by the database’s clock', async () => {
    const url = storeUrl()
    const { engine } = await opened(url)
    let seconds = 0
    const fence = await PostgresFence.open(engine, { elapsed: () => seconds })
    const ask = asking(fence)
    for (const id of [1, 2, 3]) expect(await ask('register', id)).toBe('granted')
    expect(await ask('confirm', 1)).toBe('granted')
    await queryStore(url, 'UPDATE schema.fence SET since = since - 6 * 3600 - 60 WHERE get_byte(hint, 3) = 2')
    expect([await ask('confirm', 1), await ask('confirm', 2), await ask('confirm', 3)]).toEqual([
      'granted',
      'refused',
      'granted',
    ])
    seconds += 2
    expect(await ask('register', 4)).toBe('granted')
    expect(fence.hints).toBe(3)
    expect(await queryStore(url, 'SELECT count(since)::int AS new FROM schema.fence')).toEqual([{ new: 1 }])
  })
})

describe('one process at a time writes', () => {
  test('and a second one is told which; who only reads may come as well, and writes nothing', async () => {
    const url = storeUrl()
    const storage = await opened(url)
    const second = await openPostgres(url).catch((error: unknown) => error)
    expect(second).toBeInstanceOf(DatasetError)
    expect((second as Error).message).toMatch(`it is open already, by keyhush: process ${process.pid} on `)
    const replica = await opened(url, 'replica')
    await storage.transact([], transaction => transaction.put('a', Uint8Array.of(1)))
    expect(Uint8Array.from((await replica.get('a'))!)).toEqual(Uint8Array.of(1))
    await expect(replica.transact([], () => {})).rejects.toThrow('a replica writes nothing')
    await storage.close()
    await storage.close() // does no harm
    await (await opened(url)).transact([], transaction => transaction.put('a', Uint8Array.of(2)))
  })

  test('while it is connected: who comes meanwhile has it, and the first one writes nothing more, even before it notices', async () => {
    const url = storeUrl()
    const first = await opened(url)
    const name = new URL(url).searchParams.get('schema')!
    // The session alone: the connections that transactions use stay.
    const disconnect = () =>
      queryStore(
        url,
        `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
          AND (classid::bigint << 32) | objid::bigint = hashtextextended('keyhush ${name} writer', 0)`,
      )
    const put = (storage: PostgresStorage, value: number) =>
      storage.transact([], transaction => transaction.put('a', Uint8Array.of(value)))
    const missed = new Promise<void>(resolve => first.engine.listen(message => message === '' && resolve()))
    await disconnect()
    await missed
    await put(first, 1) // alone again it has taken the lock up again
    // Another one is quicker, sooner or later.
    let second: PostgresStorage | undefined
    while (second === undefined) {
      await disconnect()
      second = await opened(url).catch(() => undefined)
    }
    await put(second, 2)
    await expect(put(first, 1)).rejects.toMatchObject({ code: 'EBUSY' })
    expect([...(await second.get('a'))!]).toEqual([2])
    await expect(openPostgres(url)).rejects.toThrow('it is open already')
  })
})

/** A server on this machine. */
async function ownServer(): Promise<PostgresServer> {
  const server = postgres.own() ?? (await PostgresServer.begin())
  if (server !== postgres.own()) onTestFinished(() => server.remove())
  return server
}

/** A new store, by way of a pooler and without. */
async function pooled(options: PoolerOptions): Promise<{ url: string; direct: string }> {
  const direct = storeAt((await ownServer()).url)
  const url = new URL(direct)
  const pooler = await startPooler(Number(url.port), options)
  onTestFinished(() => pooler.close())
  url.port = String(pooler.port)
  return { url: url.href, direct }
}

describe('a database that is used', () => {
  test.each<readonly [string, RegExp]>([
    ['postgres://user:hunter2@127.0.0.1/x', /PGPASSFILE/],
    ['postgres://user@127.0.0.1/x?password=hunter2', /PGPASSFILE/],
    ['postgres://user@127.0.0.1/x?schema=a"b', /expected a schema/],
    ['postgres:// nowhere', /expected postgres:/],
    ['postgres://a.example:1,b.example:2/x?target_session_attrs=any', /expected one host/],
    ['postgres://user@/x?host=a.example,b.example', /expected one host/],
    ['host=127.0.0.1 dbname=x password=hunter2', /expected postgres:/],
    ['postgres://127.0.0.1/x?channel_binding=require', /got channel_binding/],
    ['postgres://127.0.0.1/x?hunter2@x=1', /got another/],
    ['postgres://127.0.0.1/x?sslmode=none', /sslmode/],
    ['postgres://127.0.0.1/x?sslnegotiation=hunter2', /expected sslnegotiation to be one of postgres, direct, got/],
    ['postgres://db.example/x?sslrootcert=/none.pem', /sslrootcert, got none that can be read \(ENOENT\)/],
    ['postgres://%zz/x', /expected postgres:/],
    ['postgres://127.0.0.1/x?user=%zz', /expected postgres:/],
    ['postgres://127.0.0.1:65536/x', /expected a port from 1 to 65535/],
    ['postgres://127.0.0.1/x?port=0', /expected a port from 1 to 65535/],
    ['postgres://127.0.0.1/x?connect_timeout=99999999', /expected connect_timeout to be from 1 to 3600 seconds/],
    ['postgres://127.0.0.1/x?connect_timeout=0', /expected connect_timeout/],
    ['postgres://127.0.0.1:hunter2/x', /expected postgres:/],
    ['postgres://user:hunter2@hunter2@127.0.0.1/x', /PGPASSFILE/],
    // What was meant to have a password.
    ...[
      'postgres:user:hunter2@127.0.0.1/x',
      'postgres:/user:hunter2@127.0.0.1/x',
      'postgres://127.0.0.1:1/hunter2@127.0.0.1/x',
      'postgres://user:1/hunter2@127.0.0.1/x',
      'postgres://hunter2#more@127.0.0.1/x',
      'postgres://u@127.0.0.1:1/x?dbname=postgres://u:hunter2@h/x',
      'postgres://127.0.0.1/x?host=u:hunter2@127.0.0.1',
      'postgres://127.0.0.1/x?host=u:hunter2',
      'postgres://u%3Ahunter2%40h/x',
      'postgres://127.0.0.1/u%3Ahunter2%40h',
    ].map(url => [url, /expected postgres:/] as const),
    ['postgres://user@127.0.0.1:1/x', /expected a database that opens, got: .*ECONNREFUSED/],
    ['postgres://user@/x?host=/none', /\(ENOENT\): there is no socket/],
    ['postgres://user@127.0.0.1/x?sslnegotiation=direct', /cannot be used: sslnegotiation=direct requires SSL/],
  ])('%s is refused, and nothing secret is repeated', async (url, reason) => {
    const error = await openPostgres(url).catch((error: unknown) => error)
    expect(error).toBeInstanceOf(DatasetError)
    expect((error as Error).message).toMatch(reason)
    expect((error as Error).message).not.toMatch(/hunter2|user@127/)
  })

  test('has its place in each form that libpq knows for one host', async () => {
    vi.stubEnv('PGDATABASE', undefined).stubEnv('PGHOST', undefined).stubEnv('PGPORT', undefined)
    vi.stubEnv('PGSSLMODE', undefined)
    onTestFinished(() => void vi.unstubAllEnvs())
    const at = (text: string) => {
      const { host, port, user, database, ssl } = placeOf(text).config
      return [user, host, port, database, ssl !== false]
    }
    const forms = [
      ['postgresql://', undefined, 'localhost', 5432, undefined, false],
      ['postgresql://localhost:5433', undefined, 'localhost', 5433, undefined, false],
      ['postgresql://user@localhost/db?connect_timeout=10&application_name=x', 'user', 'localhost', 5432, 'db', false],
      ['postgresql://[::1]/db', undefined, '::1', 5432, 'db', false],
      ['postgresql:///db?host=localhost&port=5433', undefined, 'localhost', 5433, 'db', false],
      ['postgres://user@/db?host=/var/run', 'user', '/var/run', 5432, 'db', false],
      ['postgres://user@:5433/db?host=/var/run', 'user', '/var/run', 5433, 'db', false],
      ['postgres://user@%2Fvar%2Frun/db', 'user', '/var/run', 5432, 'db', false],
      ['postgres://%2Fvar%2Frun:5433/db?sslmode=require', undefined, '/var/run', 5433, 'db', false],
      ['postgres://u%40x@db.example/a%20b', 'u@x', 'db.example', 5432, 'a b', true],
      ['postgres://db.example/x?user=a+b%20c', 'a+b c', 'db.example', 5432, 'x', true],
      ['postgres://db.example/?dbname=x&user=y', 'y', 'db.example', 5432, 'x', true],
      ['postgres://db.example/x?sslmode=prefer', undefined, 'db.example', 5432, 'x', true],
      ['postgres://db.example/x?sslmode=disable', undefined, 'db.example', 5432, 'x', false],
      ['postgres://localhost/x?sslmode=require', undefined, 'localhost', 5432, 'x', true],
    ] as const
    for (const [text, ...expected] of forms) expect(at(text), text).toEqual(expected)
    for (const mode of ['allow', 'prefer', 'require', 'verify-ca', 'verify-full'])
      expect(placeOf(`postgres://db.example/x?sslmode=${mode}`).config.ssl).toEqual({ rejectUnauthorized: true })
    for (const sslnegotiation of ['postgres', 'direct'])
      expect(placeOf(`postgres://db.example/x?sslnegotiation=${sslnegotiation}`).config).toMatchObject({
        sslnegotiation,
      })
    vi.stubEnv('PGHOST', '/var/run').stubEnv('PGDATABASE', 'db')
    expect(at('postgres://')).toEqual([undefined, '/var/run', 5432, 'db', false])
  })

  test('is reached by its socket', async () => {
    const url = new URL(storeAt((await ownServer()).url))
    const [{ folder }] = (await queryStore(
      url.href,
      `SELECT current_setting('unix_socket_directories') AS folder`,
    )) as [{ folder: string }]
    const place = `/postgres?port=${url.port}&schema=${url.searchParams.get('schema')}`
    const storages = [
      await opened(`postgres://postgres@${place}&host=${folder}`),
      await opened(`postgres://postgres@${encodeURIComponent(folder)}${place}`, 'replica'),
    ]
    for (const { location } of storages)
      expect(location).toContain(`postgres:///postgres?host=${folder}&port=${url.port}`)
  })

  // 127.0.0.2 and 0.0.0.0 are other hosts to what decides, and this one to Linux.
  test.each([
    ['its address', '127.0.0.2', (port: number) => `postgres://someone@127.0.0.2:${port}/x`],
    ['a parameter', '127.0.0.1', (port: number) => `postgres://someone@localhost:${port}/x?host=0.0.0.0`],
  ])('is spoken to under TLS alone, if it is on another host by %s of the URL', NEEDS_LINUX, async (_, host, urlAt) => {
    const heard: Buffer[] = []
    const listener = createListener(socket => {
      socket.on('error', () => {})
      socket.on('data', bytes => {
        heard.push(bytes)
        socket.write('N') // no TLS here
      })
    })
    await new Promise<void>(resolve => void listener.listen(0, host, resolve))
    onTestFinished(() => new Promise<void>(resolve => void listener.close(() => resolve())))
    const { port } = listener.address() as AddressInfo
    await expect(openPostgres(urlAt(port))).rejects.toThrow(/expected a database that opens, got: .*it offers no TLS/)
    const bytes = Buffer.concat(heard)
    expect(bytes.toString('hex')).toBe('0000000804d2162f') // asks for TLS, and says nothing more
  })

  test.each([
    ['/none', '3D000', 'create it with createdb'],
    ['nobody@', '28000', 'create the role'],
  ])('may refuse, and what to do is said: %s', async (change, code, words) => {
    const url = storeUrl()
    const changed = change === '/none' ? url.replace('/postgres?', '/none?') : url.replace('postgres@', change)
    expect(changed).not.toBe(url)
    await expect(openPostgres(changed)).rejects.toThrow(
      new RegExp(`expected a database that opens, got: .*\\(${code}\\): .*${words}`),
    )
  })

  test('may want a password: what to do is said if there is none or another, and no connection stays', async () => {
    const folder = await temporaryDirectory()
    await chmod(folder, 0o755)
    const file = join(folder, 'hba.conf')
    await writeFile(file, 'host all postgres all trust\nhost all all all scram-sha-256\n')
    const server = await PostgresServer.begin([`hba_file=${file}`])
    onTestFinished(() => server.remove())
    await queryStore(
      storeAt(server.url),
      `CREATE ROLE someone LOGIN PASSWORD 'right'; GRANT CREATE ON DATABASE postgres TO someone`,
    )
    onTestFinished(() => void vi.unstubAllEnvs())
    const ended: Promise<unknown>[] = []
    const url = new URL(storeAt(server.url).replace('postgres@', 'someone@'))
    const { port } = url
    // It does not pass on that PostgreSQL hangs up: `serve` has to.
    const relay = createListener(client => {
      const upstream = dial(Number(port), '127.0.0.1')
      for (const socket of [client, upstream]) socket.on('error', () => {})
      client.on('data', bytes => void upstream.write(bytes))
      upstream.on('data', bytes => void client.write(bytes))
      ended.push(new Promise(resolve => void client.once('close', resolve)))
      client.once('close', () => upstream.destroy())
    })
    await new Promise<void>(resolve => void relay.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void relay.close())
    url.port = String((relay.address() as AddressInfo).port)

    const refused = /\(28P01\): the password is wrong or missing; put it into PGPASSWORD/
    vi.stubEnv('PGPASSWORD', undefined).stubEnv('PGPASSFILE', join(folder, 'none'))
    await expect(openPostgres(url.href)).rejects.toThrow(refused)
    vi.stubEnv('PGPASSWORD', 'wrong')
    await expect(openPostgres(url.href)).rejects.toThrow(refused)
    expect(ended).toHaveLength(2)
    await Promise.all(ended)
    vi.stubEnv('PGPASSWORD', 'right')
    await opened(url.href)
  })

  test('may have no connection left, or not be there, and what to do is said', async () => {
    const server = await PostgresServer.begin(['max_connections=5'])
    onTestFinished(() => server.remove())
    const url = storeAt(server.url)
    const held = Array.from({ length: 5 }, () => new pg.Client({ connectionString: server.url }))
    await Promise.allSettled(held.map(client => client.connect()))
    await expect(openPostgres(url)).rejects.toThrow(/\(53300\): .*raise max_connections/)
    await Promise.all(held.map(client => client.end().catch(() => {})))
    await server.stop()
    await expect(openPostgres(url)).rejects.toThrow(/\(ECONNREFUSED\): nothing listens there/)
  })

  test.each<PoolerOptions>([
    { mode: 'transaction', takes: 'last', most: 3 },
    { mode: 'transaction', takes: 'first', most: 2 },
    { mode: 'transaction', takes: 'first', most: 1 },
  ])('is not written to behind a pooler that gives connections to others: %o', async options => {
    const { url } = await pooled(options)
    for (const role of ['writer', 'replica'] as const)
      await expect(openPostgres(url, { role })).rejects.toThrow(
        /a connection of its own, .*let the pooler pool sessions/,
      )
  })

  test('may be behind a pooler of sessions', async () => {
    const { url, direct } = await pooled({ mode: 'session', takes: 'last', most: 5 })
    const storage = await opened(url)
    await storage.transact([], transaction => transaction.put('a', Uint8Array.of(1)))
    await expect(openPostgres(direct)).rejects.toThrow('it is open already')
  })

  thoroughly('has to keep what it says it keeps', async () => {
    const server = await PostgresServer.begin(['fsync=off'])
    onTestFinished(() => server.remove())
    await expect(openPostgres(storeAt(server.url))).rejects.toThrow(/fsync = off/)
  })

  test('commits before a verdict is heard of, even where commits are usually heard of first', async () => {
    const url = storeUrl()
    await queryStore(url, 'ALTER ROLE CURRENT_USER SET synchronous_commit = off')
    onTestFinished(async () => void (await queryStore(url, 'ALTER ROLE CURRENT_USER RESET synchronous_commit')))
    expect(await queryStore(url, 'SHOW synchronous_commit')).toEqual([{ synchronous_commit: 'off' }])
    const { engine } = await opened(url)
    expect(await engine.query('SHOW synchronous_commit')).toEqual([{ synchronous_commit: 'on' }])
  })

  test('may go away, even by a crash: lookups go on, the rest is refused with 503, and what was granted is there again', async () => {
    const server = await ownServer()
    const dir = await builtDirectory('a.bin', pseudoRandom(640), { recordBytes: 16 })
    const storage = await createIn(await openPostgres(storeAt(server.url)), dir)
    const updatable = await UpdatableDatabase.open(storage)
    onTestFinished(() => updatable.close())
    const app = await running({ datasets: [{ updatable }], instant: false })
    const { manifest } = updatable.newest
    const ask = async (kind: FenceRequest['kind'], version: number, requestHash = REQUEST) => {
      const reply = await post(app, '/v1/fence', fenceRequest(manifest.databaseId, kind, 1, version, requestHash))
      return reply.statusCode === 200 ? decodeFenceReply(reply.rawPayload) : reply.json()
    }
    expect(await ask('register', 0, new Uint8Array(32))).toBe('granted')
    expect(await ask('confirm', 5)).toBe('granted')

    await server.stop('SIGQUIT')
    const message = 'this server cannot reach its store now; nothing was stored: send the same again later'
    expect(await ask('confirm', 6)).toEqual({ code: 'not_ready', message })
    await expect(storage.get('head')).rejects.toBeInstanceOf(StorageError)
    expect((await post(app, '/v1/answer', queryAt(manifest, 0))).statusCode).toBe(200)
    for (const path of ['/v1/info', '/v1/manifest', `/v1/epochs/${manifest.epoch}`])
      expect((await app.inject(path)).statusCode, path).toBe(200)
    expect((await app.inject('/v1/manifests?since=1')).statusCode).toBe(200)
    const batch = batchOn(updatable, [{ op: 'edit', index: 3, value: 'ab'.repeat(16) }], { encoding: 'hex' })
    await expect(updatable.publish(batch)).rejects.toBeInstanceOf(StorageError)
    const ready = await app.inject('/readyz')
    expect([ready.statusCode, ready.json().problems]).toEqual([200, ['the store cannot be written']])
    expect(app.readiness.problems).toEqual([expect.stringMatching(/^the store at postgres:/)])

    await server.start()
    expect(await ask('confirm', 4)).toBe('refused')
    expect(await ask('confirm', 5)).toBe('granted')
    expect(await ask('confirm', 6)).toBe('granted')
    expect(await updatable.publish(batch)).toMatchObject({ epoch: 2, changes: 1 })
    expect((await app.inject('/readyz')).json().problems).toBeUndefined()
  })
})

/** Another one's connection to a store's database, as itself. */
async function another(url: string): Promise<{ client: pg.Client; schema: string }> {
  const place = new URL(url)
  const schema = place.searchParams.get('schema')!
  place.searchParams.delete('schema')
  const client = new pg.Client({ connectionString: place.href })
  await client.connect()
  onTestFinished(() => client.end())
  return { client, schema }
}

/** A backup, which reads all that is there for as long as it takes. */
async function backup(url: string): Promise<void> {
  const { client, schema } = await another(url)
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
  const tables = await client.query('SELECT tablename FROM pg_tables WHERE schemaname = $1', [schema])
  for (const { tablename } of tables.rows) await client.query(`LOCK TABLE ${schema}.${tablename} IN ACCESS SHARE MODE`)
}

test('a process that starts during a backup does not wait for it, and blocks no other', async () => {
  const url = storeUrl()
  const writer = await opened(url)
  await PostgresFence.open(writer.engine)
  await backup(url)
  await queryStore(url, `ALTER ROLE CURRENT_USER SET lock_timeout = '1s'`)
  onTestFinished(async () => void (await queryStore(url, 'ALTER ROLE CURRENT_USER RESET lock_timeout')))
  const replica = await opened(url, 'replica')
  await PostgresFence.open(replica.engine)
  await writer.transact([], transaction => transaction.put('a', Uint8Array.of(1)))
})

test('a read-only server, such as a standby that is behind, grants nothing', async () => {
  const url = storeUrl()
  const fence = await PostgresFence.open((await opened(url, 'replica')).engine)
  const ask = asking(fence)
  expect([await ask('register', 1), await ask('confirm', 1, 5)]).toEqual(['granted', 'granted'])
  const { client, schema } = await another(url)
  const [entry] = (await client.query(`SELECT hint, version::text, request FROM ${schema}.fence`)).rows
  const confirm = () =>
    client.query(`SELECT verdict FROM ${schema}.fence_judge($1, false, $2, $3, 0, 400, true, false)`, [
      entry.hint,
      entry.version,
      entry.request,
    ])
  expect((await confirm()).rows).toEqual([{ verdict: 'granted' }])
  await client.query('BEGIN READ ONLY')
  await expect(confirm()).rejects.toMatchObject({ code: '25006' })
})

test('a database that ends idle sessions does not end the one that holds the lock', async () => {
  const url = storeUrl()
  await queryStore(url, "ALTER ROLE CURRENT_USER SET idle_session_timeout = '100ms'")
  onTestFinished(async () => void (await queryStore(url, 'ALTER ROLE CURRENT_USER RESET idle_session_timeout')))
  await opened(url)
  const lasting = () => queryStore(url, "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' ORDER BY pid")
  const before = await lasting()
  expect(before).not.toEqual([])
  const { config } = placeOf(url)
  const idle = new pg.Client(config) // younger, and so ended later
  const ended = new Promise(resolve => idle.on('error', resolve))
  await idle.connect()
  expect(await ended).toMatchObject({ code: '57P05' })
  expect(await lasting()).toEqual(before)
})

test('defaults of the database and options in the URL do not change the kind of transaction', async () => {
  const options = '-c synchronous_commit=off -c default_transaction_isolation=serializable -c work_mem=5MB'
  const { engine } = await opened(`${storeUrl()}&options=${encodeURIComponent(options)}`)
  const settings = `SELECT current_setting('synchronous_commit') AS commit, current_setting('transaction_isolation') AS isolation, current_setting('work_mem') AS memory`
  expect(await engine.query(settings)).toEqual([{ commit: 'on', isolation: 'read committed', memory: '5MB' }])
})
