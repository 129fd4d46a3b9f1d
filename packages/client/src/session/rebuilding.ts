// A new hint, made while the old one answers, and then put in its place: when no update leads on, or its lookups run out.
// One at a time.

import { ServersDisagreeError } from '../base/errors.js'
import { OutdatedError } from '../servers/path.js'
import type { Draft } from '../state/draft.js'
import type { Caller, Machine } from '../state/machine.js'
import { type Beside, install, prepare } from '../state/replacing.js'

/** A new hint that is being made, beside the one in use. */
export interface Rebuild {
  readonly draft: Promise<Draft>
  readonly caller: Caller
  readonly beside: Beside
  installing: Promise<void> | undefined
}

export class Rebuilding {
  readonly #machine: Machine
  readonly #ending: AbortSignal
  #current: Rebuild | undefined
  /** how often one was made because no update led on */
  madeAnew = 0

  /** `ending`: aborts when no lookup needs it any more. Not before: a lookup that has begun must end as usual (P5). */
  constructor(machine: Machine, ending: AbortSignal) {
    this.#machine = machine
    this.#ending = ending
  }

  /** Begins one, unless one is under way. `turn` runs its argument when no other operation is under way. */
  begin(reason: OutdatedError['reason'], turn: (work: () => Promise<void>) => Promise<void>): Rebuild {
    if (this.#current !== undefined) return this.#current
    if (reason !== 'spent') this.madeAnew++
    this.#machine.parts.announce({ type: 'outdated', reason })
    const caller = this.#machine.caller(this.#ending)
    const draft = prepare(this.#machine, caller)
    // Such a hint may be at the same epoch as its successor, so isAsNew() needs its id.
    const beside = {
      replaces: reason === 'spent' || reason === 'offer' ? this.#machine.known?.record.hintId : undefined,
    }
    const rebuild: Rebuild = { draft, caller, beside, installing: undefined }
    this.#current = rebuild
    draft.then(
      // Without a turn it stays here: the next lookup that needs it installs it, or close() frees it.
      () => turn(() => this.install(rebuild)).catch(() => {}),
      () => {
        // The next lookup that needs it, or the servers' next event, begins again.
        if (this.#current === rebuild) this.#current = undefined
      },
    )
    return rebuild
  }

  /** Puts it in place. To be called in turn. All callers get the same outcome. */
  async install(rebuild: Rebuild): Promise<void> {
    const draft = await rebuild.draft
    if (this.#current === rebuild) this.#current = undefined
    rebuild.installing ??= this.#put(draft, rebuild)
    await rebuild.installing
  }

  /** Does nothing if the draft cannot follow to the old hint's epoch: the next lookup begins again. */
  async #put(draft: Draft, { caller, beside }: Rebuild): Promise<void> {
    const epoch = this.#machine.known?.manifest.epoch ?? 0
    try {
      if (draft.manifest.epoch < epoch) await draft.follow(caller.signal)
      if (draft.manifest.epoch < epoch) {
        throw new ServersDisagreeError('the servers show an older epoch than before; try again later')
      }
    } catch (error) {
      draft.free()
      if (error instanceof OutdatedError) return
      throw error
    }
    await install(this.#machine, draft, caller, beside)
  }

  /** Frees what has not been installed. */
  async free(): Promise<void> {
    const draft = await this.#current?.draft.catch(() => undefined)
    draft?.free()
  }
}
