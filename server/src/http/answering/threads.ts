// Threads that answer queries beside the one that has the core, on the one copy of the records. Each listens on a port of its
// own, for whoever distributes requests in front of them: sockets that several threads of a process share belong to none of
// them, and when one ended, its sockets would be closed for all.
//
// They read the core's memory only, through the gate. One that ends is started again, on its port.

import { MessageChannel, Worker } from 'node:worker_threads'
import { loadCore, type WorkerRoomHandle, type WorkerStackHandle } from '@keyhush/wasm'
import type { FastifyInstance } from 'fastify'
import type { Epoch } from '../../database/epochs.js'
import { keepOut } from '../../database/readers.js'
import type { UpdatableDatabase } from '../../database/updatable.js'
import type { OwnAnswers } from '../own-answers.js'
import { describeError, refusalOf } from '../plugins/errors.js'
import type { OwnCounts } from '../plugins/rate-limit.js'
import type { Readiness } from '../readiness.js'
import type { UnsentOptions } from '../unsent.js'
import { Gate } from './gate.js'
import type {
  Figures,
  FromThread,
  Known,
  KnownDatabase,
  KnownEpoch,
  KnownSuite,
  Listening,
  Question,
  ThreadData,
  ToThread,
} from './messages.js'

/** A database whose queries they answer. */
export interface AnsweredDatabase {
  readonly prefix: string
  readonly answers: OwnAnswers
  readonly updatable: UpdatableDatabase | undefined
  readonly counts: OwnCounts
}

export interface AnswerThreadsOptions
  extends Pick<
    ThreadData,
    'parts' | 'allowOrigins' | 'trustProxy' | 'rateLimit' | 'shedAfter' | 'logLevel' | 'isTimed'
  > {
  /** how many */
  readonly threads: number
  readonly readiness: Readiness
  readonly unsent: UnsentOptions | undefined
  readonly logStream: { write(line: string): void } | undefined
}

/** A thread's, and then that of the one that takes its place: later there may be no more. */
interface Memory {
  readonly stack: WorkerStackHandle
  readonly room: WorkerRoomHandle
}

interface Thread {
  readonly worker: Worker
  readonly news: MessageChannel['port1']
  /** settles once it has ended */
  readonly ended: Promise<void>
}

/** What a thread is asked, and answers, at a time. */
const ROOM_BYTES = 256 * 1024

/** So much later a thread that has ended is started again, and again if that fails. */
const AGAIN_MILLISECONDS = 1000

/** A thread that has been told to end has so long for it, which is more than it takes itself. */
const END_MILLISECONDS = 12_000

/** And for its figures. */
const FIGURES_MILLISECONDS = 500

export class AnswerThreads {
  /** those that have ended by themselves */
  ends = 0
  readonly #app: FastifyInstance
  readonly #databases: readonly AnsweredDatabase[]
  readonly #options: AnswerThreadsOptions
  readonly #gate: Gate
  readonly #known = new WeakMap<Epoch, readonly KnownSuite[]>()
  #told: Known = { version: 0, databases: [] }
  /** what `#told` was made of */
  #epochs: readonly Epoch[] = []
  #memories: readonly Memory[] = []
  readonly #threads = new Map<number, Thread>()
  readonly #figures = new Map<number, (figures: Figures) => void>()
  readonly #ends: (() => void)[] = []
  #host = ''
  #asked = 0
  #closing = false

  constructor(app: FastifyInstance, databases: readonly AnsweredDatabase[], options: AnswerThreadsOptions) {
    this.#app = app
    this.#databases = databases
    this.#options = options
    this.#gate = new Gate(
      options.threads,
      version => this.#publish(version),
      () => this.#toAll({ tell: 'opened' }),
    )
    app.addHook('preClose', async () => {
      this.#closing = true
      this.#toAll({ tell: 'close' })
    })
    app.addHook('onClose', () => this.#end())
  }

  /** Threads that are running. */
  get running(): number {
    return this.#threads.size
  }

  /**
   * Has each thread listen: the first on this port, the next on the next one, and so on; 0: any that are free. Once. Rejects
   * with the system's error if one cannot; the app is to be closed then.
   */
  async listen({ host, port }: { readonly host: string; readonly port: number }): Promise<readonly Listening[]> {
    this.#host = host
    this.#ends.push(keepOut(this.#gate))
    for (const { updatable } of this.#databases) {
      if (updatable !== undefined) this.#ends.push(updatable.listen(() => this.#renew()))
    }
    this.#gate.renew()
    const core = await loadCore()
    const own = () => ({ stack: core.newWorkerStack(), room: core.newWorkerRoom(ROOM_BYTES) })
    this.#memories = Array.from({ length: this.#options.threads }, own)
    return Promise.all(this.#memories.map((_, number) => this.#start(number, port === 0 ? 0 : port + number)))
  }

  /** Of each that says them in time. */
  figures(): Promise<readonly Figures[]> {
    const all = Array.from(this.#threads.values(), async thread => {
      const id = this.#asked++
      let timer: NodeJS.Timeout | undefined
      const figures = await new Promise<Figures>(resolve => {
        this.#figures.set(id, resolve)
        timer = setTimeout(resolve, FIGURES_MILLISECONDS, [])
        this.#to(thread, { tell: 'figures', id })
      })
      clearTimeout(timer)
      this.#figures.delete(id)
      return figures
    })
    return Promise.all(all)
  }

  async #start(number: number, port: number): Promise<Listening> {
    const core = await loadCore()
    const module = await core.workerModule()
    if (this.#closing) throw new Error('the server is closing')
    const { stack, room } = this.#memories[number]!
    const { port1: news, port2 } = new MessageChannel()
    const workerData: ThreadData = {
      ...{ thread: number, host: this.#host, port, known: this.#told, words: this.#gate.words, news: port2 },
      kernels: { module, memory: core.memory, stackEnd: stack.end },
      room: { start: room.start, bytes: ROOM_BYTES },
      databases: this.#databases.map(({ prefix, answers }) => ({ prefix, longest: answers.longest })),
      ...pick(this.#options),
    }
    const url = new URL('./thread.js', import.meta.url)
    const worker = new Worker(url, { workerData, transferList: [port2], execArgv: [] })
    let end = () => {}
    const ended = new Promise<void>(resolve => {
      end = resolve
    })
    const thread: Thread = { worker, news, ended }
    this.#threads.set(number, thread)
    const tell = (tell: 'leave' | 'stop') => (reason: string) => this.#to(thread, { tell, reason })
    const unfollow = this.#options.readiness.follow({ leave: tell('leave'), stop: tell('stop') })
    return new Promise((resolve, reject) => {
      let listens: Listening | undefined
      worker.on('message', (message: FromThread) => {
        if ('listening' in message) {
          listens = message.listening
          resolve(listens)
        } else if ('failed' in message) {
          reject(Object.assign(new Error(message.failed.message), message.failed))
          void worker.terminate()
        } else {
          this.#heard(thread, message)
        }
      })
      worker.on('error', error => {
        this.#app.log.error(describeError(error), 'a thread that answers has failed')
        reject(error)
      })
      worker.on('exit', () => {
        this.#threads.delete(number)
        this.#gate.ended(number)
        news.close()
        unfollow()
        end()
        reject(new Error('a thread that answers has ended before it listened'))
        if (listens !== undefined && !this.#closing) this.#again(number, listens.port)
      })
    })
  }

  #again(number: number, port: number): void {
    this.ends++
    this.#app.log.error({ thread: number }, 'a thread that answers has ended; another one is to take its place')
    const start = () => {
      if (this.#closing) return
      this.#start(number, port).catch(error => {
        this.#app.log.error(describeError(error), 'a thread that answers cannot begin')
        this.#later(start)
      })
    }
    this.#later(start)
  }

  #later(start: () => void): void {
    setTimeout(start, AGAIN_MILLISECONDS).unref()
  }

  #heard(thread: Thread, message: Exclude<FromThread, { listening: unknown } | { failed: unknown }>): void {
    if ('trapped' in message) {
      const error = Object.assign(new Error('a thread that answers has trapped'), { name: 'RuntimeError' })
      this.#databases[0]!.answers.trapped(error)
    } else if ('figures' in message) {
      this.#figures.get(message.id)?.(message.figures)
    } else {
      const { id, question } = message
      this.#answer(question).then(
        reply => this.#to(thread, { id, reply }),
        error => {
          const { statusCode, reply } = refusalOf(this.#app, error)
          this.#to(thread, { id, refusal: { statusCode, reply } })
        },
      )
    }
  }

  async #answer(question: Question): Promise<unknown> {
    switch (question.kind) {
      case 'judge':
        return this.#databases[question.database]!.answers.judge(question.claim)
      case 'reply':
        return this.#databases[question.database]!.answers.reply(question.body)
      case 'count':
        return this.#databases[question.database]!.counts.count(question.client, question.queries)
      case 'renew':
        return this.#renew()
      case 'log':
        this.#options.logStream?.write(question.lines)
    }
    return undefined
  }

  /** Tells of epochs that have come or gone. Memory is as it was: what changes it goes through the gate. */
  #renew(): void {
    const epochs = this.#answerable()
    const same = epochs.length === this.#epochs.length && epochs.every((epoch, i) => epoch === this.#epochs[i])
    if (same) return
    this.#gate.renew()
    this.#toAll({ tell: 'opened' })
  }

  #answerable(): readonly Epoch[] {
    return this.#databases.flatMap(({ answers }) => [...answers.epochs.answerable(), answers.epochs.newest])
  }

  #publish(version: number): void {
    this.#epochs = this.#answerable()
    this.#told = { version, databases: this.#databases.map(({ answers }) => this.#knownOf(answers)) }
    for (const { news } of this.#threads.values()) news.postMessage(this.#told)
  }

  #knownOf({ epochs }: OwnAnswers): KnownDatabase {
    const { generation, epoch } = epochs.newest.manifest
    const known = epochs.answerable().map(epoch => this.#knownEpoch(epoch))
    return {
      databaseId: epochs.databaseId,
      newest: { generation, epoch },
      epochs: known.filter(epoch => epoch !== undefined),
    }
  }

  /** undefined: nobody can answer it at the moment, or ever again. */
  #knownEpoch(epoch: Epoch): KnownEpoch | undefined {
    const { manifestBytes, manifestHash } = epoch
    try {
      const { handle, previous } = epoch.shared()
      const words = handle.entriesDescriptor(previous)
      const suites = this.#known.get(epoch) ?? suitesOf(epoch)
      this.#known.set(epoch, suites)
      return { manifestBytes, manifestHash, suites, words }
    } catch (error) {
      this.#app.log.error(describeError(error), 'threads that answer cannot be told of an epoch')
      return undefined
    }
  }

  #to({ worker }: Thread, message: ToThread): void {
    worker.postMessage(message)
  }

  #toAll(message: ToThread): void {
    for (const thread of this.#threads.values()) this.#to(thread, message)
  }

  /** They have been told to. */
  async #end(): Promise<void> {
    const all = Array.from(this.#threads.values(), async ({ worker, ended }) => {
      const timer = setTimeout(() => void worker.terminate(), END_MILLISECONDS)
      await ended
      clearTimeout(timer)
    })
    await Promise.all(all)
    for (const end of this.#ends.splice(0)) end()
    for (const { stack, room } of this.#memories) {
      stack.free()
      room.free()
    }
    this.#memories = []
  }
}

function suitesOf(epoch: Epoch): KnownSuite[] {
  return Array.from(epoch.suites, number => {
    const limits = epoch.queryLimits(number)
    const one = epoch.answerBytes(1, number)
    return { number, limits, answerBytes: [one, limits[1]! > 1 ? epoch.answerBytes(2, number) - one : 0] }
  })
}

function pick(options: AnswerThreadsOptions) {
  const { parts, unsent, shedAfter, allowOrigins, trustProxy, rateLimit, logLevel, isTimed } = options
  return { parts, unsent, shedAfter, allowOrigins, trustProxy, rateLimit, logLevel, isTimed }
}
