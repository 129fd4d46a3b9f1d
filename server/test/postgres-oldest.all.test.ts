// The oldest PostgreSQL that docs/operations/stores.md claims. vitest.config.mjs has the other tests of PostgreSQL run on it as well.

import { readFile } from 'node:fs/promises'
import { expect, onTestFinished, test } from 'vitest'
import { needs } from '../../tests/support/needs.js'
import { PostgresServer, queryStore, storeAt } from '../../tests/support/postgres.js'
import { findOldestPostgres } from '../../tools/programs.mjs'

const programs = await findOldestPostgres()
const oldest = needs(programs !== undefined, 'PostgreSQL 15: install it, or name its programs in KEYHUSH_POSTGRES_15')

test('the tests of PostgreSQL run on 15 as well, which is the oldest that is claimed', oldest, async () => {
  const operations = await readFile(new URL('../../docs/operations/stores.md', import.meta.url), 'utf8')
  expect(operations).toContain('PostgreSQL (15 or later)')
  const server = await PostgresServer.begin([], programs)
  onTestFinished(() => server.remove())
  const [row] = await queryStore(storeAt(server.url), 'SHOW server_version')
  expect(row!['server_version']).toMatch(/^15\./)
})
