// Which options decide whether two maps share a session, and which schemes options are checked against.

import { readFile } from 'node:fs/promises'
import { PACKAGED, type PackagedProofs } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { OPTIONS, optionsOf } from '../src/option-table.js'
import { isSameWish, type OpenOptions, readOptions } from '../src/options.js'
import { KNOWN } from '../src/scheme/known.js'
import { SCHEMES } from '../src/scheme/table.js'
import { rest } from './support/clock.js'
import { A, B } from './support/network.js'
import { World } from './support/world.js'

type Given = Partial<Omit<OpenOptions, 'fetch' | 'store' | 'wasm'>>

const THREE = [A, B, 'https://c.example']
const ofOne = { servers: [A], publisherKey: 'a'.repeat(64) }
const alone = { mode: 'single', collusion: 'tolerated' } as const

/** Two calls of open() that must not share, by the option that they differ in; `own`: it concerns the call alone. */
const DIFFERENT: Record<
  Exclude<keyof OpenOptions, PackagedProofs>,
  readonly [Given, Given] | 'own' | 'identity' | 'environment'
> = {
  servers: 'identity',
  atLeast: [{ servers: THREE }, { servers: THREE, atLeast: 2 }],
  collusion: [{ mode: 'local' }, { mode: 'local', collusion: 'tolerated' }],
  lookups: [alone, { ...alone, lookups: 7 }],
  storage: [{}, { storage: 'memory' }],
  publisherKey: [{}, { publisherKey: 'a'.repeat(64) }],
  witnesses: [
    { publisherKey: 'a'.repeat(64), witnesses: 'one' },
    { publisherKey: 'a'.repeat(64), witnesses: 'another' },
  ],
  rollback: [{}, { rollback: 'strict' }],
  mode: [{}, { mode: 'full' }],
  experimental: [ofOne, { ...ofOne, experimental: true }],
  filter: [
    { mode: 'instant', filter: { cover: 0, meanwhile: 'ask' } },
    { mode: 'instant', filter: { cover: 0, meanwhile: 'wait' } },
  ],
  download: [{ download: () => true }, { download: () => true }],
  network: [{}, { network: 'any' }],
  proofs: [{}, { proofs: 'merkle' }],
  development: [{}, { development: true }],
  push: [{ push: true }, { push: false }],
  integrity: 'own',
  onProgress: 'own',
  signal: 'own',
  timeoutMs: 'own',
  normalize: 'own',
  onEvent: 'own',
  fetch: 'environment',
  store: 'environment',
  wasm: 'environment',
}
const wishesOf = (given: Given) => readOptions({ servers: [A, B], ...given }, KNOWN).wishes

const PACKAGES = PACKAGED.map(kind => [kind, [{}, { [kind]: async () => undefined }]] as const)

test.each(
  [...Object.entries(DIFFERENT), ...PACKAGES].flatMap(([option, calls]) =>
    typeof calls === 'string' ? [] : [[option, calls]],
  ),
)('maps that differ in %s do not share a session: a wish that is new belongs into Wishes', (_option, calls) => {
  const [one, other] = (calls as [Given, Given]).map(wishesOf)
  expect(isSameWish(one!, other!)).toBe(false)
  expect(isSameWish(one!, { ...one! })).toBe(true)
})

test.each<[string, Given, Given]>([
  [
    'the import() of a package',
    { pointproofs: async () => undefined as never },
    { pointproofs: async () => undefined as never },
  ],
  [
    'a key, once as text and once as bytes',
    { publisherKey: '0a'.repeat(32) },
    { publisherKey: new Uint8Array(32).fill(10) },
  ],
])('maps share a session if %s is written twice', (_what, one, other) => {
  expect(isSameWish(wishesOf(one), wishesOf(other))).toBe(true)
})

test('the READMEs list every option', async () => {
  const readme = (name: string) => readFile(new URL(`../../${name}/README.md`, import.meta.url), 'utf8')
  const tables = (await readme('client')).split('\n## Options\n')[1]?.split('\n## ')[0] ?? ''
  const listed = [...tables.matchAll(/^\| (`[^|]*) \|/gm)].flatMap(([, names]) => names!.match(/\w+/g)!)
  expect(new Set(listed)).toEqual(new Set([...Object.keys(OPTIONS), ...PACKAGED]))
  const [, sentence] = /\*\*Options\.\*\*([^.]*)/.exec(await readme('react-native'))!
  expect(new Set(sentence!.match(/(?<=`)\w+(?=`)/g))).toEqual(new Set([...optionsOf('native'), 'crypto']))
})

test('what is known of a scheme before its code is loaded is what the code says: mend facts.ts', () => {
  expect([...KNOWN.keys()]).toEqual([...SCHEMES.keys()])
  for (const [mode, scheme] of SCHEMES) {
    expect(scheme.name).toBe(mode)
    expect(scheme).toMatchObject({ ...KNOWN.get(mode)! })
  }
})

// Two maps of one identity with different options, as in two pages of an app, one of which was updated first.
test.each([
  [{ proofs: 'merkle' }, { proofs: 'tags' }],
  [{ mode: 'full' }, { mode: 'local' }],
])('%o beside %o: the database is not downloaded again for each lookup', async (one, other) => {
  const w = new World()
  const [first, second] = [w.life(), w.life()]
  const maps = [
    await first.open({ push: false, ...one } as never),
    await second.open({ push: false, ...other } as never),
  ]
  await rest()
  const blobs = () => w.network.seen.filter(({ path }) => path.startsWith('/v1/blobs/')).length
  const before = blobs()
  for (let i = 0; i < 5; i++) {
    for (const map of maps) {
      await w.drive(map.at(i))
      await rest()
    }
  }
  for (const map of maps) await w.drive(map.close())
  expect((blobs() - before) / 16).toBeLessThan(3)
})
