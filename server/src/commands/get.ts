// `keyhush get`: private lookups from a terminal. The status is grep's: 0, something was found; 1, nothing; 2, a lookup failed.

import { readFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { type Found, KeyhushError, type KeyhushMap, open, UsageError } from '@keyhush/client/instant'
import { OperatorError } from '../base/errors.js'
import { ignoredProxy } from '../base/ignored-proxy.js'
import { keysOf } from '../dataset/ingest/index.js'
import { readLines } from '../dataset/ingest/lines.js'
import type { ValueEncoding } from '../dataset/ingest/values.js'
import { readPublicKey } from '../publisher/files.js'

/** The options of `get` as commander gives them. */
export interface GetArguments {
  readonly servers: readonly string[]
  readonly publisherKey?: string
  /** the file of a policy */
  readonly witnesses?: string
  readonly stdin?: boolean
  readonly json?: boolean
  readonly valueEncoding?: ValueEncoding
}

/** Keys of --stdin that are looked up at once: so many, or a half, or less, as the list allows. The servers see no other number. */
const AT_ONCE = 8

/** Prints an answer a line. Resolves to the exit code: 0, something was found; 1, nothing. `over`: makes the map that is asked. */
export async function get(
  keys: readonly string[],
  options: GetArguments,
  over: (map: KeyhushMap) => KeyhushMap = map => map,
): Promise<number> {
  if (options.stdin ? keys.length > 0 : keys.length === 0) {
    throw new OperatorError('expected keys as arguments, or --stdin, got neither or both; give one of them')
  }
  const { servers, publisherKey: key, witnesses } = options
  const signed = key === undefined ? {} : { publisherKey: await readPublicKey(key) }
  const seen = witnesses === undefined ? {} : { witnesses: await readFile(witnesses, 'utf8') }
  try {
    const map = await open({ servers, ...signed, ...seen })
    try {
      return await printAll(over(map), keys, options)
    } finally {
      await map.close()
    }
  } catch (error) {
    if (!(error instanceof KeyhushError)) throw error
    throw new OperatorError(error.code === 'network' ? `${error.message}${ignoredProxy()}` : error.message)
  }
}

async function printAll(
  map: KeyhushMap,
  keys: readonly string[],
  { stdin, json, valueEncoding = 'utf8' }: GetArguments,
): Promise<number> {
  const lineOf = json ? jsonLine : line
  let found = 0
  const print = (wanted: readonly string[], values: readonly Found[]) => {
    for (const [i, value] of values.entries()) {
      if (value !== undefined) found++
      process.stdout.write(`${lineOf(wanted[i]!, value && said(value, valueEncoding))}\n`)
    }
  }
  let padTo = AT_ONCE
  const printSeveral = async (all: readonly string[]) => {
    for (let done = 0; done < all.length; ) {
      const some = all.slice(done, done + padTo)
      try {
        print(some, await map.getMany(some, { padTo }))
        done += padTo
      } catch (error) {
        if (!(error instanceof UsageError) || padTo === 1) throw error
        padTo /= 2 // nothing was sent
      }
    }
  }
  if (stdin) for await (const some of several(process.stdin)) await printSeveral(some)
  else print(keys, await map.getMany(keys))
  return found === 0 ? 1 : 0
}

/** Keys, a few at a time. */
async function* several(input: Readable): AsyncGenerator<string[]> {
  let keys: string[] = []
  for await (const lines of readLines(input)) {
    for (const [key] of keysOf(lines, input)) {
      keys.push(key.toString())
      if (keys.length < AT_ONCE) continue
      yield keys
      keys = []
    }
  }
  if (keys.length > 0) yield keys
}

/** A value as text. `base64`: in its place, if it has none. */
interface Said {
  readonly value?: string | null
  readonly base64?: string
}

/** For people, who read one answer a line: no value can look like the next one's. */
function line(key: string, value: Said | undefined): string {
  if (value === undefined) return `${quoted(key)} absent`
  const { value: text, base64 } = value
  return `${quoted(key)} found ${base64 === undefined ? quoted(text) : `base64 ${quoted(base64)}`}`
}

/** null: absent */
function jsonLine(key: string, value: Said = { value: null }): string {
  return quoted({ key, ...value })
}

function said(value: Uint8Array, encoding: ValueEncoding): Said {
  const bytes = Buffer.from(value)
  const text = bytes.toString(encoding)
  return bytes.equals(Buffer.from(text, encoding)) ? { value: text } : { base64: bytes.toString('base64') }
}

/** What JSON leaves as it is and a terminal obeys: other control characters, other ends of lines, a reversed direction of text. */
const OBEYED = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** JSON of characters that a terminal only shows. */
function quoted(what: unknown): string {
  return JSON.stringify(what).replace(OBEYED, character => {
    const units = Array.from(character.split(''), unit => unit.charCodeAt(0))
    return units.map(unit => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
  })
}
