// A tab: one process of the client, until it is closed or killed. It runs the real SDK. The world decides when, and whether, each
// request to its environment completes.

import type { KeyhushMap, MapEvent } from '@keyhush/client'
import type { StateStore } from '@keyhush/client/environment'
import type { Disk } from './disk.js'
import { type Distance, storeOn } from './store.js'

/** What an app asks. */
export interface Asking {
  /** for the trace */
  readonly what: string
  ask(map: KeyhushMap, signal: AbortSignal): Promise<unknown>
}

export type Outcome = { readonly value: unknown } | { readonly error: unknown }

/** A call of an app. `Facts`: what the world records when it begins. */
export type Call<Tab, Question, Facts> = Facts & {
  readonly tab: Tab
  readonly what: string
  /** undefined: it is not a lookup */
  readonly question: Question | undefined
  readonly giveUp: AbortController
  outcome: Outcome | undefined
}

/** What a tab needs of the world that it is in. */
interface Surroundings<Tab, Question, Facts> {
  comes(who: Tab, what: string): Promise<void>
  note(who: Tab, what: string): void
  count(what: string): void
  journalsLookLong(result: unknown): unknown
  ended(call: Call<Tab, Question, Facts>, outcome: Outcome): void
  heard(tab: Tab, event: MapEvent): void
}

/** `Tab`: the class that extends it. */
export abstract class ClientTab<Tab, Question extends Asking, Facts extends object> {
  readonly name: string
  readonly calls: Call<Tab, Question, Facts>[] = []
  readonly events: MapEvent[] = []
  map: KeyhushMap | undefined
  state: 'running' | 'frozen' | 'dead' = 'running'
  protected abstract readonly world: Surroundings<Tab, Question, Facts>

  readonly #self = this as unknown as Tab

  constructor(number: number) {
    this.name = `tab ${number}`
  }

  protected abstract facts(): Facts

  /** Number of calls under way. */
  get waiting(): number {
    return this.calls.filter(({ outcome }) => outcome === undefined).length
  }

  ask(question: Question): Call<Tab, Question, Facts> {
    return this.call(question.what, question, signal => question.ask(this.map!, signal))
  }

  reset(): Call<Tab, Question, Facts> {
    return this.call('reset', undefined, signal => this.map!.reset({ signal }))
  }

  close(): Call<Tab, Question, Facts> {
    const { map } = this
    this.map = undefined
    return this.call('close', undefined, () => map!.close())
  }

  protected call(
    what: string,
    question: Question | undefined,
    work: (signal: AbortSignal) => Promise<unknown>,
  ): Call<Tab, Question, Facts> {
    const giveUp = new AbortController()
    const call = { ...this.facts(), ...{ tab: this.#self, what, question, giveUp, outcome: undefined } }
    this.calls.push(call)
    this.world.note(this.#self, `${what} …`)
    this.begins(call)
    const end = (outcome: Outcome) => {
      if (this.state === 'dead') return
      Object.assign(call, { outcome })
      this.world.ended(call, outcome)
    }
    work(giveUp.signal).then(
      value => end({ value }),
      error => end({ error }),
    )
    return call
  }

  /** A call is about to begin. */
  protected begins(_call: Call<Tab, Question, Facts>): void {}

  protected hear(event: MapEvent): void {
    if (this.state === 'dead') return
    this.events.push(event)
    this.world.note(this.#self, `hears: ${Object.values(event).join(' ')}`)
    this.world.heard(this.#self, event)
  }

  protected comes(what: string): Promise<void> {
    return this.world.comes(this.#self, what)
  }

  protected mount(
    disk: Disk,
    distance: Pick<Distance, 'inOrder' | 'fails' | 'wrote' | 'flushed'> & Partial<Distance>,
  ): StateStore {
    const { world } = this
    return storeOn(disk, {
      comes: what => this.comes(what),
      note: what => world.note(this.#self, what),
      count: what => world.count(what),
      reported: result => world.journalsLookLong(result),
      ...distance,
    })
  }
}
