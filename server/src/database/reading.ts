// Errors of what is stored: whatever is wrong with it is a DatasetError that names the store.

import { DatasetError, OperatorError } from '../base/errors.js'

/** Runs `work` on what is stored at `location`. Throws DatasetError, other OperatorErrors, and traps of the core. */
export async function readingFrom<T>(location: string, work: () => T): Promise<Awaited<T>> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof OperatorError || (error as Error).name === 'RuntimeError') throw error
    throw new DatasetError(location, (error as Error).message)
  }
}
