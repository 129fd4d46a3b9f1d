// The demo's three databases, and a large one on request.
//
// phishing: the domains on the blocklist of eth-phishing-detect (MetaMask and contributors), as keys without values.
// keys: a directory of 2^18 made-up names, each with 64 made-up bytes: too large to be kept
// whole as a matter of course. No person's name and nobody's key is in it.
// passwords: 256 made-up ones, as keys without values.
//
// names: the names of all packages on npm (all-the-package-names, Zeke Sikelianos and contributors), as keys without values:
// 4.5 million. On request, for they have to be fetched, and to be built for a minute.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { builderFolders, dataFolder, keyhushCommand, largeFolder } from './paths.js'
import { ADJECTIVES, ANIMALS } from './words.js'

/** The folders of the databases that the demo always has, for `keyhush serve --dataset`. */
export const databases = {
  phishing: join(dataFolder, 'phishing'),
  keys: join(dataFolder, 'keys'),
  passwords: join(dataFolder, 'passwords'),
}

/** What their publisher knows to be its own to begin with. */
export const publisherRecord = join(dataFolder, 'record')

/** Is what prepareData would build there already? */
export async function dataIsReady(): Promise<boolean> {
  if (![...Object.values(databases), publisherRecord].every(existsSync)) return false
  return (await readFile(join(dataFolder, 'stamp'), 'utf8').catch(() => '')) === (await stamp())
}

/** Builds the usual databases, unless they are there and up to date. */
export async function prepareData(): Promise<void> {
  if (await dataIsReady()) return
  await mkdir(dataFolder, { recursive: true })
  for (const stale of ['stamp', 'names.stamp', 'sample.stamp']) await rm(join(dataFolder, stale), { force: true })
  await rm(publisherRecord, { force: true })
  await writeFile(join(dataFolder, 'phishing.txt'), `${phishingDomains().join('\n')}\n`)
  await writeFile(join(dataFolder, 'keys.csv'), keyDirectoryCsv())
  await build(databases.phishing, 'phishing.txt')
  await build(databases.keys, 'keys.csv', '--value-encoding', 'hex')
  await writeFile(join(dataFolder, 'passwords.txt'), `${leakedPasswords().join('\n')}\n`)
  await build(databases.passwords, 'passwords.txt')
  await writeFile(join(dataFolder, 'stamp'), await stamp())
}

/**
 * Builds the large one as well, once the others are there, from the package in demo/large unless a sample is given; resolves to
 * its folder.
 */
export async function prepareNames(sample?: readonly string[]): Promise<string> {
  const name = sample === undefined ? 'names' : 'sample'
  const [folder, stampFile] = [join(dataFolder, name), join(dataFolder, `${name}.stamp`)]
  const list = sample ?? packageNames()
  const hash = createHash('sha256').update(list.join('\n')).digest('hex')
  if (existsSync(folder) && (await readFile(stampFile, 'utf8').catch(() => '')) === hash) return folder
  await writeFile(join(dataFolder, `${name}.txt`), `${list.join('\n')}\n`)
  await build(folder, `${name}.txt`)
  await writeFile(stampFile, hash)
  return folder
}

function packageNames(): string[] {
  const names = createRequire(join(largeFolder, 'package.json'))('all-the-package-names') as string[]
  return [...new Set(names)]
}

/** The listed hosts, lower-case and punycode, each once, in code-unit order. */
export function phishingDomains(): string[] {
  const { blacklist } = createRequire(import.meta.url)('eth-phishing-detect/src/config.json') as { blacklist: string[] }
  return [...new Set(blacklist.map(entry => new URL(`http://${entry}`).hostname))].sort()
}

/** 64 adjectives × 64 animals × 64 numbers. */
export function* keyDirectory(): Generator<{ name: string; key: string }> {
  for (const adjective of ADJECTIVES) {
    for (const animal of ANIMALS) {
      for (let number = 0; number < 64; number += 1) {
        const name = `${adjective}-${animal}-${number}@example.org`
        yield { name, key: createHash('sha512').update(`keyhush demo key of ${name}`).digest('hex') }
      }
    }
  }
}

/** Made-up ones, such as people make up. */
export function leakedPasswords(): string[] {
  return ADJECTIVES.slice(0, 16).flatMap((adjective, i) =>
    ANIMALS.slice(0, 16).map((animal, j) => `${adjective}${animal}${1 + ((7 * i + j) % 99)}`),
  )
}

function keyDirectoryCsv(): string {
  const lines = ['key,value']
  for (const { name, key } of keyDirectory()) lines.push(`${name},${key}`)
  return `${lines.join('\n')}\n`
}

/** Runs `keyhush build`; a database appears whole or not at all. */
async function build(folder: string, file: string, ...options: string[]): Promise<void> {
  const fresh = `${folder}.new`
  await rm(fresh, { recursive: true, force: true })
  const args = ['build', join(dataFolder, file), '--out', fresh, '--record', publisherRecord, ...options]
  await promisify(execFile)(process.execPath, [keyhushCommand, ...args])
  await rm(folder, { recursive: true, force: true })
  await rename(fresh, folder)
}

/** Changes with the list, with this program and with what builds databases. */
async function stamp(): Promise<string> {
  const hash = createHash('sha256').update(phishingDomains().join('\n'))
  for (const folder of [import.meta.dirname, ...builderFolders]) {
    for (const name of (await readdir(folder, { recursive: true })).sort()) {
      if (/\.(js|wasm)$/.test(name)) hash.update(name).update(await readFile(join(folder, name)))
    }
  }
  return hash.digest('hex')
}
