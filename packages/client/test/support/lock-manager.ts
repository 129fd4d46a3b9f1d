// What browsers do for `navigator.locks`: one holder at a time of each name, first come, first served, until somebody steals it.

type Callback = () => Promise<unknown>

/** `navigator.locks`, as far as it is used. */
export class LockManager {
  readonly stolen: string[] = []
  readonly #holders = new Map<string, { lost: (error: Error) => void }>()
  readonly #queues = new Map<string, (() => void)[]>()

  request = async (name: string, options: { signal?: AbortSignal; steal?: boolean }, callback: Callback) => {
    const queue = this.#queues.get(name) ?? []
    this.#queues.set(name, queue)
    const holder = this.#holders.get(name)
    if (options.steal) {
      if (holder) this.stolen.push(name)
      holder?.lost(new DOMException('stolen', 'AbortError'))
    } else if (holder) {
      await new Promise<void>((resolve, reject) => {
        queue.push(resolve)
        options.signal?.addEventListener('abort', () => {
          queue.splice(queue.indexOf(resolve), 1)
          reject(options.signal?.reason)
        })
      })
    }
    const me = { lost: (_error: Error) => {} }
    this.#holders.set(name, me)
    const lost = new Promise((_, reject) => {
      me.lost = reject
    })
    try {
      return await Promise.race([callback(), lost])
    } finally {
      if (this.#holders.get(name) === me) {
        this.#holders.delete(name)
        queue.shift()?.()
      }
    }
  }
}
