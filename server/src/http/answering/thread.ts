// A thread that answers queries: an event loop, a port and sockets of its own, and the routes `POST …/v1/answer`, in the same frame
// and with the same checks as the thread that has the core. What decides for all threads (the fence, rates), and queries of
// schemes that are answered by more than copying, it asks that one for.

import { parentPort, receiveMessageOnPort, threadId, workerData } from 'node:worker_threads'
import { withVerdict } from '@keyhush/protocol'
import { startEntries } from '@keyhush/wasm/worker'
import type { FastifyPluginAsync } from 'fastify'
import { Refusal } from '../../base/refusal.js'
import { type Answered, answerQuery } from '../answer.js'
import { frame, surround } from '../frame.js'
import { Metrics } from '../metrics.js'
import { isTrap } from '../own-answers.js'
import { takeBytes } from '../plugin.js'
import { limitRates, ofQueries } from '../plugins/rate-limit.js'
import { Readiness } from '../readiness.js'
import { type Answers, answerRoute } from '../routes/answer.js'
import type { Routes } from '../routes/types.js'
import { Entrance } from './gate.js'
import { Elsewhere, KnownEpochs } from './known.js'
import { Lines } from './lines.js'
import {
  type FromThread,
  type Known,
  type Listening,
  type Question,
  type Replies,
  refusedAs,
  type ThreadData,
  type ToThread,
} from './messages.js'

/** What is under way may take so long when it ends. */
const FINISH_MILLISECONDS = 10_000

const data = workerData as ThreadData
const entries = startEntries(data.kernels, data.room)
const entrance = new Entrance(data.words, data.thread)
const databases = data.known.databases.map(known => new KnownEpochs(entries, known))
let { version } = data.known
const waiting = new Map<number, { resolve(reply: never): void; reject(error: Error): void }>()
let asked = 0
let onOpened: (() => void)[] = []

function send(message: FromThread): void {
  parentPort!.postMessage(message)
}

function ask<K extends Question['kind']>(question: Question & { readonly kind: K }): Promise<Replies[K]> {
  const id = asked++
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject })
    send({ id, question })
  })
}

/** Takes up what was told up to now. */
function learn(): void {
  while (version !== entrance.version) {
    // It was sent before the version was another.
    const { message } = receiveMessageOnPort(data.news) as { message: Known }
    version = message.version
    for (const [i, known] of message.databases.entries()) databases[i]!.learn(known)
  }
}

class ThreadAnswers implements Answers {
  readonly longest: number
  readonly #database: number

  constructor(longest: number, database: number) {
    this.longest = longest
    this.#database = database
  }

  reply(body: unknown, reserve: (bytes: number) => void, isRenewed = false): Uint8Array | Promise<Uint8Array> {
    if (!entrance.enter()) {
      return new Promise<void>(resolve => onOpened.push(resolve)).then(() => this.reply(body, reserve, isRenewed))
    }
    const database = this.#database
    try {
      const { answer, claim } = this.#answer(body, reserve)
      return claim === undefined
        ? answer
        : ask({ kind: 'judge', database, claim }).then(verdict => withVerdict(answer, verdict))
    } catch (error) {
      if (error instanceof Elsewhere) return ask({ kind: 'reply', database, body: new Uint8Array(body as Uint8Array) })
      if (isRenewed || !(error instanceof Refusal) || error.code !== 'epoch_unknown') throw error
      return ask({ kind: 'renew' }).then(() => this.reply(body, reserve, true))
    }
  }

  /** Once inside, which it leaves. */
  #answer(body: unknown, reserve: (bytes: number) => void): Answered {
    try {
      learn()
      return answerQuery(databases[this.#database]!, body, reserve)
    } catch (error) {
      if (isTrap(error)) {
        readiness.stop('this server has failed and is restarting')
        send({ trapped: error.stack ?? error.message })
      }
      throw error
    } finally {
      entrance.leave()
    }
  }
}

const readiness = new Readiness()
const stream = new Lines(lines => ask({ kind: 'log', lines }))
const { app, unsent, bodies, shedding, connections } = frame({
  ...data,
  readiness,
  shedding: data.shedAfter === undefined ? undefined : { milliseconds: data.shedAfter },
  log: data.logLevel === undefined ? undefined : { level: data.logLevel, stream },
})
stream.tell = lost => app.log.warn({ lost, thread: threadId }, 'lines of the log were lost: there were too many')
const metrics = data.isTimed ? new Metrics(false) : undefined
metrics?.time(app)
metrics?.watchLoad({ unsent, bodies, shedding, connections })
await surround(app, {
  allowOrigins: data.allowOrigins,
  databases: data.databases.map(({ prefix }) => prefix || '/'),
  publisherPaths: new Set(),
})
for (const [database, { prefix, longest }] of data.databases.entries()) {
  const route: FastifyPluginAsync = async scope => {
    takeBytes(scope, bodies)
    const [limit] = await limitRates(scope, [data.rateLimit])
    const counts = { count: (client: string, queries: number) => ask({ kind: 'count', database, client, queries }) }
    const rateLimit = limit && ofQueries({ ...limit, counts })
    answerRoute(scope as unknown as Routes, {
      ...{ answers: new ThreadAnswers(longest, database), readiness, unsent, rateLimit },
    })
  }
  await app.register(route, { prefix })
}

parentPort!.on('message', async (message: ToThread) => {
  if ('tell' in message) {
    if (message.tell === 'opened') {
      learn() // whether anybody asks or not: what is told must not pile up
      const opened = onOpened
      onOpened = []
      for (const call of opened) call()
    } else if (message.tell === 'figures') {
      send({ figures: (await metrics?.figures()) ?? [], id: message.id })
    } else if (message.tell === 'close') {
      setTimeout(() => app.server.closeAllConnections(), FINISH_MILLISECONDS).unref()
      await app.close()
      await stream.written()
      process.exit() // of a thread, that is: it ends
    } else {
      readiness[message.tell](message.reason)
    }
    return
  }
  const question = waiting.get(message.id)
  waiting.delete(message.id)
  if ('refusal' in message) question?.reject(refusedAs(message.refusal))
  else question?.resolve(message.reply as never)
})

try {
  await app.listen({ host: data.host, port: data.port })
  send({ listening: app.addresses()[0] as Listening })
} catch (error) {
  const { message, code, syscall, errno, address, port } = error as NodeJS.ErrnoException & Record<string, unknown>
  const failed = { message, code, syscall, errno, address, port } as unknown as NodeJS.ErrnoException
  send({ failed })
}
