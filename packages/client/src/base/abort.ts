// Aborting: the promise rejects at once; the work itself stops only where that is safe (lookup/, P5).

interface Aborting {
  /** in the order of their registration */
  readonly calls: Set<() => void>
  readonly listener: () => void
}

const watches = new WeakMap<AbortSignal, Aborting>()

/**
 * Calls `call` when `signal` aborts; returns what withdraws that. However many wait, the signal has one listener: Node warns
 * of a leak at eleven, which twenty lookups under one signal would reach.
 */
export function onAbort(signal: AbortSignal, call: () => void): () => void {
  const watch = watches.get(signal) ?? watchOn(signal)
  const own = () => call() // the same function may wait twice
  watch.calls.add(own)
  return () => {
    if (!watch.calls.delete(own) || watch.calls.size > 0) return
    watches.delete(signal)
    signal.removeEventListener('abort', watch.listener)
  }
}

function watchOn(signal: AbortSignal): Aborting {
  const calls: Aborting['calls'] = new Set()
  const listener = () => {
    for (const call of calls) call()
  }
  const watch = { calls, listener }
  watches.set(signal, watch)
  signal.addEventListener('abort', listener, { once: true })
  return watch
}

/** Settles as `work` does, or rejects with the signal's reason as soon as that aborts. The work itself goes on. */
export function abortable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work
  return new Promise<T>((resolve, reject) => {
    const give = () => reject(signal.reason)
    if (signal.aborted) give()
    const settled = onAbort(signal, give)
    work.then(
      value => {
        settled()
        resolve(value)
      },
      error => {
        settled()
        reject(error)
      },
    )
  })
}

/** One for all: making an error is slow because of its stack, which nobody reads here. (React Native has no DOMException.) */
export const OVER = Object.assign(new Error('what this was for is over'), { name: 'AbortError' })

/** Runs `work` with a signal that aborts when one of `outer` does, and also when `work` has settled: that ends what it left running. */
export async function scoped<T>(
  outer: readonly (AbortSignal | undefined)[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const own = new AbortController()
  const abortWith = (signal: AbortSignal) => {
    const abort = () => own.abort(signal.reason)
    if (signal.aborted) abort()
    return onAbort(signal, abort)
  }
  const ends = outer.map(signal => signal && abortWith(signal))
  try {
    own.signal.throwIfAborted()
    return await work(own.signal)
  } finally {
    for (const end of ends) end?.()
    own.abort(OVER)
  }
}

/** Runs tasks side by side. The first failure aborts the others. Throws when all have settled, so that what they share can be freed. */
export async function together(
  signal: AbortSignal,
  tasks: readonly ((signal: AbortSignal) => Promise<void>)[],
): Promise<void> {
  const failing = new AbortController()
  await scoped([signal, failing.signal], async signal => {
    const run = async (task: (signal: AbortSignal) => Promise<void>) => {
      try {
        await task(signal)
      } catch (error) {
        failing.abort(error)
        throw error
      }
    }
    const outcomes = await Promise.allSettled(tasks.map(run))
    signal.throwIfAborted()
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  })
}
