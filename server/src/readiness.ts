// Whether this process can answer queries. One for the whole process: `/readyz` and `/v1/answer` follow it.

import { Refusal } from './refusal.js'

export class Readiness {
  #stopped: string | undefined

  get ready(): boolean {
    return this.#stopped === undefined
  }

  /** From now on nothing is answered, for good. The first reason stays. */
  stop(reason: string): void {
    this.#stopped ??= reason
  }

  /** Throws a `not_ready` Refusal after `stop`. */
  check(): void {
    if (this.#stopped !== undefined) throw new Refusal('not_ready', this.#stopped)
  }
}
