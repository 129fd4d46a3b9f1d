// A web page with the SDK in it, as an app would ship it: bundled, minified, under a strict content security policy.

import { readFile } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type * as sdk from '@keyhush/client'
import { type BuildOptions, build } from 'esbuild'
import type { Page } from 'puppeteer-core'

declare global {
  /** the SDK, on pages made here */
  var keyhush: typeof sdk
}

/** Bundles a module that may import the workspace's packages. */
export async function bundle(source: string, options: BuildOptions = {}): Promise<Uint8Array> {
  const { outputFiles } = await build({
    stdin: { contents: source, resolveDir: fileURLToPath(new URL('..', import.meta.url)) },
    bundle: true,
    minify: true,
    platform: 'browser',
    format: 'esm',
    target: 'es2022',
    write: false,
    ...options,
  })
  // Of several, the one that the others are parts of.
  return (outputFiles!.find(({ path }) => path.endsWith('stdin.js')) ?? outputFiles![0]!).contents
}

export interface Site {
  /** without a slash at its end */
  readonly url: string
  close(): Promise<void>
}

/** A web server on a port of the system's choosing. */
export async function serve(reply: RequestListener): Promise<Site> {
  const server = createServer(reply)
  await new Promise<void>(resolve => void server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections()
      await new Promise(resolve => void server.close(resolve))
    },
  }
}

const PAGE = '<!doctype html><title>Keyhush</title><link rel="icon" href="data:,"><script src="/script.js"></script>'

/** Serves a page with what a module exports as the global `name`. */
async function serveScript(source: string, name: string, headers: Record<string, string> = {}): Promise<Site> {
  const script = await bundle(source, { format: 'iife', globalName: name })
  return await serve((request, response) => {
    for (const [header, value] of Object.entries(headers)) response.setHeader(header, value)
    if (request.url === '/script.js') response.setHeader('content-type', 'text/javascript').end(script)
    else if (request.url === '/') response.setHeader('content-type', 'text/html; charset=utf-8').end(PAGE)
    else response.writeHead(404).end()
  })
}

/** Serves a page with one of the workspace's modules as the global `name`; `path` from the root of the repository. */
export function startModule(path: string, name: string): Promise<Site> {
  const file = fileURLToPath(new URL(`../../${path}`, import.meta.url))
  return serveScript(`export * from ${JSON.stringify(file)}`, name)
}

/** Serves a page with the SDK as `keyhush`, which may talk to `servers` alone. `scripts`: what its policy allows of them. */
export function startPage(servers: readonly string[], scripts = "'self' 'wasm-unsafe-eval'"): Promise<Site> {
  const policy = `default-src 'none'; script-src ${scripts}; img-src data:; frame-src 'self'; connect-src ${servers.join(' ')}`
  return serveScript(`export * from '@keyhush/client'`, 'keyhush', { 'content-security-policy': policy })
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
}

/** A web server that knows nothing but the files of a folder. `headers`: of every reply. */
export function serveFiles(folder: string, headers: Record<string, string> = {}): Promise<Site> {
  return serve(async (request, response) => {
    const asked = decodeURIComponent(new URL(request.url!, 'http://localhost').pathname)
    const path = asked.endsWith('/') ? `${asked}index.html` : asked
    const type = TYPES[extname(path)] ?? 'application/octet-stream'
    const file = await readFile(join(folder, path)).catch(() => undefined)
    if (file === undefined) response.writeHead(404).end()
    else response.writeHead(200, { ...headers, 'content-type': type }).end(file)
  })
}

/** Writes down what a page complains about: errors on its console, errors nobody caught, violations of its policy. */
export async function complaintsOf(page: Page): Promise<{ all(): Promise<string[]> }> {
  const complaints: string[] = []
  page.on('console', message => {
    if (message.type() === 'error' || message.type() === 'warn') complaints.push(`console: ${message.text()}`)
  })
  page.on('pageerror', error => void complaints.push(`uncaught: ${String(error)}`))
  await page.evaluateOnNewDocument(() => {
    const violations: string[] = []
    Object.assign(globalThis, { violations })
    document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
      violations.push(`policy: ${violatedDirective} ${blockedURI}`)
    })
  })
  return {
    async all() {
      const violations = await page.evaluate(() => (globalThis as unknown as { violations: string[] }).violations)
      return [...complaints, ...violations]
    },
  }
}
