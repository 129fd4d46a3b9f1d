// The records of the demo's databases, one row each, and how `keyhush build` makes the databases. Their words: page/databases.ts.

import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createOwnerKey, transform } from '@keyhush/confidential/server'
import { BREACHED, DATABASES, type DatabaseName, SHOWN_PASSWORD, seedOf } from '../page/backstage.js'
import { builderFolders, dataFolder, largeFolder } from './paths.js'
import { keyhush } from './servers.js'
import { ADJECTIVES, ANIMALS } from './words.js'

interface Source {
  /** for `keyhush build`, which reads the format from its end */
  readonly file: string
  readonly text: () => string
  /** further options of `keyhush build` */
  readonly options?: readonly string[]
  /** Built only for `npm start -- --large`: it has to be downloaded, and takes a minute to build. */
  readonly large?: true
}

const sources = {
  /** the blocklist of eth-phishing-detect (MetaMask and contributors): keys without values */
  phishing: { file: 'phishing.txt', text: () => linesOf(phishingDomains()) },
  /** 2^18 made-up names with 64 made-up bytes each: too large to be kept whole by default */
  keys: { file: 'keys.csv', text: keyDirectoryCsv, options: ['--value-encoding', 'hex'] },
  /** all 4.5 million package names on npm (all-the-package-names, Zeke Sikelianos and contributors): keys without values */
  names: { file: 'names.txt', text: () => linesOf(packageNames()), large: true },
} satisfies Record<DatabaseName, Source>

const sourceOf = (name: DatabaseName): Source => sources[name]
const always = DATABASES.filter(name => !sourceOf(name).large)

/** By name: the folders of the databases that the demo always has, for `keyhush serve --dataset`. */
export const folders: Readonly<Partial<Record<DatabaseName, string>>> = Object.fromEntries(
  always.map(name => [name, join(dataFolder, name)]),
)

/** What the publisher's record holds at the start. */
export const publisherRecord = join(dataFolder, 'record')

/**
 * The confidential list of breached passwords, as its owner has it: the key and its shares, the list, the dataset that is made of it, and
 * for comparison `plain`, which is made of the list without `transform`. `row.csv` has one row of it, transformed.
 */
export const breachedFolder = join(dataFolder, 'breached')

/** Whether prepareData has nothing to do. */
export async function dataIsReady(): Promise<boolean> {
  if (![...Object.values(folders), breachedFolder, publisherRecord].every(existsSync)) return false
  return (await readFile(join(dataFolder, 'stamp'), 'utf8').catch(() => '')) === (await stamp())
}

/** Builds the databases that the demo always has, unless they are up to date. `onDatabase` is called before each. */
export async function prepareData(onDatabase: (name: string) => void = () => {}): Promise<void> {
  if (await dataIsReady()) return
  await mkdir(dataFolder, { recursive: true })
  for (const stale of ['stamp', 'names.stamp', 'sample.stamp']) await rm(join(dataFolder, stale), { force: true })
  await rm(publisherRecord, { recursive: true, force: true })
  for (const name of always) {
    onDatabase(name)
    const { file, text, options } = sourceOf(name)
    await build(name, file, text(), options)
  }
  onDatabase('breached')
  await buildBreached()
  await writeFile(join(dataFolder, 'stamp'), await stamp())
}

/**
 * Builds the large database, after the others, from demo/large or from `sample` instead, unless it is up to date. Resolves to its
 * folder.
 */
export async function prepareNames(sample?: readonly string[]): Promise<string> {
  const name = sample === undefined ? 'names' : 'sample'
  const stampFile = join(dataFolder, `${name}.stamp`)
  const text = sample === undefined ? sources.names.text() : linesOf(sample)
  const hash = createHash('sha256').update(text).digest('hex')
  const folder = join(dataFolder, name)
  if (existsSync(folder) && (await readFile(stampFile, 'utf8').catch(() => '')) === hash) return folder
  await build(name, `${name}.txt`, text)
  await writeFile(stampFile, hash)
  return folder
}

export const linesOf = (lines: readonly string[]) => `${lines.join('\n')}\n`

function packageNames(): string[] {
  const names = createRequire(join(largeFolder, 'package.json'))('all-the-package-names') as string[]
  return [...new Set(names)]
}

/** The listed hosts in lower case and punycode, sorted, without repetitions. */
export function phishingDomains(): string[] {
  const { blacklist } = createRequire(import.meta.url)('eth-phishing-detect/src/config.json') as { blacklist: string[] }
  return [...new Set(blacklist.map(entry => new URL(`http://${entry}`).hostname))].sort()
}

/** The most common passwords of breaches, the most common first: of @zxcvbn-ts/language-common (Dropbox, zxcvbn-ts and contributors). */
export function breachedPasswords(): string[] {
  const all = createRequire(import.meta.url)('@zxcvbn-ts/language-common/src/passwords.json') as string[]
  return all.slice(0, BREACHED)
}

/** As docs/operations/confidential.md says. The folder appears whole or not at all. */
async function buildBreached(): Promise<void> {
  const fresh = `${breachedFolder}.new`
  const at = (name: string) => join(fresh, name)
  await rm(fresh, { recursive: true, force: true })
  await mkdir(fresh)
  const key = at('owner.key')
  const rows = breachedPasswords().map((password, i) => `${password},${i + 1}`)
  const valueBytes = String(BREACHED).length
  const evaluationKey = await createOwnerKey(key, { valueBytes, evaluators: 2, atLeast: 2 })
  await writeFile(at('list.csv'), linesOf(['key,value', ...rows]))
  await writeFile(at('shown.csv'), linesOf(['key,value', rows.find(row => row.startsWith(`${SHOWN_PASSWORD},`))!]))
  await transform({ from: at('list.csv'), to: at('blind.csv'), key })
  await transform({ from: at('shown.csv'), to: at('row.csv'), key })
  const options = ['--value-encoding', 'base64', '--name', `confidential-${evaluationKey}`, '--record', publisherRecord]
  await keyhush('build', at('blind.csv'), '--out', at('dataset'), ...options)
  await keyhush('build', at('list.csv'), '--out', at('plain'))
  await rm(breachedFolder, { recursive: true, force: true })
  await rename(fresh, breachedFolder)
}

/** 64 adjectives × 64 animals × 64 numbers. */
export function* keyDirectory(): Generator<{ name: string; key: string }> {
  for (const adjective of ADJECTIVES) {
    for (const animal of ANIMALS) {
      for (let number = 0; number < 64; number += 1) {
        const name = `${adjective}-${animal}-${number}@example.org`
        yield { name, key: keyOf(name) }
      }
    }
  }
}

/** in hex */
export const keyOf = (name: string) => createHash('sha512').update(seedOf(name)).digest('hex')

function keyDirectoryCsv(): string {
  const lines = ['key,value']
  for (const { name, key } of keyDirectory()) lines.push(`${name},${key}`)
  return `${lines.join('\n')}\n`
}

/** Runs `keyhush build`. The database appears whole or not at all. */
async function build(name: string, file: string, text: string, options: readonly string[] = []): Promise<void> {
  const input = join(dataFolder, file)
  const folder = join(dataFolder, name)
  const fresh = `${folder}.new`
  await writeFile(input, text)
  await rm(fresh, { recursive: true, force: true })
  const args = ['build', input, '--out', fresh, '--record', publisherRecord, ...options]
  await keyhush(...args)
  await rm(folder, { recursive: true, force: true })
  await rename(fresh, folder)
}

/** Hash of the lists that are installed, of this program and of the programs that build databases. */
async function stamp(): Promise<string> {
  const hash = createHash('sha256').update([...phishingDomains(), ...breachedPasswords()].join('\n'))
  for (const folder of [import.meta.dirname, ...builderFolders]) {
    for (const name of (await readdir(folder, { recursive: true })).sort()) {
      if (/\.(js|wasm)$/.test(name)) hash.update(name).update(await readFile(join(folder, name)))
    }
  }
  return hash.digest('hex')
}
