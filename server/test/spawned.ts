// The `keyhush` command as a process, and all that it prints, until the test ends.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { decodeFenceReply, type FenceRequest, type Manifest, parseErrorReply } from '@keyhush/protocol'
import { expect, onTestFinished } from 'vitest'
import { PUBLISHER_KEY, signed } from '../../tests/support/publishing.js'
import { fenceRequest } from './helpers.js'

/** Its file, for Node. */
export const command = fileURLToPath(new URL('../bin/keyhush.js', import.meta.url))

/** Runs a program. `finished`: once it has ended, and has printed all. */
export function started(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const printed = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', text => {
      printed[name] += text
    })
  }
  const finished = once(child, 'close').then(([code]) => ({ code: code as number | null, ...printed }))
  return { child, printed, finished }
}

/** What makes a process of `keyhush` a wrong one: in a file below dist, `to` instead of `from`, which stands there once. */
export function planted(file: string, from: string, to: string): NodeJS.ProcessEnv {
  const url = new URL(`../dist/${file}`, import.meta.url)
  expect(readFileSync(url, 'utf8').split(from), `${file}: ${from}`).toHaveLength(2)
  const moduleOf = (source: string) => `data:text/javascript,${encodeURIComponent(source)}`
  const load = moduleOf(`export async function load(url, context, next) {
    const loaded = await next(url, context)
    if (url !== ${JSON.stringify(url.href)}) return loaded
    return { ...loaded, source: \`\${loaded.source}\`.replace(${JSON.stringify(from)}, ${JSON.stringify(to)}) }
  }`)
  return {
    NODE_OPTIONS: `--import=${moduleOf(`import { register } from 'node:module'; register(${JSON.stringify(load)})`)}`,
  }
}

/** One that serves, from when it says where. */
export async function serving(program: string, args: readonly string[], env?: NodeJS.ProcessEnv) {
  const server = started(program, args, env)
  const ended = server.finished.then(({ stderr }) => Promise.reject(new Error(stderr)))
  ended.catch(() => {}) // it does, later
  await Promise.race([once(server.child.stdout, 'data'), ended])
  return { ...server, url: /^listening on (http:\S+)\n$/.exec(server.printed.stdout)![1]! }
}

/** How what is sent ends: in what is expected, or with status and code. */
type Outcome<Good> = Good | [number, string]

/** A server of a store that its publisher may write to; on a disk of its own, if there is one. */
export async function storeServer(store: string, disk?: { with(...line: string[]): [string, string[]] }) {
  const serve = ['serve', '--port', '0', '--log-level', 'error', '--drain-seconds', '0']
  const args = [command, ...serve, '--store', store, '--publisher-key', PUBLISHER_KEY]
  const line = disk?.with(process.execPath, ...args) ?? ([process.execPath, args] as const)
  const { child, printed, finished, url } = await serving(...line)
  /** So that a reply that never comes shows where. */
  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`${url}${path}`, { ...init, signal: AbortSignal.timeout(15_000) })
  const outcome = async <Good>(reply: Response, good: (body: Uint8Array) => Good): Promise<Outcome<Good>> =>
    reply.status === 200
      ? good(new Uint8Array(await reply.arrayBuffer()))
      : [reply.status, parseErrorReply(await reply.text()).code]
  return {
    pid: child.pid!,
    ask,
    log: () => printed.stderr,
    async fence({ databaseId }: Manifest, ...asked: [FenceRequest['kind'], number, number?, Uint8Array?]) {
      const body = fenceRequest(databaseId, ...asked)
      return outcome(await ask('/v1/fence', { method: 'POST', body }), decodeFenceReply)
    },
    async publish(body: Uint8Array<ArrayBuffer>) {
      return outcome(await ask('/v1/epochs', { method: 'POST', body, headers: signed(body) }), () => 'published')
    },
    async stop() {
      child.kill('SIGTERM')
      expect((await finished).code).toBe(0)
    },
  }
}
