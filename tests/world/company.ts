// The tabs of a browser: one leads, and each hears the others' messages.

import type { OpenedStore, Tabs } from '@keyhush/client/environment'

type Preparers = Exclude<OpenedStore['preparers'], 'platform' | undefined>

/** What it needs of a tab. */
export interface Member {
  readonly state: 'running' | 'frozen' | 'dead'
  /** Another tab has sent a message. */
  hears(listener: () => void): Promise<void>
}

interface Candidate {
  readonly name: string
  readonly tab: Member
  readonly lead: () => void
}

export class Company {
  #waiting: Candidate[] = []
  readonly #listeners = new Map<(message?: unknown) => void, { readonly name: string; readonly tab: Member }>()
  #preparing: { readonly tab: Member }[] = []

  of(tab: Member): Tabs {
    return {
      elect: async (name, task, signal) => {
        const mine = await new Promise<Candidate>(resolve => {
          const mine: Candidate = { name, tab, lead: () => resolve(mine) }
          signal.addEventListener('abort', mine.lead, { once: true })
          this.#waiting.push(mine)
          if (this.#first(name) === mine) mine.lead()
        })
        if (!signal.aborted) await task(signal)
        this.#without(each => each === mine)
      },
      subscribe: (name, listener) => {
        const own = (message: unknown) => listener(message)
        this.#listeners.set(own, { name, tab })
        return () => this.#listeners.delete(own)
      },
      notify: (name, message) => {
        // To listeners of this tab too, as with a BroadcastChannel of its own.
        for (const [listener, other] of this.#listeners) {
          if (other.name === name) void other.tab.hears(() => listener(message))
        }
      },
    }
  }

  /** The tabs that prepare hints. */
  preparers(tab: Member): Preparers {
    return {
      join: async () => {
        const me = { tab }
        this.#preparing.push(me)
        return () => {
          this.#preparing = this.#preparing.filter(other => other !== me)
        }
      },
      whileNone: async task => {
        this.#preparing = this.#preparing.filter(({ tab }) => tab.state !== 'dead')
        if (this.#preparing.length === 0) await task()
      },
    }
  }

  /** The tab is gone: the next one leads. */
  leave(tab: Member): void {
    this.#without(each => each.tab === tab)
  }

  #first(name: string) {
    return this.#waiting.find(each => each.name === name)
  }

  #without(gone: (each: Candidate) => boolean): void {
    const names = new Set(this.#waiting.filter(gone).map(({ name }) => name))
    this.#waiting = this.#waiting.filter(each => !gone(each))
    for (const name of names) this.#first(name)?.lead()
  }
}
