// Virtual time. What is due runs in order, one thing at a time, and time moves only while no real work is under way: a server's
// routes, a thread of its core. Everything else in the world waits for promises alone, and they have settled when the event loop turns.

import { tick } from '../simulation.js'

/** Real work that takes so long waits for something that does not come. */
const HANGS_MS = 120_000

/** More than that at one moment goes on for ever. */
const MOST_AT_ONCE = 20_000

/** Something that is due. */
export interface Due {
  readonly when: number
  readonly order: number
  run: (() => void) | undefined
}

export class Time {
  /** milliseconds since the world began */
  now = 0
  /** how much has happened */
  steps = 0
  #order = 0
  /** what has happened since time went by */
  #atOnce = 0
  /** a heap, the earliest first */
  readonly #due: Due[] = []
  /** and what it is */
  readonly #work = new Map<Promise<unknown>, string>()

  /** Runs it when that is due; at once, if it was due before. */
  after(ms: number, run: () => void): Due {
    const due = { when: this.now + Math.max(0, ms), order: this.#order++, run }
    this.#push(due)
    return due
  }

  cancel(due: Due): void {
    due.run = undefined
  }

  sleep(ms: number): Promise<void> {
    return new Promise(resolve => void this.after(ms, resolve))
  }

  /** Time stands still until this real work is done. */
  during<T>(what: string, work: Promise<T>): Promise<T> {
    const done = () => void this.#work.delete(work)
    this.#work.set(work, what)
    work.then(done, done)
    return work
  }

  /** Moves the clock on by so many milliseconds. */
  async pass(ms: number): Promise<void> {
    let over = false
    this.after(ms, () => {
      over = true
    })
    await this.until(() => over)
  }

  /** Lets things happen until that is so, or so much time has gone by. Returns whether it is so. */
  async until(isSo: () => boolean, mostMs = Number.POSITIVE_INFINITY): Promise<boolean> {
    const last = this.now + mostMs
    for (;;) {
      await this.settle()
      if (isSo()) return true
      const next = this.#peek()
      if (next === undefined) throw new Error('nothing is due, and nothing goes on: deadlock')
      if (next.when > last) {
        this.now = last
        return false
      }
      this.#pop()
      this.#atOnce = next.when > this.now ? 0 : this.#atOnce + 1
      if (this.#atOnce > MOST_AT_ONCE) throw new Error('one thing happens after the other, and no time goes by')
      this.now = next.when
      this.steps++
      const { run } = next
      next.run = undefined
      run!()
    }
  }

  /** Lets everything go on that waits for no time. */
  async settle(): Promise<void> {
    await tick()
    while (this.#work.size > 0) {
      await this.#settled()
      await tick()
    }
  }

  async #settled(): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const hanging = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new Error(`expected real work to end, and this has not: ${[...this.#work.values()].join(', ')}`))
      }, HANGS_MS)
    })
    try {
      await Promise.race([Promise.allSettled(this.#work.keys()), hanging])
    } finally {
      clearTimeout(timer)
    }
  }

  /** Runs `work`, and what is due meanwhile, until it has settled. */
  async finish<T>(work: Promise<T>, mostMs?: number): Promise<T> {
    let settled = false
    const done = () => {
      settled = true
    }
    work.then(done, done)
    if (!(await this.until(() => settled, mostMs))) throw new Error(`expected an end within ${mostMs} ms`)
    return await work
  }

  #peek(): Due | undefined {
    while (this.#due.length > 0 && this.#due[0]!.run === undefined) this.#pop()
    return this.#due[0]
  }

  #push(due: Due): void {
    const heap = this.#due
    let at = heap.length
    heap.push(due)
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isBefore(due, heap[parent]!)) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = due
  }

  #pop(): void {
    const heap = this.#due
    const last = heap.pop()!
    if (heap.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++
      if (!isBefore(heap[child]!, last)) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = last
  }
}

function isBefore(a: Due, b: Due): boolean {
  return a.when < b.when || (a.when === b.when && a.order < b.order)
}
