import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import * as constants from '../src/constants.js'
import { builtFor, hasRows, isCommitted, PROOF_KINDS, type Proofs, proofsOf, suiteOf } from '../src/index.js'
import { INSTANT_SUITES } from '../src/instant.js'
import { ONE_SERVER_SUITES } from '../src/one-server.js'

const KINDS = Object.keys(PROOF_KINDS) as Proofs[]

test('each suite is one kind of proof (PROOF_KINDS), or one kind of lookup without a state (INSTANT_SUITES, ONE_SERVER_SUITES), or that of parities, or of several databases as one: give a new one its row', () => {
  const numbers = Object.entries(constants).filter(([name]) => name.startsWith('SUITE_'))
  const stateless = [INSTANT_SUITES, ONE_SERVER_SUITES].flatMap(suites => Object.values(suites).flat())
  const rows = [...KINDS.map(suiteOf), ...stateless, constants.SUITE_PARITIES, constants.SUITE_SHARDED]
  expect([...new Set(rows)]).toEqual(rows)
  expect(rows).toEqual(expect.arrayContaining(numbers.map(([, number]) => number)))
})

test('docs/protocol.md, What proves an entry, has a row for each kind of proof, and its suites', () => {
  const protocol = readFileSync(new URL('../../../docs/protocol.md', import.meta.url), 'utf8')
  const section = protocol.split('\n## What proves an entry\n')[1]!.split('\n### ')[0]!
  const rows = [...section.matchAll(/^\| (\d+) \| `(\w+)` \|.*\| suites? ([\d, and]+)\b/gm)]
  expect(rows.map(([, suite, name, suites]) => [Number(suite), name, suites!.match(/\d+/g)!.map(Number)])).toEqual(
    KINDS.map(kind => [suiteOf(kind), kind, PROOF_KINDS[kind].offers.map(suiteOf)]),
  )
})

test('the package of each kind of proof is in packages/', () => {
  for (const { package: name = '@keyhush/protocol' } of Object.values(PROOF_KINDS)) {
    const folder = new URL(`../../${name.slice('@keyhush/'.length)}/`, import.meta.url)
    expect(JSON.parse(readFileSync(new URL('package.json', folder), 'utf8')).name).toBe(name)
  }
})

test('a database that was built for a kind offers it, and only kinds whose needs it meets', () => {
  for (const proofs of KINDS) {
    const database = { suite: suiteOf(proofs) }
    expect(builtFor(database)).toBe(proofs)
    expect(proofsOf(database)).toContain(proofs)
    for (const offered of proofsOf(database).map(kind => PROOF_KINDS[kind])) {
      expect([isCommitted(database), hasRows(database)]).toEqual([
        isCommitted(database) || offered.isCommitted,
        hasRows(database) || offered.hasRows,
      ])
    }
  }
  expect(builtFor({})).toBe('merkle')
})
