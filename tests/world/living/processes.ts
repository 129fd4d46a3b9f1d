// A server that is a process of its own, the `keyhush` command with an LMDB file, and is killed with SIGKILL.

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ServerProcess, startServerProcess } from '../../support/processes.js'
import { PUBLISHER_KEY } from '../../support/publishing.js'
import type { Chance } from '../chance.js'
import type { Foundation } from './databases.js'
import type { Asked, Reply, RunningServer, Stream } from './servers.js'

export interface ProcessOptions {
  readonly foundation: Foundation
  /** epochs kept before the newest */
  readonly history: number
  /** where it keeps its database */
  readonly folder: string
}

/** Longer than a batch takes from its arrival to its reply. */
const MOST_MILLISECONDS = 12

export class ProcessServer implements RunningServer {
  readonly #arguments: readonly string[]
  #process: ServerProcess | undefined

  private constructor(args: readonly string[]) {
    this.#arguments = args
  }

  static async start({ foundation, history, folder }: ProcessOptions): Promise<ProcessServer> {
    await mkdir(folder, { recursive: true })
    const store = ['--store', join(folder, 'store'), '--dataset', foundation.path]
    const server = new ProcessServer([...store, '--publisher-key', PUBLISHER_KEY, '--history', `${history}`])
    await server.start()
    return server
  }

  get running(): boolean {
    return this.#process !== undefined
  }

  async ask(path: string, { method, body, headers = {} }: Asked): Promise<Reply> {
    if (this.#process === undefined) throw new TypeError('connection refused')
    const payload = body && { body: new Uint8Array(body) }
    const response = await fetch(this.#process.url + path, { method, headers, ...payload })
    const bytes = new Uint8Array(await response.arrayBuffer())
    return { status: response.status, headers: Object.fromEntries(response.headers), body: bytes }
  }

  async listen(): Promise<Stream> {
    if (this.#process === undefined) throw new TypeError('connection refused')
    const over = new AbortController()
    const { body } = await fetch(`${this.#process.url}/v1/events`, { signal: over.signal })
    const reader = body!.getReader()
    return { next: async () => (await reader.read()).value, end: () => over.abort() }
  }

  async kill(): Promise<void> {
    const running = this.#process
    this.#process = undefined
    await running?.kill()
  }

  async start(): Promise<void> {
    this.#process = await startServerProcess(...this.#arguments)
  }

  async meanwhile(chance: Chance): Promise<void> {
    await sleep(chance.below(MOST_MILLISECONDS))
  }

  async remove(): Promise<void> {
    await this.#process?.stop()
    this.#process = undefined
  }
}
