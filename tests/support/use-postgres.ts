// PostgreSQL for a file of tests.

import { afterAll, beforeAll } from 'vitest'
import { PostgresServer, storeAt } from './postgres.js'

/** Starts a server for the tests of a file. */
export function usePostgres() {
  const named = process.env['KEYHUSH_POSTGRES_PROGRAMS'] === undefined ? process.env['KEYHUSH_POSTGRES'] : undefined
  let own: PostgresServer | undefined
  beforeAll(async () => {
    if (named === undefined) own = await PostgresServer.begin()
  })
  afterAll(() => own?.remove())
  return {
    /** the URL of a new store */
    store: () => storeAt(own?.url ?? named!),
    /** a server that the test may stop and start; undefined: KEYHUSH_POSTGRES names it */
    own: () => own,
  }
}
