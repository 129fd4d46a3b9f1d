// Downloads outlast a time offline: what breaks meanwhile says nothing of the server, and what has come is kept. Lookups do not wait:
// they fail, and the app may ask again.

import { scoped } from '../base/abort.js'
import { OFFLINE_TRIES, OFFLINE_TRY_MS } from '../base/constants.js'
import { NetworkError } from '../base/errors.js'
import { sleep, withRetry } from './retry.js'
import type { Link } from './transport.js'

/**
 * As `withRetry`. Where the device was offline meanwhile, it tries again once it is online; and now and then before, since some devices
 * do not know.
 */
export async function throughOffline<T>(link: Link, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const { connection } = link.environment
  for (let tries = 0; ; tries++) {
    const losses = connection?.losses
    try {
      return await withRetry(link, signal, work)
    } catch (error) {
      const wasOffline = connection?.isOffline || connection?.losses !== losses
      if (!wasOffline || tries === OFFLINE_TRIES || !(error instanceof NetworkError)) throw error
    }
    await online(link, signal)
    signal.throwIfAborted()
  }
}

async function online({ environment: { clock, connection } }: Link, signal: AbortSignal): Promise<void> {
  if (!connection?.isOffline) return
  const found = new AbortController()
  const withdraw = connection.whenOnline(() => found.abort())
  await scoped([signal, found.signal], either => sleep(clock, OFFLINE_TRY_MS, either)).finally(withdraw)
}
