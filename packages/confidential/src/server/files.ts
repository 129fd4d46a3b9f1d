// The owner's key file, and the share of each evaluator. A file is written once, for its owner alone, and never overwritten.

import { randomBytes } from 'node:crypto'
import { readFile, realpath, unlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fromHex, MAX_RECORD_BYTES, toHex } from '@keyhush/protocol'
import { BuildError, writeWhole } from '@keyhush/server/beside'
import { MOST_EVALUATORS } from '../wire/messages.js'
import { loadSecrets } from './module.js'

/** Longest value of a list: what a record holds, less its fingerprint and what sealing adds. */
export const MOST_VALUE_BYTES = MAX_RECORD_BYTES - 64

const OWNER = 'keyhush confidential owner key v1'
const SHARE = 'keyhush confidential share v1'

/** What an owner has chosen for its list. */
export interface Choices {
  /** of the longest value */
  readonly valueBytes: number
  readonly evaluators: number
  /** how many of them suffice */
  readonly atLeast: number
  /** values are bought one by one; default: false */
  readonly priced?: boolean | undefined
}

export interface OwnerKey extends Choices {
  readonly evaluationKey: string
  readonly secret: Uint8Array
  /** of a priced list: k₂, or a share of it, and its public key */
  readonly unlockSecret?: Uint8Array | undefined
  readonly unlockKey?: string | undefined
  /** how often shares were dealt */
  readonly deal: number
}

/** It has the owner's choices, so that enough shares recover the key file. */
export interface Share extends OwnerKey {
  readonly number: number
}

/** Throws BuildError for choices that no list can have. */
export function checkChoices({ valueBytes, evaluators, atLeast }: Choices): void {
  const whole = (name: string, value: number, least: number, most: number) => {
    if (Number.isInteger(value) && value >= least && value <= most) return
    throw new BuildError(`--${name}: expected a whole number from ${least} to ${most}, got ${value}`)
  }
  whole('value-bytes', valueBytes, 0, MOST_VALUE_BYTES)
  whole('evaluators', evaluators, 1, MOST_EVALUATORS)
  whole('at-least', atLeast, 1, evaluators)
}

/** Makes a key, writes it to `file`, and shares of it beside it: `share-1` and so on. Returns the evaluation key. Throws BuildError. */
export async function createOwnerKey(file: string, choices: Choices): Promise<string> {
  checkChoices(choices)
  const { newSecret } = await loadSecrets()
  const unlockSecret = choices.priced ? newSecret(randomBytes(64)) : undefined
  return await writeKey(file, { ...choices, secret: newSecret(randomBytes(64)), unlockSecret, deal: 1 })
}

/** Deals shares of the same secret anew. They replace the old ones when all evaluators have them. Returns the files' names. Throws BuildError. */
export async function reshare(file: string, choices: Partial<Omit<Choices, 'valueBytes'>> = {}): Promise<string[]> {
  const key = await readOwnerKey(file)
  const { evaluators = key.evaluators, atLeast = Math.min(key.atLeast, evaluators) } = choices
  const next = { ...key, evaluators, atLeast, deal: key.deal + 1 }
  checkChoices(next)
  const shares = await sharesOf(file, next)
  // The shares first: a deal that the file knows has its shares.
  await writeAll(shares)
  await writeWhole(await realpath(file), Buffer.from(textOf(next)), 0o600)
  return [...shares.keys()]
}

/** Makes the owner's key file of enough shares of one deal, and deals new ones. Returns the evaluation key. Throws BuildError. */
export async function recoverOwnerKey(
  file: string,
  shares: readonly string[],
  choices: Partial<Omit<Choices, 'valueBytes'>> = {},
): Promise<string> {
  const read = await Promise.all(shares.map(readShare))
  const [first] = read
  const nameOf = (share: Share | undefined) => `${share?.deal} ${share?.evaluationKey} ${share?.unlockKey}`
  const isOneDeal = read.every(share => nameOf(share) === nameOf(first))
  if (first === undefined || !isOneDeal || new Set(read.map(({ number }) => number)).size < read.length) {
    throw new BuildError(
      'expected different shares of one key and one deal, got others; see the line "deal" in each file',
    )
  }
  const { recover } = await loadSecrets()
  const numbers = Uint8Array.from(read, ({ number }) => number)
  const secret = recover(numbers, Buffer.concat(read.map(each => each.secret)))
  const unlockSecret = first.unlockSecret && recover(numbers, Buffer.concat(read.map(each => each.unlockSecret!)))
  const unlockKey = unlockSecret && (await evaluationKeyOf(unlockSecret))
  if ((await evaluationKeyOf(secret)) !== first.evaluationKey || unlockKey !== first.unlockKey) {
    throw new BuildError(
      `expected ${first.atLeast} shares of this evaluation key, got ${read.length}, or a damaged one; name others`,
    )
  }
  const { evaluators = first.evaluators, atLeast = Math.min(first.atLeast, evaluators) } = choices
  const key = { valueBytes: first.valueBytes, evaluators, atLeast, secret, unlockSecret, deal: first.deal + 1 }
  checkChoices(key)
  return await writeKey(file, key)
}

async function writeKey(file: string, key: Omit<OwnerKey, 'evaluationKey' | 'unlockKey'>): Promise<string> {
  const evaluationKey = await evaluationKeyOf(key.secret)
  const unlockKey = key.unlockSecret && (await evaluationKeyOf(key.unlockSecret))
  const whole = { ...key, evaluationKey, unlockKey }
  await writeAll(new Map([...(await sharesOf(file, whole)), [file, textOf(whole)]]))
  return evaluationKey
}

async function evaluationKeyOf(secret: Uint8Array): Promise<string> {
  const { SecretHandle } = await loadSecrets()
  return toHex(new SecretHandle(secret).publicKey())
}

/** The files of a new deal, and their texts. */
async function sharesOf(file: string, key: OwnerKey): Promise<Map<string, string>> {
  const { secret, unlockSecret, evaluators, atLeast, deal } = key
  const { deal: dealt } = await loadSecrets()
  const sharesOf = (whole: Uint8Array) => dealt(whole, evaluators, randomBytes(64 * (atLeast - 1)))
  const [shares, unlockShares] = [sharesOf(secret), unlockSecret && sharesOf(unlockSecret)]
  const suffix = deal === 1 ? '' : `-deal-${deal}`
  return new Map(
    Array.from({ length: evaluators }, (_, i) => [
      join(dirname(file), `share-${i + 1}${suffix}`),
      lines(SHARE, {
        number: i + 1,
        ...fieldsToWrite({
          ...{ ...key, secret: shares.subarray(32 * i, 32 * i + 32) },
          unlockSecret: unlockShares?.subarray(32 * i, 32 * i + 32),
        }),
      }),
    ]),
  )
}

/** Throws BuildError whose message quotes nothing of the file. */
export async function readOwnerKey(file: string): Promise<OwnerKey> {
  const key = keyIn(await fieldsOf(file, OWNER, 'an owner key, as `keyhush-confidential keygen` makes one'))
  checkChoices(key)
  const isOf = async (secret: Uint8Array, publicKey: string | undefined) =>
    (await evaluationKeyOf(secret).catch(() => undefined)) === publicKey
  if (
    !(await isOf(key.secret, key.evaluationKey)) ||
    (key.unlockSecret && !(await isOf(key.unlockSecret, key.unlockKey)))
  ) {
    throw new BuildError('expected a secret and its evaluation key, got a damaged file; restore your backup', file)
  }
  return key
}

/** Throws BuildError, also for an owner's key, which must not be at an evaluator. */
export async function readShare(file: string): Promise<Share> {
  const read = await fieldsOf(file, SHARE, 'a share of an evaluator. An owner key must not be at an evaluator')
  return { ...keyIn(read), number: read.number('number') }
}

const keyIn = ({ hex, number, has }: Fields): OwnerKey => ({
  ...(has('unlock-secret') && { unlockSecret: fromHex(hex('unlock-secret')), unlockKey: hex('unlock-key') }),
  ...{ evaluationKey: hex('evaluation'), secret: fromHex(hex('secret')), deal: number('deal') },
  ...{ valueBytes: number('value-bytes'), evaluators: number('evaluators'), atLeast: number('at-least') },
})

const fieldsToWrite = (key: OwnerKey) => ({
  ...{ evaluation: key.evaluationKey, 'value-bytes': key.valueBytes, evaluators: key.evaluators },
  ...{ 'at-least': key.atLeast, deal: key.deal },
  ...(key.unlockSecret && { 'unlock-secret': toHex(key.unlockSecret), 'unlock-key': key.unlockKey! }),
  secret: toHex(key.secret), // last: a file that was cut off is none, and never that of a list without prices
})

const textOf = (key: OwnerKey): string => lines(OWNER, fieldsToWrite(key))

function lines(header: string, fields: Readonly<Record<string, string | number>>): string {
  return [header, ...Object.entries(fields).map(([name, value]) => `${name} ${value}`), ''].join('\n')
}

/** All files or none: a key without its shares, or shares of two deals with one number, would pass for a whole deal. */
async function writeAll(files: ReadonlyMap<string, string>): Promise<void> {
  const written: string[] = []
  try {
    for (const [file, text] of files) {
      await write(file, text)
      written.push(file)
    }
  } catch (error) {
    await Promise.all(written.map(file => unlink(file)))
    throw error
  }
}

async function write(file: string, text: string): Promise<void> {
  await writeFile(file, text, { flag: 'wx', mode: 0o600 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
    throw new BuildError('it exists already, and a key is never overwritten; choose another name', file)
  })
}

type Fields = Awaited<ReturnType<typeof fieldsOf>>

async function fieldsOf(file: string, header: string, expected: string) {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new BuildError(`expected ${expected}, got no file that can be read (${error.code})`, file)
  })
  const [first, ...rest] = text.trim().split(/\r?\n/)
  const fields = new Map(rest.map(line => line.split(' ', 2) as [string, string]))
  const field = (name: string, form: RegExp): string => {
    const value = first === header ? fields.get(name) : undefined
    if (value !== undefined && form.test(value)) return value
    throw new BuildError(`expected ${expected}, got another file, or a damaged one`, file)
  }
  return {
    has: (name: string) => first === header && fields.has(name),
    hex: (name: string) => field(name, /^[0-9a-f]{64}$/),
    number: (name: string) => Number(field(name, /^\d{1,9}$/)),
  }
}
