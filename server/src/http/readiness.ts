// Whether this process can answer queries, and whether a balancer should send it any: /healthz and /readyz. All databases of a
// process share one.

import type { FastifyInstance, onRequestHookHandler } from 'fastify'
import { Refusal } from '../base/refusal.js'

/** Whether this process answers, and why not. */
export class Readiness {
  #stopped: string | undefined
  #leaving: string | undefined
  readonly #needs: (() => string | undefined)[] = []
  readonly #parts: (readonly [publicly: string, part: () => string | undefined])[] = []

  /** What /readyz says. */
  get ready(): boolean {
    return this.#stopped === undefined && this.#leaving === undefined && this.#behind === undefined
  }

  get #behind(): string | undefined {
    return this.#needs.map(part => part()).find(reason => reason !== undefined)
  }

  /** Whether it is still answering, and about to stop. */
  get leaving(): boolean {
    return this.#leaving !== undefined
  }

  /**
   * `part` returns a problem, or undefined. The public /readyz then says `publicly`: words without addresses, paths or numbers. Lookups
   * are answered all the same.
   */
  watch(publicly: string, part: () => string | undefined): void {
    this.#parts.push([publicly, part])
  }

  /** While `part` returns a reason, /readyz is 503. Lookups are answered all the same. */
  needs(part: () => string | undefined): void {
    this.#needs.push(part)
  }

  /** What does not work at the moment, for the operator. It may name the store's host. */
  get problems(): string[] {
    return this.#parts.map(([, part]) => part()).filter(problem => problem !== undefined)
  }

  /** What does not work at the moment, for anybody. */
  get publicProblems(): string[] {
    const failing = this.#parts.filter(([, part]) => part() !== undefined).map(([publicly]) => publicly)
    return [...new Set(failing)]
  }

  /** From now on /readyz is 503, so that a balancer turns away. Lookups are answered all the same. */
  leave(reason: string): void {
    this.#leaving ??= reason
  }

  /** From now on nothing is answered, for good. The first reason stays. */
  stop(reason: string): void {
    this.#stopped ??= reason
  }

  /** Nothing is answered any more, for the core's memory is in doubt. */
  fail(): void {
    this.stop('this server has failed and is restarting')
  }

  /** Throws a `not_ready` Refusal after `stop`. */
  check(): void {
    if (this.#stopped !== undefined) throw new Refusal('not_ready', this.#stopped)
  }

  /** Throws a `not_ready` Refusal whenever this is not `ready`. */
  checkReady(): void {
    this.check()
    const reason = this.#leaving ?? this.#behind
    if (reason !== undefined) throw new Refusal('not_ready', reason)
  }

  /** `check` for routes that anybody may ask. */
  readonly hook: onRequestHookHandler = (_request, _reply, done) => {
    this.check()
    done()
  }
}

/** /healthz: 200 while the process runs. /readyz: 200 while it can answer and should be sent queries, with `problems`. */
export function healthRoutes(app: FastifyInstance, readiness: Readiness, problemsNow: () => string[]): void {
  app.get('/healthz', async (_request, reply) => reply.header('cache-control', 'no-store').send({ status: 'running' }))
  app.get('/readyz', async (_request, reply) => {
    reply.header('cache-control', 'no-store')
    readiness.checkReady()
    const problems = problemsNow()
    return reply.send(problems.length === 0 ? { status: 'ready' } : { status: 'ready', problems })
  })
}
