// A tab's store: the disk, with a delay before and after each call.

import type { StateStore } from '@keyhush/client/environment'
import type { Disk, Method, OnWrite } from './disk.js'
import type { Head } from './ledger.js'

/** What a tab's store needs of its world. */
export interface Distance {
  /** calls are carried out in the order they were made, as with IndexedDB; else in any */
  readonly inOrder: boolean
  /** resolves when the event happens */
  comes(what: string): Promise<void>
  /** whether a call fails now: before it is carried out, or when it is reported */
  fails(method: Method): boolean
  wrote: OnWrite
  /** these heads are safe from a power loss */
  flushed(heads: readonly (Head | undefined)[]): void
  note(what: string): void
  count(what: string): void
  /** the result that the tab gets instead */
  reported(result: unknown): unknown
}

/** A call waits before it is carried out, and again before it is reported. */
export function storeOn(disk: Disk, distance: Distance): StateStore {
  let earlier = Promise.resolve()
  const call = async (method: Method, parameters: unknown[]) => {
    if (method === 'close') return
    const named = `${method}${typeof parameters[1] === 'number' ? ` ${parameters[1]}` : ''}`
    let begun = () => {}
    const inTurn = distance.inOrder ? earlier : undefined
    earlier = new Promise(resolve => {
      begun = resolve
    })
    await inTurn
    await distance.comes(`${named} begins`).finally(begun)
    if (distance.fails(method)) throw new Error('the disk has failed')
    const done = await disk
      .perform(method, parameters, (...written) => distance.wrote(...written))
      .catch((error: Error) => {
        distance.note(`${named} is refused: ${error.message}`)
        distance.count(`refused: ${method}`)
        return error
      })
    await distance.comes(`${named} is done`)
    if (done instanceof Error) throw done
    distance.count(`store: ${method}`)
    if (distance.fails(method)) throw new Error('the disk has failed, perhaps')
    distance.flushed(done.flush())
    return distance.reported(done.result)
  }
  return new Proxy({ durable: disk.durable } as StateStore, {
    get: (target, name: keyof StateStore) =>
      name === 'durable' ? target.durable : (...parameters: unknown[]) => call(name, parameters),
  })
}
