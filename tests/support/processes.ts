// The `keyhush` command as operators run it: child processes, each on a port of the system's choosing.

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { basename } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export const command = fileURLToPath(new URL('../../server/bin/keyhush.js', import.meta.url))
const collecting = new URL('../soak/collect.mjs', import.meta.url).href
const serve = ['serve', '--port', '0', '--log-level', 'warn', '--drain-seconds', '0']

/** Runs `keyhush …` to its end; returns what it printed. Throws if it fails. (server/test/command.ts runs it here.) */
export async function runKeyhushProcess(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [command, ...args])
  return stdout
}

export interface Command {
  /** how it has failed, and what it said; '': it came to its end */
  readonly failure: Promise<string>
  /** kill -9; resolves when it is gone */
  kill(): Promise<void>
}

/** Runs `keyhush …`, which may be killed on its way. */
export function startCommand(...args: string[]): Command {
  const child = spawn(process.execPath, [command, ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
  const orphaned = () => child.kill('SIGKILL')
  process.once('exit', orphaned)
  const said: Buffer[] = []
  child.stderr.on('data', (bytes: Buffer) => void said.push(bytes))
  const closed = once(child, 'close').finally(() => process.off('exit', orphaned))
  return {
    failure: closed.then(([code, signal]) => (code === 0 ? '' : `${code ?? signal} ${Buffer.concat(said)}`)),
    async kill() {
      child.kill('SIGKILL')
      await closed
    },
  }
}

export interface ServerProcess {
  readonly url: string
  readonly pid: number
  /** where its figures are, if it was started with `--metrics` */
  readonly figures: string | undefined
  /** stops it and waits; throws if it did not exit with 0 */
  stop(): Promise<void>
  /** kill -9; resolves when it is gone */
  kill(): Promise<void>
}

/** Runs `keyhush serve …` until it is stopped. */
export async function startServerProcess(...args: string[]): Promise<ServerProcess> {
  return await startListening(command, ...serve, ...args)
}

/** The same; it can report how much of its heap is in use after a collection. */
export async function startCollectingServer(
  ...args: string[]
): Promise<ServerProcess & { heapBytes(): Promise<number> }> {
  const child = spawn(process.execPath, ['--expose-gc', '--import', collecting, command, ...serve, ...args], {
    stdio: ['ignore', 'pipe', isWatched(args) ? 'pipe' : 'inherit', 'ipc'],
  })
  return {
    ...(await listening(child, command)),
    async heapBytes() {
      child.send('collect')
      const [bytes] = (await once(child, 'message')) as [number]
      return bytes
    },
  }
}

/** Runs a script that prints `listening on <address>`, and ends with 0 when it is asked to. */
export async function startListening(script: string, ...args: string[]): Promise<ServerProcess> {
  const child = spawn(process.execPath, [script, ...args], {
    stdio: ['ignore', 'pipe', isWatched(args) ? 'pipe' : 'inherit'],
  })
  return await listening(child, script)
}

const isWatched = (args: readonly string[]) => args.includes('--metrics')

async function listening(child: ChildProcess, script: string): Promise<ServerProcess> {
  const orphaned = () => child.kill('SIGKILL')
  process.once('exit', orphaned)
  const exited = once(child, 'exit').finally(() => process.off('exit', orphaned))
  const firstLine = once(createInterface(child.stdout!), 'line') as Promise<[string]>
  const figures = child.stderr === null ? undefined : figuresIn(child.stderr)
  const ended = exited.then(([code]) => {
    throw new Error(`${basename(script)} ended with code ${code} before it listened`)
  })
  ended.catch(() => {}) // it does, later
  const [line] = await Promise.race([firstLine, ended])
  const url = /^listening on (http:\S+)$/.exec(line)?.[1]
  if (url === undefined) throw new Error(`expected an address, got: ${line}`)
  return {
    url,
    pid: child.pid!,
    figures: await figures,
    async stop() {
      child.kill('SIGTERM')
      const [code, signal] = await exited
      if (code !== 0) throw new Error(`${basename(script)} ended with ${code ?? signal}`)
    },
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

/** The address of a server's figures from its log; other lines are passed on. */
function figuresIn(said: NodeJS.ReadableStream): Promise<string> {
  return new Promise(resolve => {
    createInterface(said).on('line', line => {
      const [, url] = /^keyhush: figures at (http:\S+)$/.exec(line) ?? []
      if (url === undefined) process.stderr.write(`${line}\n`)
      else resolve(url)
    })
  })
}
