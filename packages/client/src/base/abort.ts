// Giving up on work: the promise at once, the work itself only where that is safe (see lookup/, P5).

interface Watch {
  /** in the order they were asked for */
  readonly calls: Set<() => void>
  readonly listener: () => void
}

const watches = new WeakMap<AbortSignal, Watch>()

/**
 * Calls `call` when `signal` aborts; returns what withdraws that. However many wait, the signal has one listener: from the
 * eleventh on Node warns the app of a leak, for twenty lookups under one signal, say.
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

function watchOn(signal: AbortSignal): Watch {
  const calls: Watch['calls'] = new Set()
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

/** One for all: most of what making an AbortError costs is its stack, which would tell nobody anything here. */
export const OVER = new DOMException('what this was for is over', 'AbortError')

/**
 * Runs `work` with a signal that aborts as soon as one of `outer` does, and in any case when `work` has settled: what
 * it left running is called off.
 */
export async function scoped<T>(
  outer: readonly (AbortSignal | undefined)[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const over = new AbortController()
  const signal = AbortSignal.any([...outer.filter(signal => signal !== undefined), over.signal])
  try {
    signal.throwIfAborted()
    return await work(signal)
  } finally {
    over.abort(OVER)
  }
}

/**
 * Runs tasks side by side. The first to fail calls the others off; the error is thrown when all have settled, so that
 * what they share can be let go.
 */
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
