// Runs docs/samples: proxies keep connections, pass answers on unchanged and log nothing of clients; systemd's unit; the
// contents of the container. Where a program is missing, its test is skipped and says so.

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { connect as connectHttp2, type IncomingHttpHeaders } from 'node:http2'
import { delimiter, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { connect as connectTls } from 'node:tls'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { MemoryStorage } from '../../server/dist/index.js'
import {
  contentsOf,
  createIn,
  freePort,
  listening as listeningHere,
  queryAt,
  temporaryDirectory,
} from '../../server/test/helpers.js'
import { command, serving } from '../../server/test/spawned.js'
import { opened } from '../../server/test/updatable-helpers.js'
import { findProgram } from '../../tools/programs.mjs'
import { needs } from '../support/needs.js'
import { buildInto, temporaryFolder } from '../support/servers.js'

const SAMPLES = new URL('../../docs/samples/', import.meta.url)
const CANARY = 'canary5d1e'
/** a client's own address, which no other on this machine has */
const CLIENT = '127.7.7.7'

const programs = { nginx: await findProgram('nginx'), caddy: await findProgram('caddy') }
const opensslThere = await runs('openssl', 'version')
const systemdThere = await runs('systemd-analyze', '--version')

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let dataset: string
beforeAll(async () => {
  folder = await temporaryFolder()
  dataset = await buildInto(folder.path, { format: 'txt', content: 'alpha\nbeta\n' })
})
afterAll(() => folder.remove())

async function runs(command: string, ...args: string[]): Promise<boolean> {
  return promisify(execFile)(command, args).then(
    () => true,
    () => false,
  )
}

const sample = async (name: string) => await readFile(new URL(name, SAMPLES), 'utf8')

/** Of a text in which each of these stands, once. */
function replaced(text: string, changes: Record<string, string>): string {
  for (const [from, to] of Object.entries(changes)) {
    expect([from, text.split(from).length - 1]).toEqual([from, 1])
    text = text.replace(from, () => to)
  }
  return text
}

/** A server behind the proxy. */
async function backend() {
  const updatable = await opened(await createIn(new MemoryStorage(), dataset))
  const { app, url, port } = await listeningHere({ datasets: [{ updatable }], trustProxy: 'loopback' })
  const seen = { connections: 0, forwardedFor: new Set<unknown>() }
  app.server.on('connection', () => seen.connections++)
  app.server.prependListener('request', ({ headers }) => seen.forwardedFor.add(headers['x-forwarded-for']))
  const close = async () => {
    app.server.closeAllConnections()
    await app.close()
  }
  return { url, port, manifest: updatable.newest.manifest, seen, close }
}

/** The changes that make a sample run in `dir`, at `port`, before `upstream`. */
const kinds = {
  nginx: {
    file: 'nginx.conf',
    leaky: { ' emerg;': ' error;' },
    signal: 'SIGTERM',
    async prepare(dir: string, port: number, upstream: number) {
      const certificate = ['-keyout', join(dir, 'key.pem'), '-out', join(dir, 'certificate.pem')]
      const args = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=a.example'.split(' ')
      await promisify(execFile)('openssl', [...args, ...certificate])
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
        what => `${what}_temp_path ${dir}/${what};`,
      )
      return {
        '/run/nginx.pid': join(dir, 'pid'),
        '/var/log/nginx/error.log': join(dir, 'error.log'),
        'http {': `http { ${temporary.join(' ')}`,
        '127.0.0.1:8080': `127.0.0.1:${upstream}`,
        'listen 443': `listen 127.0.0.1:${port}`,
        '/etc/ssl/a.example.pem': join(dir, 'certificate.pem'),
        '/etc/ssl/a.example.key': join(dir, 'key.pem'),
      }
    },
    args: (config: string, dir: string) => [
      '-c',
      config,
      '-p',
      dir,
      '-e',
      join(dir, 'start.log'),
      '-g',
      'daemon off; master_process off;',
    ],
  },
  caddy: {
    file: 'Caddyfile',
    leaky: { 'exclude http\n': 'exclude nothing\n' },
    signal: 'SIGKILL', // asked, it waits for clients
    async prepare(_dir: string, port: number, upstream: number) {
      return {
        'admin off': 'admin off\n\tauto_https disable_redirects\n\tskip_install_trust',
        'a.example {': `a.example:${port} {\n\ttls internal\n\tbind 127.0.0.1`,
        '127.0.0.1:8080': `127.0.0.1:${upstream}`,
      }
    },
    args: (config: string) => ['run', '--adapter', 'caddyfile', '--config', config],
  },
} as const

async function started(
  kind: keyof typeof kinds,
  upstream: number,
  leaky: boolean,
  edited: (text: string) => string = text => text,
) {
  const { file, prepare, args, leaky: leak, signal } = kinds[kind]
  const dir = await temporaryDirectory()
  const port = await freePort()
  const changes = { ...(await prepare(dir, port, upstream)), ...(leaky ? (leak as Record<string, string>) : {}) }
  const config = join(dir, file)
  await writeFile(config, replaced(edited(await sample(file)), changes))
  const env = { ...process.env, HOME: dir, XDG_DATA_HOME: dir, XDG_CONFIG_HOME: dir }
  const child = spawn(programs[kind]!, args(config, dir), { cwd: dir, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const printed: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => printed.push(chunk as Buffer))
  const ended = once(child, 'close')
  onTestFinished(() => void child.kill('SIGKILL'))
  await expect.poll(() => secured(port).then(() => 'up', String)).toBe('up')
  return {
    port,
    /** all that it has written */
    async stop(): Promise<string> {
      child.kill(signal)
      await ended
      const files = [...(await contentsOf(dir))].filter(([name]) => name !== `/${file}`).map(([, bytes]) => bytes)
      return Buffer.concat([...printed, ...files]).toString('latin1')
    },
  }
}

/** A TLS connection of the client's, on which HTTP/2 was agreed. */
async function secured(port: number) {
  const socket = connectTls({
    ...{ host: '127.0.0.1', port, localAddress: CLIENT, servername: 'a.example' },
    ...{ rejectUnauthorized: false, ALPNProtocols: ['h2'] },
  })
  await once(socket, 'secureConnect')
  return socket
}

async function clientAt(port: number) {
  const socket = await secured(port)
  expect(socket.alpnProtocol).toBe('h2')
  const session = connectHttp2('https://a.example', { createConnection: () => socket })
  session.on('error', () => {})
  const ask = (path: string, body?: Uint8Array, headers: Record<string, string> = {}) => {
    const stream = session.request({ ':path': path, ':method': body === undefined ? 'GET' : 'POST', ...headers })
    stream.end(body)
    return stream
  }
  return {
    ask,
    async get(path: string, body?: Uint8Array, headers?: Record<string, string>) {
      const length = body && { 'content-length': `${body.length}` } // as browsers send it
      const stream = ask(path, body, { ...headers, ...length })
      const [head] = (await once(stream, 'response')) as [IncomingHttpHeaders & { ':status': number }]
      return { status: head[':status'], headers: head, body: await buffer(stream) }
    },
    close: () => session.destroy(),
  }
}

describe.each(['nginx', 'caddy'] as const)('%s', kind => {
  const proxied = needs(programs[kind] !== undefined && (kind !== 'nginx' || opensslThere), `${kind} and openssl`)

  test('passes answers on over HTTP/2 unchanged, on connections that it keeps', proxied, async () => {
    const server = await backend()
    const proxy = await started(kind, server.port, false)
    const client = await clientAt(proxy.port)
    const direct = async (path: string) => Buffer.from(await (await fetch(server.url + path)).arrayBuffer())
    expect((await client.get('/v1/manifest')).body.equals(await direct('/v1/manifest'))).toBe(true)
    const query = queryAt(server.manifest, 0)
    const straight = await fetch(`${server.url}/v1/answer`, { method: 'POST', body: query })
    const answer = Buffer.from(await straight.arrayBuffer())
    const before = server.seen.connections
    server.seen.forwardedFor.clear()
    for (let i = 0; i < 20; i++) {
      const { status, headers, body } = await client.get('/v1/answer', query, { 'x-forwarded-for': '1.2.3.4' })
      expect([status, headers['content-encoding'], headers['content-length']]).toEqual([
        200,
        undefined,
        `${answer.length}`,
      ])
      expect(body.equals(answer)).toBe(true)
    }
    expect(server.seen.connections - before).toBeLessThanOrEqual(1)
    expect([...server.seen.forwardedFor]).toEqual([CLIENT])
    // A stream of events begins at once, and a refusal is passed on unchanged.
    const events = client.ask('/v1/events')
    const [line] = (await once(events, 'data')) as [Buffer]
    expect(JSON.parse(line.toString())).toMatchObject({ generation: 1, epoch: 1 })
    events.close()
    const wrong = await client.get('/v1/answer', new Uint8Array(300_000))
    expect([wrong.status, JSON.parse(wrong.body.toString()).code]).toEqual([400, 'bad_request'])
    client.close()
    await proxy.stop()
  })

  // The second case shows that the first can fail.
  test.each([
    ['logs nothing of clients', false],
    ['logs clients without the line in the sample that prevents it', true],
  ])('%s', proxied, async (_, leaky) => {
    const server = await backend()
    const proxy = await started(kind, server.port, leaky)
    const client = await clientAt(proxy.port)
    const headers = { 'user-agent': CANARY, cookie: CANARY, referer: `https://${CANARY}/`, [CANARY]: CANARY }
    const body = Buffer.from(CANARY.repeat(40_000)) // longer than it would keep in memory
    const statuses: number[] = []
    const ask = async (path: string, sent?: Uint8Array) => statuses.push((await client.get(path, sent, headers)).status)
    await ask(`/v1/${CANARY}?${CANARY}`)
    await ask('/v1/answer', body)
    client.ask('/v1/answer', body, { 'content-length': '999999' }).close() // goes away half way
    await server.close()
    await ask(`/v1/${CANARY}?${CANARY}`)
    await ask('/v1/answer', body)
    expect(statuses).toEqual([404, 400, 502, 502])
    client.close()
    const raw = connectTls({ ...{ host: '127.0.0.1', port: proxy.port, localAddress: CLIENT }, servername: CANARY })
    raw.on('error', () => {}) // it does not believe the certificate
    await new Promise(resolve => raw.once('close', resolve))
    const written = await proxy.stop()
    const found = [CANARY, CLIENT].filter(secret => written.includes(secret))
    expect(found.length > 0).toBe(leaky)
  })
})

/** A server of a sample, and where its figures are. */
async function listening(...of: Parameters<typeof serving>) {
  const server = await serving(...of)
  return { ...server, figures: /figures at (\S+)\/metrics/.exec(server.printed.stderr)?.[1] }
}

/** Files under the names that samples have for them. */
async function files() {
  const dir = await temporaryDirectory()
  await mkdir(join(dir, 'state'))
  await writeFile(
    join(dir, 'publisher.pub'),
    `public key: ${'3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c'}\n`,
  )
  return dir
}

describe('keyhush.service', () => {
  test('is a unit that systemd takes, and exposes little', needs(systemdThere, 'systemd-analyze'), async () => {
    const unit = join(await temporaryDirectory(), 'keyhush.service')
    await writeFile(unit, replaced(await sample('keyhush.service'), { '/usr/bin/node': process.execPath }))
    const verified = await promisify(execFile)('systemd-analyze', ['verify', unit])
    expect(verified).toEqual({ stdout: '', stderr: '' })
    await promisify(execFile)('systemd-analyze', ['security', '--offline=true', '--threshold=20', unit])
  })

  test('starts the server, is told when it is ready and when it stops, and ends with 0', async () => {
    const dir = await files()
    // The messages to systemd, through the program that is called for them.
    await writeFile(join(dir, 'systemd-notify'), `#!/bin/sh\necho "$1" >> ${dir}/told\n`)
    await chmod(join(dir, 'systemd-notify'), 0o755)
    const [, start] = /^ExecStart=(.+)$/m.exec(await sample('keyhush.service'))!
    const line = replaced(start!, {
      '/usr/bin/node /opt/keyhush/node_modules/.bin/keyhush': `${process.execPath} ${command}`,
      '${STATE_DIRECTORY}': join(dir, 'state'),
      '/srv/keyhush/dataset': dataset,
      '/etc/keyhush': dir,
      '--port 8080': '--port 0',
      '--metrics 9090': '--metrics 0',
    })
    const [node, ...args] = line.split(' ')
    const env = { NOTIFY_SOCKET: join(dir, 'socket'), PATH: `${dir}${delimiter}${process.env['PATH']}` }
    const { child, printed, finished, url, figures } = await listening(node!, [...args, '--drain-seconds', '0'], env)
    expect((await fetch(`${url}/v1/manifest`)).status).toBe(200)
    expect((await fetch(`${figures}/readyz`)).status).toBe(200)
    const told = async () => await readFile(join(dir, 'told'), 'utf8').catch(() => '')
    await expect.poll(told).toBe('READY=1\n')
    child.kill('SIGTERM')
    expect((await finished).code).toBe(0)
    await expect.poll(told).toBe('READY=1\nSTOPPING=1\n')
    expect(printed.stderr).not.toContain('warning')
  })
})

describe('Containerfile', () => {
  /** Its instructions, of the last stage. */
  async function instructions(): Promise<Map<string, string>> {
    const stage = (await sample('Containerfile')).split(/^FROM /m).at(-1)!
    return new Map([...stage.matchAll(/^([A-Z]+) (.+)$/gm)].map(([, name, rest]) => [name!, rest!]))
  }

  test('runs nothing of the packages while it installs them, and serves as another user than root', async () => {
    expect(await sample('Containerfile')).toMatch(/^RUN npm install --omit=dev --ignore-scripts /m)
    expect((await instructions()).get('USER')).toBe('node')
  })

  // Builds no container, since its image is in a registry. What would run in it runs here.
  test('starts a server, and its health check works', async () => {
    const dir = await files()
    const parts = await instructions()
    const [entry] = JSON.parse(parts.get('ENTRYPOINT')!) as string[]
    expect(entry).toBe('/opt/keyhush/node_modules/.bin/keyhush')
    await symlink(command, join(dir, 'keyhush'))
    const args = (JSON.parse(parts.get('CMD')!) as string[]).map(
      word =>
        ({
          '/var/lib/keyhush/store': join(dir, 'store'),
          '/srv/dataset': dataset,
          '/srv/publisher.pub': join(dir, 'publisher.pub'),
          '0.0.0.0': '127.0.0.1',
          '8080': '0',
          '9090': '0',
        })[word] ?? word,
    )
    const { child, finished, url, figures } = await listening(join(dir, 'keyhush'), [...args, '--drain-seconds', '0'])
    expect((await fetch(`${url}/readyz`)).status).toBe(200)
    const [node, ...check] = JSON.parse(/CMD (\[.+\])$/.exec(parts.get('HEALTHCHECK')!)![1]!) as string[]
    expect(node).toBe('node')
    const health = () => runs(process.execPath, ...check.map(word => word.replace('http://127.0.0.1:9090', figures!)))
    expect(await health()).toBe(true)
    child.kill(parts.get('STOPSIGNAL') as NodeJS.Signals)
    expect((await finished).code).toBe(0)
    expect(await health()).toBe(false)
  })
})

test('every sample is run, here or by the tests of what it shows', async () => {
  const elsewhere = {
    'kubernetes.yaml': 'server/test/kubernetes.all.test.ts',
    'kubernetes-next.yaml': 'server/test/kubernetes.all.test.ts',
    'privacy-pass-app.mjs': 'packages/confidential/test/privacy-pass.all.test.ts',
    'privacy-pass-evaluator.mjs': 'packages/confidential/test/privacy-pass.all.test.ts',
  }
  for (const [name, file] of Object.entries(elsewhere)) {
    expect(await readFile(new URL(`../../${file}`, import.meta.url), 'utf8')).toContain(name)
  }
  const here = ['Caddyfile', 'Containerfile', 'keyhush.service', 'nginx.conf']
  expect((await readdir(SAMPLES)).sort()).toEqual([...here, ...Object.keys(elsewhere)].sort())
})
