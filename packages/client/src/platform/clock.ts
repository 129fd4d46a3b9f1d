// Time. A frozen page or a sleeping device would find all its deadlines passed on waking, and no server had the time to answer: the
// platform's clock stands still while the page does.

export interface Clock extends Timers {
  /** milliseconds awake; only differences are used */
  now(): number
  /** milliseconds since 1970, asleep or not */
  date(): number
}

export interface Timers {
  setTimeout(callback: () => void, ms: number): unknown
  clearTimeout(timer: unknown): void
}

/** Timers wait so long at once. Of a time asleep this much counts. */
const STEP_MS = 2_000

/** A step that takes so long was slept through. Busy pages and hidden ones are a second or two late. */
const ASLEEP_MS = 4_000

/** `clock`, less the time that it slept while timers were set. It knows by its timers: not all platforms tell. */
export function awakeClock(clock: Clock): Clock {
  const timers = new Set<{ step: unknown }>()
  let seen = 0
  let asleep = 0
  const now = () => {
    const at = clock.now()
    if (timers.size > 0 && at - seen >= ASLEEP_MS) asleep += at - seen - STEP_MS
    seen = at
    return at - asleep
  }
  return {
    now,
    date: () => clock.date(),
    setTimeout(callback, ms) {
      const due = now() + ms
      const timer: { step: unknown } = { step: undefined }
      const wait = (left: number) => {
        timer.step = clock.setTimeout(step, Math.min(left, STEP_MS))
      }
      const step = () => {
        const left = due - now()
        if (left > 0) wait(left)
        else if (timers.delete(timer)) callback()
      }
      timers.add(timer)
      wait(ms)
      return timer
    },
    clearTimeout(timer) {
      if (timers.delete(timer as { step: unknown })) clock.clearTimeout((timer as { step: unknown }).step)
    },
  }
}

export const platformClock = awakeClock({
  now: () => performance.now(),
  date: () => Date.now(),
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: timer => clearTimeout(timer as ReturnType<typeof setTimeout>),
})
