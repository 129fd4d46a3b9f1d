// Serves the page as Vite built it, and answers its requests: where the servers are, which one lies, what to publish. The other
// end is src/page/backstage.ts.

import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { extname, join, sep } from 'node:path'
import { json } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import type { Breached, Change, Config, Outcome, Published, ServerName } from '../page/backstage.js'
import { pageFolder, reviewPage } from './paths.js'
import type { Watcher } from './proxy.js'

export interface PageContents {
  readonly proxies: Readonly<Record<ServerName, Watcher>>
  readonly databases: Config['databases']
  readonly publisherKey: string
  /** resolves when the server of *One server* answers */
  readonly prepareAlone: () => Promise<void>
  /** resolves when the servers and evaluators of *Check a password* answer */
  readonly prepareBreached: () => Promise<Breached>
  readonly published: () => Promise<readonly Published[]>
  readonly change: (change: Change) => Promise<Outcome>
  readonly replaceKey: (byFalse: boolean) => Promise<Outcome<{ readonly epoch: number }>>
  /** replaces the key, with a list of changes that hides it */
  readonly hideReplacement: () => Promise<Outcome<{ readonly epoch: number; readonly auditor: string }>>
}

const CONTENT_TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
  '.md': 'text/plain; charset=utf-8',
}

/** A server for the page, not listening yet. It answers 503 until `publish` is called. */
export function createPageServer(): {
  server: Server
  publish(contents: PageContents): void
} {
  const files = new Map([...readFiles(pageFolder), ['/review-one-server.md', fileAt(reviewPage)]])
  let contents: PageContents | undefined

  const server = createServer((request, response) => {
    reply(request, response).catch((error: unknown) => {
      response.writeHead(400).end(error instanceof Error ? error.message : '')
    })
  })

  async function reply(request: IncomingMessage, response: ServerResponse): Promise<void> {
    for (const [name, value] of Object.entries(securityHeaders(contents))) response.setHeader(name, value)
    const { pathname } = new URL(request.url ?? '/', 'http://page')
    if (contents === undefined) {
      response.writeHead(503).end('The servers are starting.')
    } else if (request.method === 'POST' && pathname === '/liar') {
      setLiar(contents, await jsonOf(request))
      response.writeHead(204).end()
    } else if (request.method === 'POST' && pathname === '/alone') {
      await jsonOf(request)
      await contents.prepareAlone()
      response.writeHead(204).end()
    } else if (request.method === 'POST' && pathname === '/breached') {
      await jsonOf(request)
      send(response, '.json', JSON.stringify(await contents.prepareBreached()))
    } else if (request.method === 'POST' && pathname === '/publish') {
      send(response, '.json', JSON.stringify(await contents.change(changeOf(await jsonOf(request)))))
    } else if (request.method === 'POST' && pathname === '/key') {
      send(response, '.json', JSON.stringify(await contents.replaceKey((await jsonOf(request)) === true)))
    } else if (request.method === 'POST' && pathname === '/hide') {
      await jsonOf(request)
      send(response, '.json', JSON.stringify(await contents.hideReplacement()))
    } else if (pathname === '/published.json') {
      send(response, '.json', JSON.stringify(await contents.published()))
    } else if (pathname === '/config.json') {
      send(response, '.json', JSON.stringify(configOf(contents)))
    } else {
      const path = pathname === '/' ? '/index.html' : pathname
      if (path === '/index.html') response.setHeader('link', connections(contents))
      if (path.startsWith('/assets/')) response.setHeader('cache-control', FOREVER)
      const file = files.get(path)
      const packs = /\bgzip\b/.test(request.headers['accept-encoding']?.toString() ?? '')
      if (file && packs) send(response.setHeader('content-encoding', 'gzip'), extname(path), file.packed)
      else if (file) send(response, extname(path), file.plain)
      else response.writeHead(404).end('Not found')
    }
  }

  return {
    server,
    publish(published) {
      contents = published
    },
  }
}

/** Reads a JSON body. Pages of other sites cannot send this content type without permission. */
async function jsonOf(request: IncomingMessage): Promise<unknown> {
  if (request.headers['content-type'] !== 'application/json') throw new TypeError('expected JSON')
  return await json(request)
}

/** Body of `POST /liar`. */
function setLiar({ proxies }: PageContents, body: unknown): void {
  if (body !== null && body !== 'A' && body !== 'B') throw new TypeError('expected null, "A" or "B"')
  proxies.A.lies = body === 'A'
  proxies.B.lies = body === 'B'
}

/** Body of `POST /publish`. */
function changeOf(body: unknown): Change {
  const { op, domain } = (body ?? {}) as { op?: unknown; domain?: unknown }
  if ((op !== 'add' && op !== 'delete') || typeof domain !== 'string') {
    throw new TypeError('expected op ("add" or "delete") and domain')
  }
  return { op, domain }
}

function configOf({ proxies: { A, B, C }, databases, publisherKey }: PageContents): Config {
  return { servers: { A: A.url, B: B.url, C: C.url }, databases, publisherKey, hosted: true }
}

/** Scripts and WebAssembly from this origin only; connections to this origin and to the servers. */
export function policyOf(servers: readonly string[]): string {
  const own = ["script-src 'self' 'wasm-unsafe-eval'", "style-src 'self'", "img-src 'self'"]
  const connect = ["connect-src 'self'", ...servers.map(url => new URL(url).origin)].join(' ')
  return ["default-src 'none'", ...own, connect, "base-uri 'none'", "form-action 'none'"].join('; ')
}

function securityHeaders(contents: PageContents | undefined): Record<string, string> {
  const servers = contents ? Object.values(contents.proxies).map(({ url }) => url) : []
  return {
    'content-security-policy': `${policyOf(servers)}; frame-ancestors 'none'`,
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'cross-origin-opener-policy': 'same-origin',
    'cache-control': 'no-store',
  }
}

/** `link` headers: the browser connects to the servers before a script runs. */
function connections({ proxies: { A, B } }: PageContents): string[] {
  return [A, B].map(({ url }) => `<${url}>; rel=preconnect; crossorigin`)
}

/** For files whose names contain a hash of their contents. */
const FOREVER = 'public, max-age=31536000, immutable'

function send(response: ServerResponse, extension: string, body: string | Buffer): void {
  response.writeHead(200, { 'content-type': CONTENT_TYPES[extension] ?? 'application/json' }).end(body)
}

interface PageFile {
  readonly plain: Buffer
  /** gzip; safe, because the files are public */
  readonly packed: Buffer
}

/** Every file below `folder`, by its path in a URL. */
function readFiles(folder: string): Map<string, PageFile> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(entry => entry.isFile())
  return new Map(
    files.map(entry => {
      const path = join(entry.parentPath, entry.name)
      return [path.slice(folder.length).split(sep).join('/'), fileAt(path)]
    }),
  )
}

function fileAt(path: string): PageFile {
  const plain = readFileSync(path)
  return { plain, packed: gzipSync(plain) }
}
