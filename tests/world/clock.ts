// The timers of simulated tabs. One whose tab stands still is not due before that runs again; time is the world's to move.

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

  /** The earliest of those whose tabs are running, which it is no longer among. */
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
