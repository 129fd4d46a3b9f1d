// Two servers of the visitor's own database, each in its own worker, and a `fetch` that reaches only these.

import type { ServerName } from '../backstage.js'
import type { FromWorker, ToWorker } from './messages.js'
import type { Built, Fault, Reply, Stage } from './server.js'

/** These hosts do not exist, so that no request can leave the page. */
export const URLS: Readonly<Record<ServerName, string>> = {
  A: 'https://server-a.invalid',
  B: 'https://server-b.invalid',
}

/** The file, or the browser, cannot make a database. */
export class FileError extends Error {
  override readonly name = 'FileError'
  readonly memory: boolean

  constructor({ reason, line, memory }: Fault) {
    super(line === undefined ? `${reason}.` : `Line ${line}: ${reason}.`)
    this.memory = memory
  }
}

export class OwnServers {
  readonly built: Built
  readonly #workers: Readonly<Record<ServerName, OwnWorker>>

  private constructor(workers: Readonly<Record<ServerName, OwnWorker>>, built: Built) {
    this.#workers = workers
    this.built = built
  }

  /** Both workers build the database. Calls `onStage` with the stage of the slower one. Throws FileError. */
  static async build(csv: Uint8Array, onStage: (stage: Stage) => void, signal: AbortSignal): Promise<OwnServers> {
    signal.throwIfAborted()
    const latest = new Map<OwnWorker, Stage>()
    const hear = (worker: OwnWorker, stage: Stage) => {
      latest.set(worker, stage)
      onStage([...latest.values()].reduce((one, other) => (progressOf(other) < progressOf(one) ? other : one)))
    }
    const workers = { A: new OwnWorker(hear), B: new OwnWorker(hear) }
    const stop = () => {
      for (const worker of Object.values(workers)) worker.stop(signal.reason)
    }
    signal.addEventListener('abort', stop)
    try {
      const [built, other] = await Promise.all([workers.A.build(csv), workers.B.build(csv)])
      if (built.manifestHash !== other.manifestHash) throw new Error('the two workers came to different databases')
      return new OwnServers(workers, built)
    } catch (error) {
      stop()
      throw error
    } finally {
      signal.removeEventListener('abort', stop)
    }
  }

  /** For `open({ fetch })`. */
  readonly fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const server = (['A', 'B'] as const).find(name => url.startsWith(`${URLS[name]}/`))
    if (server === undefined) throw new TypeError('there are two servers here, and no others')
    const path = new URL(url).pathname.replace('/own/', '/')
    const { status, body } = await this.#workers[server].ask(path, init.body as Uint8Array | undefined)
    init.signal?.throwIfAborted()
    return new Response(body, { status })
  }

  stop(): void {
    for (const worker of Object.values(this.#workers)) worker.stop(new TypeError('the servers have been stopped'))
  }
}

const STAGES = ['reading', 'placing', 'hashing'] as const

/** The share of the whole build, roughly: hashing takes about as long as the stages before it. */
export function progressOf({ stage, done }: Stage): number {
  return [0.3 * done, 0.3, 0.5 + 0.5 * done][STAGES.indexOf(stage)]!
}

class OwnWorker {
  readonly #worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' })
  readonly #waiting = new Map<number, (reply: Reply) => void>()
  readonly #built: Promise<Built>
  #fail: (reason: unknown) => void = () => {}
  #requests = 0

  constructor(onStage: (worker: OwnWorker, stage: Stage) => void) {
    this.#built = new Promise((resolve, reject) => {
      this.#fail = reject
      this.#worker.addEventListener('error', ({ message }) => reject(new Error(message || 'the worker did not start')))
      this.#worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => {
        if ('stage' in data) onStage(this, data.stage)
        else if ('built' in data) resolve(data.built)
        else if ('fault' in data) reject(new FileError(data.fault))
        else {
          this.#waiting.get(data.request)?.(data.reply)
          this.#waiting.delete(data.request)
        }
      })
    })
    this.#built.catch(() => {}) // `build` rejects with it
  }

  build(csv: Uint8Array): Promise<Built> {
    this.#tell({ build: new Uint8Array(csv) })
    return this.#built
  }

  ask(path: string, body: Uint8Array | undefined): Promise<Reply> {
    this.#requests += 1
    const request = this.#requests
    return new Promise(resolve => {
      this.#waiting.set(request, resolve)
      this.#tell({ request, path, body: body && new Uint8Array(body) })
    })
  }

  stop(reason: unknown): void {
    this.#worker.terminate()
    this.#fail(reason)
  }

  #tell(message: ToWorker): void {
    this.#worker.postMessage(message)
  }
}
