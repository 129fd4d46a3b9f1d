// What the failures of a folder are called.

import { StateMovedError, StateUnreadableError, StoreFullError, StoreUnavailableError } from '../store.js'

export class Closed extends StoreUnavailableError {
  constructor() {
    super('this store is closed')
  }
}

export async function asStoreErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const known = [StateMovedError, StateUnreadableError, StoreUnavailableError, StoreFullError]
    if (known.some(type => error instanceof type)) throw error
    const { code } = error as { code?: unknown }
    if (code === 'ENOSPC' || code === 'EDQUOT') {
      throw new StoreFullError(`the disk is full, or its quota used up (${code})`, { cause: error })
    }
    throw new StoreUnavailableError('the folder of the state cannot be used', { cause: error })
  }
}
