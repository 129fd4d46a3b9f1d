// What browsers do for `navigator.locks`: one holder at a time of each name, or several that share it, first come, first served,
// until somebody steals it.

type Callback = (lock: object | null) => Promise<unknown>

interface Options {
  readonly mode?: 'shared' | 'exclusive'
  readonly signal?: AbortSignal
  readonly steal?: boolean
  readonly ifAvailable?: boolean
}

interface Holder {
  readonly shares: boolean
  lost: (error: Error) => void
}

interface Waiting {
  readonly shares: boolean
  readonly go: () => void
}

/** `navigator.locks`, as far as it is used. */
export class LockManager {
  readonly stolen: string[] = []
  readonly #holders = new Map<string, Holder[]>()
  readonly #queues = new Map<string, Waiting[]>()

  request = async (name: string, options: Options, callback: Callback) => {
    const queue = this.#queues.get(name) ?? []
    this.#queues.set(name, queue)
    const shares = options.mode === 'shared'
    const holders = this.#holders.get(name) ?? []
    this.#holders.set(name, holders)
    if (options.steal) {
      for (const holder of holders.splice(0)) {
        this.stolen.push(name)
        holder.lost(new DOMException('stolen', 'AbortError'))
      }
    } else if (queue.length > 0 || !isFree(holders, shares)) {
      if (options.ifAvailable) return await callback(null)
      await new Promise<void>((resolve, reject) => {
        const waiting = { shares, go: resolve }
        queue.push(waiting)
        options.signal?.addEventListener('abort', () => {
          const at = queue.indexOf(waiting)
          if (at === -1) return // granted by now
          queue.splice(at, 1)
          reject(options.signal?.reason)
        })
      })
    }
    const me: Holder = { shares, lost: () => {} }
    holders.push(me)
    const lost = new Promise((_, reject) => {
      me.lost = reject
    })
    try {
      return await Promise.race([callback({}), lost])
    } finally {
      const at = holders.indexOf(me)
      if (at >= 0) {
        holders.splice(at, 1)
        const [next] = queue
        if (next !== undefined && isFree(holders, next.shares)) queue.shift()!.go()
      }
    }
  }
}

function isFree(holders: readonly Holder[], shares: boolean): boolean {
  return holders.every(holder => shares && holder.shares)
}
