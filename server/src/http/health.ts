// Health and figures on a thread and a port of their own, so that they answer also while the thread that answers everything
// else is held. That one gives the replies as long as it can, and a sign of life ten times a second.

import type { AddressInfo } from 'node:net'
import { Worker } from 'node:worker_threads'
import type { FastifyInstance } from 'fastify'
import type { Beginning, HealthData, HealthQuestion, HealthReply } from './health-thread.js'

const BEAT_MILLISECONDS = 100

export interface HealthOptions {
  readonly host: string
  /** 0: any that is free */
  readonly port: number
  /** a thread that has not replied for so long is held, and the process not ready; default 1000 */
  readonly heldMilliseconds?: number | undefined
}

/** `/healthz` and `/readyz` on a thread and a port of their own, which answer while the event loop is held. */
export class Health {
  readonly address: AddressInfo
  readonly #worker: Worker
  readonly #beating: NodeJS.Timeout

  private constructor(address: AddressInfo, worker: Worker, beating: NodeJS.Timeout) {
    this.address = address
    this.#worker = worker
    this.#beating = beating
  }

  /**
   * `replies` gives the replies, and need not listen itself.
   * @throws {Error} the system's, if it cannot listen there
   * @example
   * const health = await Health.listen(app, { host: '127.0.0.1', port: 9901 })
   */
  static async listen(replies: FastifyInstance, options: HealthOptions): Promise<Health> {
    const { host, port, heldMilliseconds = 1000 } = options
    const beat = new SharedArrayBuffer(8)
    const beats = new BigInt64Array(beat)
    const live = () => void Atomics.store(beats, 0, process.hrtime.bigint())
    live()
    const workerData: HealthData = { host, port, heldMilliseconds, beat, beatMilliseconds: BEAT_MILLISECONDS }
    const worker = new Worker(new URL('./health-thread.js', import.meta.url), { workerData, execArgv: [] })
    const beginning = await new Promise<Beginning>((resolve, reject) => {
      worker.once('message', resolve)
      worker.once('error', reject)
    })
    if (!('listening' in beginning)) {
      await worker.terminate()
      throw Object.assign(new Error(beginning.message), beginning)
    }
    worker.removeAllListeners('error')
    worker.on('error', error => replies.log.error({ err: error }, 'the thread that has health has failed'))
    worker.on('message', ({ id, path }: HealthQuestion) => {
      const reply = replies.inject({ method: 'GET', url: path }).then(({ statusCode, headers, body }) => {
        const reply: HealthReply = { id, status: statusCode, type: `${headers['content-type']}`, body }
        worker.postMessage(reply)
      })
      reply.catch(() => {}) // the other thread waits in vain, and says so
    })
    worker.unref()
    return new Health(beginning.listening, worker, setInterval(live, BEAT_MILLISECONDS).unref())
  }

  /** Hangs up on whoever is connected. */
  async close(): Promise<void> {
    clearInterval(this.#beating)
    await this.#worker.terminate()
  }
}
