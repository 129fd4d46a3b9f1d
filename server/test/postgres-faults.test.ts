// A store in PostgreSQL under faults: locks held by readers, a writer that has lost its lock unnoticed, a database that went back,
// standbys, and settings of the database or parameters of the URL that would override the store's.

import { createServer } from 'node:net'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { queryStore } from '../../tests/support/postgres.js'
import { usePostgres } from '../../tests/support/use-postgres.js'
import { PostgresFence } from '../dist/database/postgres-fence.js'
import { UpdatableDatabase } from '../dist/index.js'
import { openPostgres, type PostgresStorage } from '../dist/storage/postgres.js'
import { asking } from './fence-laws.js'
import { builtDirectory, createIn } from './helpers.js'
import { batchOn, KEYED } from './updatable-helpers.js'

const postgres = usePostgres()
const SSL_REQUEST = 80_877_103

async function opened(url: string, role: 'writer' | 'replica' = 'writer'): Promise<PostgresStorage> {
  const storage = await openPostgres(url, { role })
  onTestFinished(() => storage.close())
  return storage
}

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
  const url = postgres.store()
  const writer = await opened(url)
  await PostgresFence.open(writer.engine)
  await backup(url)
  await queryStore(url, `ALTER ROLE CURRENT_USER SET lock_timeout = '1s'`)
  onTestFinished(async () => void (await queryStore(url, 'ALTER ROLE CURRENT_USER RESET lock_timeout')))
  const replica = await opened(url, 'replica')
  await PostgresFence.open(replica.engine)
  await writer.transact([], transaction => transaction.put('a', Uint8Array.of(1)))
})

test('a process that has lost the writer’s lock writes nothing once another has it, even before it notices', async () => {
  const url = postgres.store()
  const first = await opened(url)
  const name = new URL(url).searchParams.get('schema')!
  let second: PostgresStorage | undefined
  let heard = 0
  first.engine.listen(message => void (message === '' && heard++))
  while (second === undefined) {
    // The session alone: the connections that transactions use stay.
    await queryStore(
      url,
      `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
        AND (classid::bigint << 32) | objid::bigint = hashtextextended('keyhush ${name} writer', 0)`,
    )
    second = await opened(url).catch(() => undefined)
  }
  await second.transact([], transaction => transaction.put('a', Uint8Array.of(2)))
  const late = first.transact([], transaction => transaction.put('a', Uint8Array.of(1)))
  await expect(late).rejects.toMatchObject({ code: 'EBUSY' })
  expect([...(await second.get('a'))!]).toEqual([2])
})

test('a database that went back to an older epoch can be served again', async () => {
  const url = postgres.store()
  const dir = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  const storage = await createIn(await openPostgres(url), dir)
  const updatable = await UpdatableDatabase.open(storage)
  const failed = new Promise<Error>(resolve => {
    updatable.onFailure = resolve
  })
  // As a standby that was behind is after a failover: what was committed last has never been.
  const tables = ['entries', 'turn']
  for (const table of tables) await queryStore(url, `CREATE TABLE schema.${table}_then AS TABLE schema.${table}`)
  await updatable.publish(batchOn(updatable, '{"op":"edit","key":"one","value":"x"}\n'))
  const back = tables.map(
    table => `DELETE FROM schema.${table}; INSERT INTO schema.${table} TABLE schema.${table}_then;`,
  )
  await queryStore(url, `BEGIN; ${back.join(' ')} COMMIT`)
  // Who has the epoch that never was may not go on with it, …
  expect((await failed).message).toMatch(/gone back/)
  await updatable.close()
  // … and who comes next is not held up by it.
  const again = await UpdatableDatabase.open(await openPostgres(url))
  onTestFinished(() => again.close())
  expect(again.newest.manifest.epoch).toBe(1)
  const status = await again.publish(batchOn(again, '{"op":"edit","key":"one","value":"y"}\n'))
  expect(status.epoch).toBe(2)
})

test('a read-only server, such as a standby that is behind, grants nothing', async () => {
  const url = postgres.store()
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

test('defaults of the database and options in the URL do not change the kind of transaction', async () => {
  const url = new URL(postgres.store())
  url.searchParams.set(
    'options',
    '-c synchronous_commit=off -c default_transaction_isolation=serializable -c work_mem=5MB',
  )
  const { engine } = await opened(url.href)
  const settings = `SELECT current_setting('synchronous_commit') AS commit, current_setting('transaction_isolation') AS isolation, current_setting('work_mem') AS memory`
  expect(await engine.query(settings)).toEqual([{ commit: 'on', isolation: 'read committed', memory: '5MB' }])
})

test.each([
  'postgres:user:hunter2@127.0.0.1/x',
  'postgres:/user:hunter2@127.0.0.1/x',
  'postgres://127.0.0.1:1/hunter2@127.0.0.1/x',
  'postgres://user:1/hunter2@127.0.0.1/x',
  'postgres://hunter2#more@127.0.0.1/x',
])('a password that %s was meant to have is not repeated', async url => {
  const error = await openPostgres(url).catch((error: unknown) => error)
  expect(error).toMatchObject({ name: 'DatasetError', message: expect.not.stringContaining('hunter2') })
})

test('a remote host in the URL’s parameters requires TLS, too', async () => {
  const first = new Promise<Buffer>(resolve => {
    const server = createServer(socket => {
      socket.on('error', () => {})
      socket.once('data', bytes => {
        resolve(bytes)
        socket.destroy()
      })
    })
    onTestFinished(() => void server.close())
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      openPostgres(`postgres://user@localhost:${port}/x?host=0.0.0.0`).catch(() => {})
    })
  })
  expect((await first).readUInt32BE(4)).toBe(SSL_REQUEST)
})
