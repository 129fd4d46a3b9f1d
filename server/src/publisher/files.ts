// The two files a publisher has: a token that both servers know, and perhaps a key (docs/protocol.md, Signatures).

import { readFile, writeFile } from 'node:fs/promises'
import { ed25519 } from '@noble/curves/ed25519.js'
import { fromHex, toHex } from '@pirouette/protocol'
import { PublishError } from './errors.js'

/** Below this a token could be found by trying. */
const SHORTEST_TOKEN = 16

export interface KeyPair {
  readonly publicKey: Uint8Array
  /** the seed of RFC 8032 */
  readonly secretKey: Uint8Array
}

/** Reads a token: the file's one line. Throws PublishError. */
export async function readToken(file: string): Promise<string> {
  const token = (await readFile(file, 'utf8')).trim()
  if (!/^[\x21-\x7e]*$/.test(token) || token.length < SHORTEST_TOKEN) {
    throw new PublishError(
      `${file}: expected one line of at least ${SHORTEST_TOKEN} visible ASCII characters without spaces`,
    )
  }
  return token
}

/** Makes a key and writes it to a new file that its owner alone may read. Throws if the file exists. */
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

/** Reads a key file. Throws PublishError; its message holds nothing of the file. */
export async function readKeyFile(file: string): Promise<KeyPair> {
  const [, publicDigits, secretDigits] = FORM.exec(await readFile(file, 'utf8')) ?? []
  if (publicDigits === undefined || secretDigits === undefined) {
    throw new PublishError(`${file}: it is not a key file; \`pirouette keygen\` makes one`)
  }
  const pair = { publicKey: fromHex(publicDigits), secretKey: fromHex(secretDigits) }
  if (toHex(ed25519.getPublicKey(pair.secretKey)) !== publicDigits) {
    throw new PublishError(`${file}: its two keys do not belong together`)
  }
  return pair
}

const HEADER = 'pirouette ed25519 key v1'
const FORM = new RegExp(`^${HEADER}\\r?\\npublic ([0-9a-f]{64})\\r?\\nsecret ([0-9a-f]{64})\\s*$`)
