// The files of publishers and operators: a publisher's key, and its public half (docs/operations.md, Publishing).

import { readFile, stat, writeFile } from 'node:fs/promises'
import { fromHex, toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { isPublicKey } from '../base/ed25519.js'
import { PublishError } from '../base/errors.js'

export interface KeyPair {
  readonly publicKey: Uint8Array
  /** the seed of RFC 8032 */
  readonly secretKey: Uint8Array
}

/**
 * Makes a key and writes it to a new file that its owner alone may read.
 * @throws {PublishError} if the file exists
 * @example
 * const { publicKey } = await createKeyFile('publisher.key')
 */
export async function createKeyFile(file: string): Promise<KeyPair> {
  const pair = ed25519.keygen()
  const lines = [HEADER, `public ${toHex(pair.publicKey)}`, `secret ${toHex(pair.secretKey)}`]
  await writeFile(file, lines.map(line => `${line}\n`).join(''), { flag: 'wx', mode: 0o600 }).catch(error => {
    throw (error as NodeJS.ErrnoException).code === 'EEXIST'
      ? new PublishError(`${file}: it exists already, and a key is never overwritten`)
      : error
  })
  return pair
}

/**
 * Reads a key file.
 * @throws {PublishError} without quoting the file
 * @example
 * const key = await readKeyFile('publisher.key')
 */
export async function readKeyFile(file: string): Promise<KeyPair> {
  const [, publicDigits, secretDigits] = FORM.exec(await readFile(file, 'utf8')) ?? []
  if (publicDigits === undefined || secretDigits === undefined) {
    throw new PublishError(`${file}: it is not a key file; \`keyhush keygen\` makes one`)
  }
  const pair = { publicKey: fromHex(publicDigits), secretKey: fromHex(secretDigits) }
  if (toHex(ed25519.getPublicKey(pair.secretKey)) !== publicDigits) {
    throw new PublishError(`${file}: its two keys do not belong together`)
  }
  return pair
}

/**
 * A publisher's public key, as `keygen` prints it: 64 hex digits, or a file that holds them.
 * @throws {PublishError} also for a key file with its secret half, which has no place on a server
 * @example
 * const publicKey = await readPublicKey('publisher.pub')
 */
export async function readPublicKey(digitsOrFile: string): Promise<Uint8Array> {
  const text = DIGITS.test(digitsOrFile) ? digitsOrFile : (await readFile(digitsOrFile, 'utf8').catch(notThere)).trim()
  if (text.startsWith(HEADER)) {
    throw new PublishError(
      `${digitsOrFile}: it holds the secret key, which only the publisher may have; give the public one`,
    )
  }
  const [, digits] = /^(?:public key: )?([0-9a-f]{64})$/.exec(text) ?? []
  const key = digits === undefined ? undefined : fromHex(digits)
  if (key === undefined || !isPublicKey(key)) {
    throw new PublishError(`${digitsOrFile}: expected a public key of 64 hex digits, as \`keyhush keygen\` prints it`)
  }
  return key
}

/** A sentence for the operator if anybody on the machine may read a secret file; undefined: not so. */
export async function readableByAll(file: string): Promise<string | undefined> {
  if (process.platform === 'win32') return undefined // its modes say nothing
  const { mode } = await stat(file)
  return (mode & OTHERS_READ) === 0 ? undefined : `${file}: everybody on this machine may read it; chmod 600 it`
}

/** What was to be a key, and has been taken for the name of a file. */
function notThere(error: NodeJS.ErrnoException): never {
  if (error.code !== 'ENOENT') throw error
  throw new PublishError(
    `${error.path}: expected a public key, 64 hex digits as \`keyhush keygen\` prints them, or a file that holds them; it is neither`,
  )
}

const OTHERS_READ = 0o004
const DIGITS = /^[0-9a-f]{64}$/
const HEADER = 'keyhush ed25519 key v1'
const FORM = new RegExp(`^${HEADER}\\r?\\npublic ([0-9a-f]{64})\\r?\\nsecret ([0-9a-f]{64})\\s*$`)
