// PostgreSQL for a file of tests.

import { afterAll, beforeAll } from 'vitest'
import { PostgresServer, storeAt } from './postgres.js'

/** In a file of tests: there is a server while they run. */
export function usePostgres() {
  const named = process.env['KEYHUSH_POSTGRES_PROGRAMS'] === undefined ? process.env['KEYHUSH_POSTGRES'] : undefined
  let own: PostgresServer | undefined
  beforeAll(async () => {
    if (named === undefined) own = await PostgresServer.begin()
  })
  afterAll(() => own?.remove())
  return {
    /** the URL of a store that nobody has used */
    store: () => storeAt(own?.url ?? named!),
    /** one that may be stopped and started, while nobody else uses it; undefined: it is somebody else's */
    own: () => own,
  }
}
