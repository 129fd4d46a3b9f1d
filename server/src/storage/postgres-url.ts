// Where a PostgreSQL store is: a connection URI as libpq reads it, and what `pg` takes for it. What `pg` would ignore is refused.

import { readFileSync } from 'node:fs'
import { isIPv6 } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import type { PoolConfig } from 'pg'
import { DatasetError } from '../base/errors.js'

const DEFAULT_SCHEMA = 'keyhush'
const DEFAULT_PORT = '5432'
const MOST_PORT = 65_535
const CONNECT_SECONDS = 5
const MOST_CONNECT_SECONDS = 3600

export interface Place {
  readonly config: PoolConfig
  /** unquoted */
  readonly schema: string
  /** for people: no user, no parameters */
  readonly location: string
}

const FORM = /^postgres(?:ql)?:\/\/(?:([^\s/?#]*)@)?([^\s@/?#]*)(?:\/([^\s@:/?#]*))?(?:\?([^\s#]*))?$/i
const HOST_AND_PORT = /^(?:\[([^\]]*)\]|([^:[\]]*))(?::(\d*))?$/
const PARAMETERS = [
  ...['schema', 'host', 'port', 'user', 'dbname', 'options', 'application_name', 'connect_timeout'],
  ...['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'sslnegotiation'],
]

/** `pg` checks the server's certificate and name in each mode that speaks TLS, as `verify-full` does. */
const MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify']

const NEGOTIATIONS = ['postgres', 'direct']

/** Throws DatasetError, which does not repeat a password. */
export function placeOf(text: string): Place {
  const [, credentials = '', hosts, path = '', query = ''] = FORM.exec(text) ?? refuseText()
  const [user = '', password] = credentials.split(':', 2)
  const given = parametersOf(query)
  const { schema = DEFAULT_SCHEMA } = given
  // As in libpq, a parameter comes before the same thing elsewhere.
  const [, address, name = '', ownPort] = hosts!.includes(',') ? ['', undefined, hosts!] : hostAndPort(hosts!)
  const host = given['host'] || decoded(address ?? name) || process.env['PGHOST'] || 'localhost'
  const port = given['port'] || ownPort || process.env['PGPORT'] || DEFAULT_PORT
  const database = given['dbname'] || decoded(path) || process.env['PGDATABASE'] || ''
  if (`${host}${port}`.includes(',')) {
    throw new DatasetError('--store', 'expected one host, got several; name the primary, or an address that follows it')
  }
  // What has a password in it, misplaced, would be in messages.
  const isHost = host.includes(':') ? isIPv6(host) : host.startsWith('/') || !host.includes('/')
  if (!isHost || /[@=?#]/.test(host) || /[@:/=?#]/.test(database)) refuseText()
  if (!/^\d{1,5}$/.test(port)) refuseText()
  if (Number(port) < 1 || Number(port) > MOST_PORT)
    throw new DatasetError('--store', `expected a port from 1 to ${MOST_PORT}, got another; give the database's`)
  const location = locationOf(host, port, database, schema)
  const refuse = (reason: string): never => {
    throw new DatasetError(location, reason)
  }
  if (password !== undefined || 'password' in given) {
    refuse(
      'expected a URL without a password, got one, which every user of this machine can read; put it into PGPASSWORD, or a file that PGPASSFILE names',
    )
  }
  if (!/^[a-z_][a-z0-9_]{0,39}$/.test(schema)) refuse('expected a schema name such as keyhush, got another; choose one')
  const unknown = Object.keys(given).find(name => !PARAMETERS.includes(name))
  if (unknown !== undefined) {
    const named = /^[a-z_]{1,40}$/.test(unknown) ? unknown : 'another'
    refuse(`expected parameters among ${PARAMETERS.join(', ')}, got ${named}; remove it`)
  }
  const seconds = given['connect_timeout'] ?? `${CONNECT_SECONDS}`
  if (!/^\d{1,4}$/.test(seconds) || Number(seconds) < 1 || Number(seconds) > MOST_CONNECT_SECONDS)
    refuse(`expected connect_timeout to be from 1 to ${MOST_CONNECT_SECONDS} seconds, got another; choose one`)
  const sslnegotiation = given['sslnegotiation'] || undefined
  checkOneOf(NEGOTIATIONS, 'sslnegotiation', sslnegotiation, refuse)
  const config: PoolConfig = {
    ...{ host, port: Number(port) },
    ...definedOnly({
      database,
      user: given['user'] || decoded(user),
      application_name: given['application_name'],
      sslnegotiation,
    }),
    options: given['options'] ?? '',
    ssl: tlsOf(host, given, refuse),
    connectionTimeoutMillis: 1000 * Number(seconds),
  }
  return { config, schema, location }
}

/** As libpq reads them: `+` is no space. */
function parametersOf(query: string): Given {
  const pairs = query.split('&').filter(pair => pair !== '')
  return Object.fromEntries(pairs.map(pair => /^([^=]*)=?(.*)$/.exec(pair)!.slice(1).map(decoded)))
}

function hostAndPort(text: string): RegExpExecArray {
  return HOST_AND_PORT.exec(text) ?? refuseText()
}

function refuseText(): never {
  throw new DatasetError('--store', 'expected postgres://user@host/database, got another text; give the whole URL')
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return refuseText()
  }
}

/** For people; as libpq would take it, too. */
function locationOf(host: string, port: string, database: string, schema: string): string {
  const parameters = [
    ...(host.startsWith('/') ? [`host=${host}`, ...(port === DEFAULT_PORT ? [] : [`port=${port}`])] : []),
    ...(schema === DEFAULT_SCHEMA ? [] : [`schema=${schema}`]),
  ]
  const authority = host.startsWith('/') ? '' : `${host.includes(':') ? `[${host}]` : host}:${port}`
  return `postgres://${authority}/${database}${parameters.length === 0 ? '' : `?${parameters.join('&')}`}`
}

type Given = Readonly<Record<string, string>>

/** To another host it is TLS unless the operator has said otherwise; to this one it is if asked for. */
function tlsOf(host: string, given: Given, refuse: (reason: string) => never): ConnectionOptions | false {
  if (host.startsWith('/')) return false // as in libpq, whatever the mode
  const isLocal = ['localhost', '127.0.0.1', '::1'].includes(host)
  const mode = given['sslmode'] || process.env['PGSSLMODE'] || (isLocal ? 'prefer' : 'verify-full')
  checkOneOf(MODES, 'sslmode', mode, refuse)
  if (mode === 'disable' || (isLocal && ['allow', 'prefer'].includes(mode))) return false
  const read = (name: string): string | undefined => {
    const file = given[name]
    if (!file || file === 'system') return undefined
    try {
      return readFileSync(file, 'utf8')
    } catch (error) {
      return refuse(`expected a file for ${name}, got none that can be read (${(error as NodeJS.ErrnoException).code})`)
    }
  }
  const files = definedOnly({ ca: read('sslrootcert'), cert: read('sslcert'), key: read('sslkey') })
  return { ...files, rejectUnauthorized: mode !== 'no-verify' }
}

function checkOneOf(
  known: readonly string[],
  name: string,
  value: string | undefined,
  refuse: (reason: string) => never,
): void {
  if (value !== undefined && !known.includes(value))
    refuse(`expected ${name} to be one of ${known.join(', ')}, got another; choose one`)
}

/** Without members that are undefined or empty. */
function definedOnly<T extends Readonly<Record<string, string | undefined>>>(members: T): { [K in keyof T]?: string } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value)) as { [K in keyof T]?: string }
}
