// Reads and writes key files of publishers (docs/operations/publish.md).

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
 * Makes a key and writes it to a new file that only its owner may read.
 * @throws {PublishError} if the file exists
 * @example
 * const { publicKey } = await createKeyFile('publisher.key')
 */
export async function createKeyFile(file: string): Promise<KeyPair> {
  const pair = ed25519.keygen()
  const lines = [HEADER, `public ${toHex(pair.publicKey)}`, `secret ${toHex(pair.secretKey)}`]
  await writeFile(file, lines.map(line => `${line}\n`).join(''), { flag: 'wx', mode: 0o600 }).catch(error => {
    throw (error as NodeJS.ErrnoException).code === 'EEXIST'
      ? new PublishError(`${file}: it exists already, and a key is never overwritten; choose another name`)
      : error
  })
  return pair
}

/**
 * Reads a key file.
 * @throws {PublishError} whose message does not quote the file
 * @example
 * const key = await readKeyFile('publisher.key')
 */
export async function readKeyFile(file: string): Promise<KeyPair> {
  const [, publicDigits, secretDigits] = FORM.exec(await readFile(file, 'utf8')) ?? []
  if (publicDigits === undefined || secretDigits === undefined) {
    throw new PublishError(`${file}: expected a key file, got another; \`keyhush keygen\` makes one`)
  }
  const pair = { publicKey: fromHex(publicDigits), secretKey: fromHex(secretDigits) }
  if (toHex(ed25519.getPublicKey(pair.secretKey)) !== publicDigits) {
    throw new PublishError(`${file}: expected a secret key and its public half, got others; restore your backup`)
  }
  return pair
}

/**
 * Reads a publisher's public key: 64 hex digits, or the name of a file with them.
 * @throws {PublishError} also for a key file with the secret half, which must not be on a server
 * @example
 * const publicKey = await readPublicKey('publisher.pub')
 */
export async function readPublicKey(digitsOrFile: string): Promise<Uint8Array> {
  const text = DIGITS.test(digitsOrFile) ? digitsOrFile : (await readFile(digitsOrFile, 'utf8').catch(notThere)).trim()
  if (text.startsWith(HEADER)) {
    throw new PublishError(`${digitsOrFile}: expected a public key, got the secret key; give the public one`)
  }
  const [, digits] = /^(?:public key: )?([0-9a-f]{64})$/.exec(text) ?? []
  const key = digits === undefined ? undefined : fromHex(digits)
  if (key === undefined || !isPublicKey(key)) {
    throw new PublishError(
      `${digitsOrFile}: expected 64 hex digits, got another text; copy what \`keyhush keygen\` prints`,
    )
  }
  return key
}

/** A warning if every user of this machine may read a secret file; undefined: they may not. */
export async function readableByAll(file: string): Promise<string | undefined> {
  if (process.platform === 'win32') return undefined // it has no such modes
  const { mode } = await stat(file)
  return (mode & OTHERS_READ) === 0 ? undefined : `${file}: every user of this machine can read it; chmod 600 it`
}

/** The error for a text that is neither a key nor the name of a file: it may have been meant as either. */
function notThere(error: NodeJS.ErrnoException): never {
  if (error.code !== 'ENOENT') throw error
  const { path = '' } = error
  throw new PublishError(
    /[/\\.]/.test(path)
      ? `${path}: expected a file with 64 hex digits, got no such file; is the path right?`
      : `${path}: expected 64 hex digits or a file with them, got neither; copy what \`keyhush keygen\` prints`,
  )
}

const OTHERS_READ = 0o004
const DIGITS = /^[0-9a-f]{64}$/
const HEADER = 'keyhush ed25519 key v1'
const FORM = new RegExp(`^${HEADER}\\r?\\npublic ([0-9a-f]{64})\\r?\\nsecret ([0-9a-f]{64})\\s*$`)
