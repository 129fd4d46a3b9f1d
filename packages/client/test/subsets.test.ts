// Which servers a lookup asks where not all have to answer, and who is named: no honest server is ever named for a lie, and no map is
// dead while enough honest servers are there. Every rule is tried with wrong ones in its place, which the simulation must see.

import { expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { Standing } from '../src/servers/standing.js'
import type { Link, Links } from '../src/servers/transport.js'
import { MOST_SUBSETS, Subsets } from '../src/session/subsets.js'
import { seededRandom } from './support/random.js'

const MAPS = THOROUGH ? 5000 : 1000
const LOOKUPS = 12

function linksOf(count: number): Link[] {
  const standing = new Standing()
  return Array.from({ length: count }, (_, i) => ({ server: { name: `${i}` }, standing }) as unknown as Link)
}

/** The subsets that one lookup asks, one after the other. */
function asking(subsets: Subsets): () => Links | undefined {
  const tried = new Set<number>()
  return () => subsets.next({ tried, away: new Set() })
}

const nameOf = (subset: Links) =>
  subset
    .map(({ server }) => server.name)
    .sort()
    .join()

type Liar = (lookup: number, chance: () => number) => boolean
const LIARS: Readonly<Record<string, Liar>> = {
  once: lookup => lookup === 3,
  always: () => true,
  'at random': (_lookup, chance) => chance() < 0.5,
  never: () => false,
}

/** What becomes of a map with these liars: who is named, and how many lookups find no answer. */
function lives(seed: number, servers: number, atLeast: number, liars: readonly number[], lies: Liar) {
  const random = seededRandom(seed)
  const chance = () => random(1)[0]! / 256
  const links = linksOf(servers)
  const subsets = new Subsets(links, atLeast, random)
  const named: string[] = []
  let lost = 0
  for (let lookup = 0; lookup < LOOKUPS; lookup++) {
    const next = asking(subsets)
    let answered = false
    for (let subset = next(); subset !== undefined && !answered; ) {
      const wrong = subset.some(link => liars.includes(links.indexOf(link)) && lies(lookup, chance))
      answered = !wrong
      if (wrong) {
        const liar = subsets.wrong(subset)
        if (liar !== undefined) named.push(liar.server.name)
        subset = next()
      } else subsets.answered(subset)
    }
    if (!answered) lost++
  }
  return { named, lost }
}

test.each(Object.entries(LIARS))('one liar of five, lying %s: nobody honest is named, no lookup is lost', (_, lies) => {
  let found = 0
  for (let seed = 1; seed <= MAPS; seed++) {
    const liar = seed % 5
    const { named, lost } = lives(seed, 5, 3, [liar], lies)
    expect([seed, named.filter(name => name !== `${liar}`), lost]).toEqual([seed, [], 0])
    if (named.length > 0) found++
  }
  if (lies === LIARS['always']) expect(found).toBeGreaterThan(0)
})

test.each([
  [5, 3, [1, 4]],
  [8, 5, [0, 3, 7]],
  [4, 2, [2, 3]],
] as const)(
  'of %i servers of which %i have to answer, all the liars there may be: the same',
  (servers, atLeast, liars) => {
    for (let seed = 1; seed <= MAPS / 10; seed++) {
      for (const lies of Object.values(LIARS)) {
        const { named, lost } = lives(seed, servers, atLeast, liars, lies)
        expect(named.filter(name => !liars.includes(Number(name) as never))).toEqual([])
        // Where more than twenty subsets are wrong, a lookup gives up.
        if (servers < 8) expect([seed, lost]).toEqual([seed, 0])
      }
    }
  },
)

test.each([
  [6, 5],
  [8, 6],
  [8, 7],
])(
  'of %i servers of which %i have to answer, as many liars as may collude: nobody honest is named',
  (servers, atLeast) => {
    for (let seed = 1; seed <= MAPS / 10; seed++) {
      for (const lies of Object.values(LIARS)) {
        const liars = [0, 3, 5, 1, 2, 4].slice(0, 1 + (seed % (atLeast - 1)))
        const { named } = lives(seed, servers, atLeast, liars, lies)
        expect([seed, named.filter(name => !liars.includes(Number(name)))]).toEqual([seed, []])
      }
    }
  },
)

test('three liars of eight cannot have the same wrong subsets asked again: of a map’s lookups few are lost', () => {
  for (let seed = 1; seed <= MAPS / 10; seed++) {
    expect(lives(seed, 8, 5, [0, 3, 7], () => true).lost).toBeLessThan(56 / MOST_SUBSETS) // 5 of 8
  }
})

test.each([
  [4, 3],
  [6, 5],
  [8, 7],
] as const)('of %i servers with atLeast %i: fewer that collude cannot have an honest one named', (servers, atLeast) => {
  // They lie where the one they want to be named is asked along.
  const links = linksOf(servers)
  const framed = links[servers - 1]!
  const liars = links.slice(0, atLeast - 1)
  for (let seed = 1; seed <= MAPS / 20; seed++) {
    const subsets = new Subsets(links, atLeast, seededRandom(seed))
    for (let lookup = 0; lookup < LOOKUPS; lookup++) {
      const next = asking(subsets)
      for (let subset = next(); subset !== undefined; subset = next()) {
        if (!subset.includes(framed) || !subset.some(link => liars.includes(link))) break
        expect(subsets.wrong(subset)).not.toBe(framed)
      }
    }
  }
})

test('more liars than there may be: nobody is named, whoever it is', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const { named } = lives(seed, 5, 3, [0, 1, 2, 3, 4], () => true)
    expect(named.length).toBeLessThanOrEqual(LOOKUPS * MOST_SUBSETS)
    expect(new Set(named).size).toBeLessThanOrEqual(5)
  }
})

test('a lookup begins with the subset that answered last, asks none twice, those with a server that is away last, and never fewer', () => {
  for (let seed = 1; seed <= 100; seed++) {
    const links = linksOf(5)
    const subsets = new Subsets(links, 3, seededRandom(seed))
    const next = asking(subsets)
    expect(next()).toHaveLength(5)
    links[2]!.standing.note(links[2]!, 'late')
    const seen: string[] = []
    for (let subset = next(); subset !== undefined; subset = next()) {
      expect(subset).toHaveLength(3)
      expect(subset.includes(links[2]!)).toBe(seen.length >= 4) // 3 of 4
      seen.push(nameOf(subset))
      if (seen.length === 2) subsets.answered(subset)
    }
    expect([seen.length, new Set(seen).size]).toEqual([10, 10])
    expect(seen[1]).toBe(nameOf(asking(subsets)()!))
  }
})

test('a subset with a server that was late comes after those without, and before those whose answers were wrong', () => {
  for (let seed = 1; seed <= 100; seed++) {
    const links = linksOf(5)
    const [late, liar] = [links[1]!, links[4]!]
    const subsets = new Subsets(links, 3, seededRandom(seed))
    for (const subset of inOrder(subsets)) if (subset.includes(liar)) subsets.wrong(subset)
    late.standing.note(late, 'late')
    const ranks = inOrder(subsets).map(subset => (subset.includes(liar) ? 2 : 0) + (subset.includes(late) ? 1 : 0))
    expect(ranks).toEqual([0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    late.standing.note(late, 'in time')
    expect(inOrder(subsets).map(subset => subset.includes(liar))).toEqual(Array.from({ length: 10 }, (_, i) => i > 3))
  }
})

/** Those of three that one lookup asks, if none answers. */
function inOrder(subsets: Subsets): Links[] {
  const next = asking(subsets)
  const all: Links[] = []
  for (let subset = next(); subset !== undefined; subset = next()) all.push(subset)
  return all.filter(({ length }) => length === 3)
}

test('where two suffice a pair is asked, and each pair as often', () => {
  const counts = new Map<string, number>()
  for (let seed = 1; seed <= 3000; seed++) {
    const pair = asking(new Subsets(linksOf(3), 2, seededRandom(seed)))()!
    expect(pair).toHaveLength(2)
    const name = nameOf(pair)
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  expect([...counts.keys()].sort()).toEqual(['0,1', '0,2', '1,2'])
  for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(7 * Math.sqrt(3000 * (2 / 9)))
})
