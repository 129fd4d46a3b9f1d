// `keyhush plan`: a table for people, JSON for machines, refusals in a sentence. Whether the costs are right is tested
// where they are computed and, against real servers and clients, in tests/costs.

import { loadCore, type Plan } from '@keyhush/wasm'
import { expect, test } from 'vitest'
import { buildDataset } from '../dist/index.js'
import { expectRefused, keyhush } from './command.js'
import { dataFile, pseudoRandom, temporaryDirectory } from './helpers.js'

const plan = (...args: string[]) => keyhush('plan', ...args)

/** What it prints, line by line and cell by cell. */
const cellsOf = async (...args: string[]) =>
  (await plan(...args)).stdout.split('\n').map(line => line.trim().split(/ {2,}/))

const small = ['--records', '1000', '--value-bytes', '30']

const large = ['--records', '1000000', '--value-bytes', '32']

test('it begins with the layout and what servers need, and ends with a recommendation', async () => {
  const { stdout, stderr } = await plan(...large, '--lookups-per-day', '100')
  expect(stderr).toBe('')
  const lines = stdout.split('\n')
  expect(lines[0]).toBe('1000000 keyless records of 32 bytes: 16 partitions of 62500')
  expect(lines[1]).toBe('Memory of a server: 96.3 MB, or 32.3 MB with --proofs tags, and 200 MB for the process')
  expect(lines).toContain('Recommended: full, tags.')
  expect(lines.at(-2)).toMatch(
    /^A download of 32\.0 MB pays after \d+ lookups: \d+ days of 100 in one map\. A day moves 125 kB with tags and would move /,
  )
})

test('it recommends what a map chooses: by size, lookups a day and operators', async () => {
  const recommended = async (...args: string[]) => /^Recommended: (.*)\.$/m.exec((await plan(...args)).stdout)?.[1]
  expect(await recommended(...small)).toBe('local')
  expect(await recommended(...small, '--lookups-per-day', '0')).toBe('instant')
  expect(await recommended(...large, '--lookups-per-day', '2')).toBe('instant')
  expect(await recommended('--records', '4500000', '--value-bytes', '0', '--keyed')).toBe('instant')
  expect(await recommended(...large, '--lookups-per-day', '100', '--memory', '6')).toBe('full, merkle')
  expect(await recommended(...small, '--servers', '1')).toBe('local')
  expect(await recommended(...large, '--servers', '1')).toBe('single')
})

test('a large download is said to be too large for phones', async () => {
  expect((await plan(...large)).stdout).not.toContain('phones')
  const { stdout } = await plan('--records', '12000000', '--value-bytes', '120', '--servers', '1')
  expect(stdout).toContain(
    'Not for phones: local, single. They first download 1.4 GB, which takes 9.6 min at 20 Mbit/s.',
  )
})

test('every way to look up has a row, and keeping it all is the first', async () => {
  const args = ['--records', '1048576', '--value-bytes', '32'] as const
  const plain = await cellsOf(...args)
  const first = plain.findIndex(([head]) => head === 'before the first lookup')
  expect(plain.slice(first + 1, first + 7).map(([way]) => way)).toEqual([
    ...['local', 'instant', 'full, merkle', 'full, tags', 'full, pointproofs', 'single'],
  ])
  expect(plain[first + 1]).toEqual(['local', '33.6 MB', '–', '–', ...KEPT])
  const packed = await cellsOf(...args, '--pack', '8')
  expect(packed.find(([way]) => way === 'full, merkle')!.slice(1, 3)).toEqual(['33.6 MB', '21.7 kB'])
  expect((await plan(...args, '--pack', '3')).stderr).toContain('a power of two')
})

/** In memory and on disk, and no time of any server. */
const KEPT = ['33.6 MB', '33.6 MB', '–']

test('plan lists the modes that suit the number of servers, and an instant lookup costs what it sends', async () => {
  const rows = (servers: string) => cellsOf('--records', '1048576', '--value-bytes', '32', '--servers', servers)
  const ways = (of: string[][]) => of.map(([way]) => way).filter(way => /^(local|instant|full|single)/.test(way!))
  const [one, three, five] = [await rows('1'), await rows('3'), await rows('5')]
  expect(ways(one)).toEqual(['local', 'instant, experimental', 'single'])
  expect(ways(three)).toEqual(['local', 'instant', 'single'])
  const lookup = (of: string[][]) => of.find(([way]) => /^instant/.test(way!))![2]
  expect([lookup(one), lookup(three), lookup(five)]).toEqual(['35.0 kB', '8.5 kB', '11.5 kB'])
  await expectRefused(plan(...small, '--servers', '9'), 'It must be from 1 to 8')
})

test('JSON is what the core computes', async () => {
  const core = await loadCore()
  const all = ['--keyed', '--variable', '--queries', '3', '--lookups-per-day', '4', '--changes-per-day', '5']
  const more = ['--memory', '6', '--uplink', '7', '--downlink', '8', '--json']
  const workload = {
    ...{ records: 1000, valueBytes: 30, keyed: true, variable: true, queries: 3, lookupsPerDay: 4, changesPerDay: 5 },
    ...{ memoryBytes: 6_000_000, uplinkKbit: 7, downlinkKbit: 8 },
  }
  expect(JSON.parse((await plan(...small, ...all, ...more)).stdout)).toEqual(core.plan(workload))
  expect(JSON.parse((await plan(...small, '--partitions', '9', '--json')).stdout)).toEqual(
    core.plan({ records: 1000, valueBytes: 30, partitions: 9 }),
  )
})

test('the layout is the one that build gives the database', async () => {
  const data = await dataFile('a.bin', pseudoRandom(1003 * 7))
  const { manifest } = await buildDataset({ data, recordBytes: 7, out: `${await temporaryDirectory()}/dataset` })
  const { layout } = JSON.parse((await plan('--records', '1003', '--value-bytes', '7', '--json')).stdout) as Plan
  expect(manifest).toMatchObject(layout)
})

test('what cannot be is refused in a sentence', async () => {
  for (const [args, reason] of [
    [['--records', '0', '--value-bytes', '32'], /at least a byte/],
    [['--records', '1000000', '--value-bytes', '32', '--partitions', '1'], /records a partition/],
    [['--records', '5000000000', '--value-bytes', '1'], /partitions|records/],
    [[...small, '--queries', '65'], /a lookup has 1 to 64 queries/],
    [[...small, '--downlink', '0'], /at least 1 kbit/],
  ] as const) {
    const { code, stdout, stderr } = await plan(...args)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/^keyhush: .+\n$/)
    expect(stderr).toMatch(reason)
  }
  expect((await plan('--records', 'many', '--value-bytes', '1')).stderr).toContain('It must be a whole number.')
})

test('a server that WebAssembly could not hold is pointed out', async () => {
  const { stdout } = await plan('--records', '60000000', '--value-bytes', '32')
  expect(stdout).toContain('\nNo server can hold 5.8 GB: at most 4.3 GB. Split the data.\n')
})

test('with a filter it says what that costs, and how many calls about absent keys ask', async () => {
  const keyed = ['--records', '1048576', '--value-bytes', '32', '--keyed'] as const
  const visits = ['--filter', '--calls-per-day', '1000', '--keys-per-call', '8'] as const
  for (const [cover, asks] of [
    ['0', '3.1 %'],
    ['0.0625', '9.2 %'],
    ['0.125', '15.2 %'],
  ] as const) {
    const { stdout } = await plan(...keyed, ...visits, '--cover', cover)
    expect(stdout).toContain(`Of 1000 calls a day for 8 keys that are not listed, ${asks} ask.`)
  }
  const { filter } = JSON.parse((await plan(...keyed, ...visits, '--json')).stdout)
  expect(filter.bytes).toBeGreaterThan(1_600_000)
  expect(filter.bytes).toBeLessThan(1_700_000)
  // Three in a hundred calls, and these in one step in place of two.
  expect(filter.dayBytes).toBeLessThan(filter.without.dayBytes / 32)
  expect(filter.dayServerMicros).toBeLessThan(filter.without.dayServerMicros / 32)
})

test.each([
  ['without keys', [...small, '--filter'], '--filter: expected --keyed and at least two servers'],
  ['with one server', [...small, '--keyed', '--servers', '1', '--filter'], 'at least two servers'],
  ['without --filter', [...small, '--keyed', '--cover', '0'], 'expected --filter too'],
  ['with a share above 1', [...small, '--keyed', '--filter', '--cover', '2'], 'a number from 0 to 1'],
])('calls behind a filter are refused %s', async (_, args, message) => {
  await expectRefused(plan(...args), message)
})
