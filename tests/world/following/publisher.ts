// The publisher's machine: it runs the real `publish`, is killed between any two effects, and runs again with the record that it has
// kept. An effect is a request that leaves, a reply that comes, a write of the record, before and after.

import { PublisherRecord, type PublishOptions, type PublishSummary, publish } from '@keyhush/server'
import type { SigningKey } from '../../support/publishing.js'
import { hexKey } from './keys.js'
import type { World } from './world.js'

/** How long the publisher waits for a reply. Its own timers run by the machine's clock. */
const TIMEOUT_MS = 120_000

export interface RunPlan {
  readonly operations?: Uint8Array | undefined
  /** several sign each step */
  readonly key: SigningKey | readonly SigningKey[]
  /** publishes operations that were published before */
  readonly again?: boolean | undefined
  /** killed at this effect, from 1, or at the first of such a name; missing: not at all */
  readonly killAt?: number | RegExp | undefined
  /** the request at which it is killed arrives so much later; missing: never */
  readonly lateMs?: number | undefined
  /** seconds since 1970; missing: never */
  readonly expires?: number | undefined
  readonly generation?: boolean | undefined
  /** by how much its clock is wrong */
  readonly skewMs?: number | undefined
}

export type RunOutcome =
  | { readonly is: 'done'; readonly summary: PublishSummary }
  | { readonly is: 'failed'; readonly error: Error }
  | { readonly is: 'killed'; readonly at: string }

export class Publisher {
  /** survives kills */
  readonly record: PublisherRecord
  readonly #world: World
  /** the run under way */
  running: Promise<RunOutcome> | undefined
  runs = 0
  /** effects of the last run */
  effects = 0
  /** ends the process of the last run */
  kill = () => {}

  constructor(world: World) {
    this.#world = world
    this.record = new PublisherRecord()
  }

  /** One run. It resolves when the run has ended or is killed. */
  run(plan: RunPlan): Promise<RunOutcome> {
    const number = ++this.runs
    const world = this.#world
    world.note('publisher', `run ${number} begins`)
    const outcome = new Promise<RunOutcome>(resolve => {
      const life = new Life(world, plan, at => resolve({ is: 'killed', at }))
      this.kill = () => life.kill('the calm')
      const options: PublishOptions = {
        servers: world.servers.map(({ name }) => name),
        key: plan.key,
        record: life.effective(this.record),
        operations: plan.operations,
        again: plan.again,
        encoding: 'hex',
        expires: plan.expires,
        generation: plan.generation,
        trustBase: world.foundation.base,
        fetch: life.fetch,
        now: () => (world.date + (plan.skewMs ?? 0)) / 1000,
      }
      publish(options).then(
        summary => resolve({ is: 'done', summary }),
        error => resolve({ is: 'failed', error }),
      )
      this.effects = 0
      life.onEffect = count => {
        this.effects = count
      }
    })
    this.running = outcome
    void outcome.then(outcome => {
      if (this.running === undefined) return
      this.running = undefined
      const how = outcome.is === 'failed' ? `fails: ${outcome.error.message}` : outcome.is
      world.note(
        'publisher',
        `run ${number} of ${keysOf(plan).map(key => hexKey(key).slice(0, 4))} ${how}${outcome.is === 'killed' ? ` at ${outcome.at}` : ''}`,
      )
      world.count(`publish: ${outcome.is}`)
    })
    return outcome
  }
}

/** A process of the publisher. */
class Life {
  onEffect = (_count: number) => {}
  readonly #world: World
  readonly #plan: RunPlan
  readonly #killed: (at: string) => void
  #effects = 0
  #dead = false

  constructor(world: World, plan: RunPlan, killed: (at: string) => void) {
    this.#world = world
    this.#plan = plan
    this.#killed = killed
  }

  /** The record, whose writes are effects. */
  effective(record: PublisherRecord): PublisherRecord {
    return new Proxy(record, {
      get: (_target, name) => {
        const member: unknown = Reflect.get(record, name, record)
        if (typeof member !== 'function') return member
        return (...parameters: unknown[]) => {
          if (!String(name).startsWith('add')) return member.apply(record, parameters)
          return (async () => {
            await this.#effect(`${String(name)} begins`)
            const result = await member.apply(record, parameters)
            await this.#effect(`${String(name)} is done`)
            return result
          })()
        }
      },
    })
  }

  readonly fetch: typeof globalThis.fetch = async (input, init = {}) => {
    const world = this.#world
    const url = String(input)
    const server = world.servers.find(({ name }) => url.startsWith(`${name}/`))
    if (server === undefined) throw new TypeError(`nobody is at ${url}`)
    const path = url.slice(server.name.length)
    const method = init.method === 'POST' ? 'POST' : 'GET'
    const headers = Object.fromEntries(new Headers(init.headers).entries())
    const body = init.body == null ? undefined : new Uint8Array(await new Response(init.body as BodyInit).arrayBuffer())
    const asked = { method, body, headers } as const
    const what = `${method} ${path.slice(0, 40)} ${server.letter}`
    await this.#effect(`${what} leaves`, () => {
      const { lateMs } = this.#plan
      if (method === 'GET' || lateMs === undefined) return
      world.time.after(lateMs, () => {
        world.note('publisher', `a late ${what} arrives`)
        server.publish(path, asked).catch(() => {})
      })
    })
    const reply = server.publish(path, asked)
    reply.catch(() => {})
    const late = world.time.sleep(TIMEOUT_MS).then(() => {
      throw new DOMException('The operation was aborted due to timeout', 'TimeoutError')
    })
    late.catch(() => {})
    const { status, headers: sent, body: bytes } = await Promise.race([reply, late])
    await this.#effect(`the reply to ${what} (${status}) comes`)
    return new Response(bytes as Uint8Array<ArrayBuffer>, { status, headers: sent })
  }

  /** The process may be killed here, after which nothing in it goes on. */
  async #effect(what: string, lastly = () => {}): Promise<void> {
    if (this.#dead) return await new Promise(() => {})
    this.#effects++
    this.onEffect(this.#effects)
    const { killAt } = this.#plan
    if (killAt instanceof RegExp ? !killAt.test(what) : this.#effects !== killAt) return
    lastly()
    this.kill(what)
    await new Promise(() => {})
  }

  kill(at: string): void {
    this.#dead = true
    this.#killed(at)
  }
}

function keysOf({ key }: RunPlan): readonly SigningKey[] {
  return Array.isArray(key) ? (key as readonly SigningKey[]) : [key as SigningKey]
}
