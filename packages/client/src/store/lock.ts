// One process at a time in a folder. A process announces itself by a file that carries its name, then looks around; if
// it sees another that is alive, it withdraws. Whoever came first has looked before the other announced itself and sees
// nobody. Two who come at the same moment may both withdraw, but never both stay. A killed process leaves its file
// behind; the next one finds that nobody of that name is alive and removes it.

import type { Disk, Processes } from './disk.js'
import { StoreUnavailableError } from './store.js'

const PREFIX = 'lock.'

export function isLock(name: string): boolean {
  return name.startsWith(PREFIX)
}

/** Takes the folder for this process; resolves to what gives it back. Throws StoreUnavailableError. */
export async function takeLock(disk: Disk, processes: Processes): Promise<() => Promise<void>> {
  const mine = PREFIX + processes.self
  try {
    await (await disk.create(mine)).close()
  } catch (error) {
    if ((error as { code?: unknown }).code === 'EEXIST') throw held(processes.self, 'this very process')
    throw error
  }
  for (const name of await disk.list()) {
    if (!isLock(name) || name === mine) continue
    const holder = name.slice(PREFIX.length)
    if (await processes.isAlive(holder)) {
      await disk.remove(mine)
      throw held(holder, `process ${holder.split('.')[0]}`)
    }
    await disk.remove(name)
  }
  return () => disk.remove(mine)
}

function held(holder: string, who: string): StoreUnavailableError {
  return new StoreUnavailableError(
    `the state is open in ${who}, and only one process may have it; if none has, remove the file ${PREFIX}${holder}`,
  )
}
