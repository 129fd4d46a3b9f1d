// What lives that are written by hand need: a world of two calm servers at first, maps that open at once, and publishing that succeeds.

import { get } from '../questions.js'
import { type Grounds, layGrounds } from './foundations.js'
import { hexKey, KEYS } from './keys.js'
import type { RunOutcome, RunPlan } from './publisher.js'
import { type Call, type Plan, Profile, Tab } from './tab.js'
import { linesOf } from './truth.js'
import { type Violation, World, type WorldOptions } from './world.js'

const MINUTE = 60_000

export const KEY = hexKey(KEYS[0])

/** Longer than any call of the SDK may take that has no timeoutMs of its own. */
const MOST_MS = 30 * MINUTE

let laid: Promise<Grounds> | undefined

/** Built once a process. */
export function grounds(): Promise<Grounds> {
  laid ??= layGrounds()
  return laid
}

export async function leaveGrounds(): Promise<void> {
  await (await laid)?.remove()
  laid = undefined
}

interface Setting extends Partial<Omit<WorldOptions, 'foundation'>> {
  readonly ground?: keyof Omit<Grounds, 'remove'>
  readonly seed?: number
}

export class Stage {
  readonly world: World
  #edits = 0

  private constructor(world: World) {
    this.world = world
  }

  /** Runs `play` in a world of its own, and throws if a rule is broken; `off`: but for these. Returns what it returns. */
  static async play<T>(setting: Setting, play: (stage: Stage) => Promise<T>, off: readonly string[] = []): Promise<T> {
    const { ground = 'keyed', seed = 1, servers = 2, ...rest } = setting
    const world = await World.begin(seed, { foundation: (await grounds())[ground], servers, ...rest })
    for (const rule of off) world.rules.off.add(rule)
    try {
      const result = await play(new Stage(world))
      if (world.violations.length > 0) throw new Error(said(world.violations))
      return result
    } catch (error) {
      const { stack, message } = error as Error
      throw new Error([message, stack, ...world.trace.slice(-60), said(world.violations)].join('\n'), { cause: error })
    } finally {
      await world.end()
    }
  }

  /** All servers, for a plan. */
  get all(): number[] {
    return [...this.world.servers.keys()]
  }

  tab(plan: Partial<Plan> = {}, profile = new Profile()): Tab {
    const whole: Plan = { servers: this.all, mode: 'local', publisherKey: KEY, storage: 'memory', push: true, ...plan }
    return new Tab(this.world, whole, profile)
  }

  /** A map that is open. */
  async open(plan: Partial<Plan> = {}, profile?: Profile): Promise<Tab> {
    const tab = this.tab(plan, profile)
    await this.done(tab.open())
    return tab
  }

  /** Waits for the end of a call. */
  async end(call: Call, mostMs = MOST_MS): Promise<Call> {
    if (!(await this.world.time.until(() => call.outcome !== undefined, mostMs))) {
      throw new Error(`${call.tab.name}: ${call.what} has not ended after ${mostMs} ms`)
    }
    return call
  }

  /** Waits for a call that has to succeed, and returns how long it took. */
  async done(call: Call): Promise<number> {
    const { outcome, begun, ended } = await this.end(call)
    if (outcome !== undefined && 'error' in outcome) throw outcome.error
    return ended - begun
  }

  /** Waits for a call that has to fail, and returns its error. */
  async fails(call: Call): Promise<Error & { code?: string }> {
    const { outcome, what } = await this.end(call)
    if (outcome === undefined || !('error' in outcome)) throw new Error(`${what} was to fail, and has succeeded`)
    return outcome.error as Error
  }

  get(tab: Tab): Promise<number> {
    return this.done(tab.ask(get('key 1')))
  }

  pass(ms: number): Promise<void> {
    return this.world.time.pass(ms)
  }

  /** A value that no epoch has had yet. */
  edit(key = 'key 1'): Uint8Array {
    const value = new TextEncoder().encode(`edit ${++this.#edits}`)
    return linesOf([{ op: 'edit', key, value }])
  }

  /** So many keys that a generation pays afterwards. */
  growth(): Uint8Array {
    const { newest } = this.world.truth
    const value = new Uint8Array(2).fill(0x67)
    const added = Math.ceil(newest.size * 0.6)
    return linesOf(Array.from({ length: added }, (_, i) => ({ op: 'add', key: `grown ${newest.epoch} ${i}`, value })))
  }

  /** A run that may be killed. */
  run(plan: Partial<RunPlan>): Promise<RunOutcome> {
    return this.world.time.finish(this.world.publisher.run({ key: KEYS[0], ...plan }), 10 * MINUTE)
  }

  /** A run that has to succeed. */
  async publish(operations: Uint8Array | undefined = this.edit(), plan: Partial<RunPlan> = {}): Promise<void> {
    const outcome = await this.run({ operations, ...plan })
    if (outcome.is !== 'done') throw outcome.is === 'failed' ? outcome.error : new Error(`killed at ${outcome.at}`)
  }

  /** The newest epoch that is signed, of the server that has most. */
  get newest(): number {
    return Math.max(...this.world.servers.map(server => server.signedUnder(KEY).at(-1) ?? 0))
  }

  server(number: number) {
    return this.world.servers[number]!
  }
}

function said(violations: readonly Violation[]): string {
  return violations.map(({ rule, what }) => `${rule}: ${what}`).join('\n')
}

/** Plans of maps in every mode that this many servers can have. */
export function everyMode(servers: 1 | 2 | 3): readonly Partial<Plan>[] {
  if (servers === 1) return [{ mode: 'local' }, { mode: 'single' }, { mode: 'auto' }]
  if (servers === 3) {
    const modes = ['instant', 'single', 'local', 'auto'] as const
    return modes.flatMap(mode => [{ mode, atLeast: 2 }])
  }
  return [
    { mode: 'local' },
    { mode: 'full' },
    { mode: 'instant' },
    { mode: 'auto' },
    { mode: 'single', collusion: 'tolerated' },
  ]
}

export function named({ mode, atLeast, ...rest }: Partial<Plan>): string {
  const hasNoKey = 'publisherKey' in rest && rest.publisherKey === undefined
  return `${mode}${atLeast === undefined ? '' : `, at least ${atLeast}`}${hasNoKey ? ', no key' : ''}`
}
