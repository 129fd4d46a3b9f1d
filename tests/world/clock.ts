// The timers of simulated tabs. The world moves time. A frozen tab's timers wait until it runs again.

export interface Timer<Tab> {
  readonly tab: Tab
  readonly due: number
  readonly callback: () => void
}

export class Timers<Tab extends { readonly state: string }> {
  #timers: Timer<Tab>[] = []

  add(timer: Timer<Tab>): void {
    this.#timers.push(timer)
  }

  remove(timer: unknown): void {
    this.#timers = this.#timers.filter(other => other !== timer)
  }

  /** Removes and returns the earliest timer of a running tab. */
  takeFirst(): Timer<Tab> | undefined {
    const running = this.#timers.filter(({ tab }) => tab.state === 'running')
    const first = running.reduce<Timer<Tab> | undefined>(
      (first, timer) => (first && first.due <= timer.due ? first : timer),
      undefined,
    )
    this.remove(first)
    return first
  }

  takeAll(): Timer<Tab>[] {
    return this.#timers.splice(0)
  }
}
