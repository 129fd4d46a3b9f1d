// An app with React Native, built by Metro from the packed packages, and Hermes to run it in: the newest of npm that runs on Linux, 0.12.
// (React Native 0.88 has a newer one, whose compiler alone is on npm.) Its prompt reads a line, runs it, and what it has queued.

import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { ask } from '../../packages/react-native/test/network.js'
import { env as npm, pack, runWith, write } from '../package/packed.js'
import { temporaryFolder } from '../support/servers.js'

const HERE = import.meta.dirname
export const NATIVE = join(HERE, 'native.js')
const WORKSPACES = ['packages/protocol', 'packages/wasm', 'packages/client', 'packages/react-native']
const { NODE_ENV: _, ...inherited } = npm // of what compiles this; the app chooses its own
/** Without CI, Metro may wait for its watcher for ever. */
const env = { ...inherited, CI: '1', EXPO_OFFLINE: '1', EXPO_NO_TELEMETRY: '1' }
/** Expo's preset as it is for Hermes before classes. */
const FOR_THIS_HERMES = `const preset = require.resolve('babel-preset-expo', { paths: [require.resolve('expo/package.json')] })
module.exports = api => (api.cache(true), { presets: [[preset, { unstable_transformProfile: 'hermes-v0' }]] })
`
/** More than a lookup needs, with all its attempts. */
const RANDOM_BYTES = 2048

export interface Installed {
  /** the app's folder, with node_modules */
  readonly path: string
  /** Bundles an entry as an app ships it, or for this Hermes; returns the bundle. */
  bundle(entry: string, engine: 'shipped' | 'this Hermes'): Promise<string>
  remove(): Promise<void>
}

/** An app that has installed the tarballs, with these files. */
export async function installApp(files: Readonly<Record<string, string>> = {}): Promise<Installed> {
  const folder = await temporaryFolder()
  const path = join(folder.path, 'app')
  await mkdir(path)
  for (const name of ['package.json', 'package-lock.json']) await cp(join(HERE, 'app', name), join(path, name))
  const tarballs = await pack(WORKSPACES, folder.path)
  await runWith(env, path, 'npm', 'install', '--no-save', ...tarballs)
  await write(path, { 'app.json': '{ "expo": { "name": "app", "slug": "app" } }', ...files })
  return {
    path,
    async bundle(entry, engine) {
      const config = join(path, 'babel.config.js')
      if (engine === 'shipped') await rm(config, { force: true })
      else await writeFile(config, FOR_THIS_HERMES)
      const options = ['--platform', 'android', '--dev', 'false', '--bytecode', 'false', '--reset-cache']
      const out = `${entry}.bundle`
      await runWith(env, path, 'npx', 'expo', 'export:embed', '--entry-file', entry, '--bundle-output', out, ...options)
      return await readFile(join(path, out), 'utf8')
    },
    remove: () => folder.remove(),
  }
}

/** What the tests' app and Hermes have in common: `app.run`. */
export const ENTRY = {
  'entry.js': `import { run } from './app'\nglobalThis.app = { run }\n`,
}

export const programOf = ({ path }: Pick<Installed, 'path'>, name: 'hermes' | 'hermesc') =>
  join(path, 'node_modules/hermes-engine-cli', process.platform === 'darwin' ? 'osx-bin' : 'linux64-bin', name)

type Message =
  | ['timer', timer: number, ms: number]
  | ['request', id: number, { method: string; url: string; headers: [string, string][]; base64?: string }]
  | ['abort', id: number]
  | ['outcome', id: number, outcome: unknown]
  | ['exception' | 'log', ...unknown[]]

export class Hermes {
  readonly #process: ChildProcess
  readonly #timers = new Set<NodeJS.Timeout>()
  readonly #requests = new Map<number, AbortController>()
  readonly #commands = new Map<number, (outcome: unknown) => void>()
  /** what went wrong outside of commands */
  readonly failures: unknown[] = []
  /** while it is frozen: what comes when it thaws */
  #waiting: string[] | undefined

  private constructor(hermes: string) {
    const options = ['-Xes6-promise', '-Xmicrotask-queue', '-optimized-eval', '-w', '-prompt=', '-prompt2=']
    this.#process = spawn(hermes, options, { stdio: ['pipe', 'pipe', 'inherit'] })
    createInterface({ input: this.#process.stdout! }).on('line', line => {
      if (line.startsWith('@')) this.#hear(JSON.parse(line.slice(1)))
      else if (line.includes('Uncaught')) this.#fail(line)
    })
    this.#process.on('exit', () => this.#fail('Hermes has ended'))
    this.#process.stdin!.on('error', error => this.#fail(`${error}`)) // a reply that comes as it is killed is lost
  }

  get pid(): number {
    return this.#process.pid!
  }

  /** Starts Hermes with an app. */
  static async start(hermes: string, bundle: string, { random }: { readonly random: boolean }): Promise<Hermes> {
    const started = new Hermes(hermes)
    started.#evaluate(await readFile(NATIVE, 'utf8'))
    if (random) started.#send('phone.withRandomness()')
    started.#evaluate(bundle)
    return started
  }

  run(command: unknown): Promise<unknown> {
    const id = this.#commands.size
    return new Promise(resolve => {
      this.#commands.set(id, resolve)
      const digits = randomBytes(RANDOM_BYTES).toString('hex')
      this.#send(`phone.command(${id}, '${digits}', ${JSON.stringify(command) ?? 'undefined'})`)
    })
  }

  activate(): void {
    this.#send('phone.activate()')
  }

  /** From now on nothing reaches the app: no timer, no reply, no command. */
  freeze(): void {
    this.#waiting ??= []
  }

  /** Everything that was due comes at once, after so much time by the app's clock. */
  thaw(asleepMs: number): void {
    const waiting = this.#waiting ?? []
    this.#waiting = undefined
    this.#send(`phone.slept(${asleepMs})`)
    for (const line of waiting) this.#send(line)
  }

  async close(): Promise<void> {
    this.#process.removeAllListeners('exit')
    for (const timer of this.#timers) clearTimeout(timer)
    for (const request of this.#requests.values()) request.abort()
    if (this.#process.exitCode !== null) return
    const ended = once(this.#process, 'exit')
    this.#process.kill()
    await ended
  }

  #fail(message: string): void {
    this.failures.push(message)
    for (const settle of this.#commands.values()) settle({ error: { name: 'Error', message } })
  }

  #evaluate(program: string): void {
    this.#send(`(0, eval)(${JSON.stringify(program)})`)
  }

  /** One line, whose result is not printed. */
  #send(line: string): void {
    if (this.#waiting !== undefined) this.#waiting.push(line)
    else this.#process.stdin!.write(`void ${line}\n`)
  }

  #hear(message: Message): void {
    if (message[0] === 'timer') {
      const [, timer, ms] = message
      const due = setTimeout(() => {
        this.#timers.delete(due)
        this.#send(`phone.ring(${timer})`)
      }, ms)
      this.#timers.add(due)
    } else if (message[0] === 'request') void this.#request(message[1], message[2])
    else if (message[0] === 'abort') this.#requests.get(message[1])?.abort()
    else if (message[0] === 'outcome') this.#commands.get(message[1])!(message[2])
    else this.failures.push(message)
  }

  async #request(
    id: number,
    { method, url, headers, base64 }: (Message & ['request', ...unknown[]])[2],
  ): Promise<void> {
    const given = new AbortController()
    this.#requests.set(id, given)
    const body = base64 === undefined ? undefined : new Uint8Array(Buffer.from(base64, 'base64'))
    const reply = await ask({ url, method, headers: Object.fromEntries(headers), body }, given.signal).catch(() => {})
    if (!this.#requests.delete(id) || given.signal.aborted) return
    const whole = reply && { ...reply, size: reply.body.length, body: Buffer.from(reply.body).toString('base64') }
    this.#send(`phone.reply(${id}, ${JSON.stringify(whole)})`)
  }
}
