// PostgreSQL for a file of tests.

import { afterAll, beforeAll } from 'vitest'
import { PostgresServer, storeAt } from './postgres.js'

/** In a file of tests: there is a server while they run. Returns what gives the URL of a store that nobody has used. */
export function usePostgres(): () => string {
  const named = process.env['PIROUETTE_POSTGRES']
  if (named !== undefined) return () => storeAt(named)
  let own: PostgresServer
  beforeAll(async () => {
    own = await PostgresServer.begin()
  })
  afterAll(() => own.remove())
  return () => storeAt(own.url)
}
