// Transforms an owner's list, or a batch of changes: keys become pseudorandom, values sealed and of one length. What comes out goes to
// `keyhush build` or `publish`.
//
//   owner.csv ──► key', sealed value ──► sorted by key' ──► blind.csv
//
// Sorted, because the owner's order tells something. A second run makes other bytes, so an output is never overwritten: `publish` must
// get the same file again.

import { randomFillSync } from 'node:crypto'
import { open, unlink } from 'node:fs/promises'
import { extname } from 'node:path'
import { MAX_KEY_BYTES } from '@keyhush/protocol'
import {
  BuildError,
  decodeValue,
  faultOfText,
  keysOf,
  parseMembers,
  readDelimited,
  readJsonLines,
  readLines,
  tooManyDeletes,
  type ValueEncoding,
  writeWhole,
} from '@keyhush/server/beside'
import { readOwnerKey } from './files.js'
import { loadSecrets, type Secret } from './module.js'

export interface TransformOptions {
  /** csv, tsv, txt or jsonl, by its extension. JSON lines with `op` are a batch of changes. */
  readonly from: string
  /** the list before: what differs in `from` becomes a batch of changes */
  readonly since?: string | undefined
  /** a new file: csv for a list, jsonl for a batch. Without changes none is made. */
  readonly to: string
  /** the owner's */
  readonly key: string
  /** with `since`: so many deletes are allowed, even if they are more than a tenth of its keys; default: 0 */
  readonly allowDeletes?: number | undefined
  /** default: utf8 */
  readonly valueEncoding?: ValueEncoding | undefined
  /** called now and then with the number of entries that are done */
  readonly onProgress?: ((entries: number) => void) | undefined
}

export interface Transformed {
  readonly entries: number
  readonly what: 'list' | 'batch'
}

const KEY_CHARACTERS = 65
const FRESH_BYTES = 8
const OPERATIONS = ['add', 'edit', 'delete']
const NO_VALUE = new Uint8Array()

/** Written at a time: a list may be longer than a string can be. */
const ENTRIES_TOGETHER = 1000

interface Entry {
  /** in the list: `~` and 64 hexadecimal digits */
  readonly key: string
  readonly line: string
  /** the line that it comes from; undefined: a key that is gone */
  readonly from: number | undefined
}

/** Throws BuildError with file and line. `to` is there whole, or not at all; empty, after a crash. */
export async function transform(options: TransformOptions): Promise<Transformed> {
  const { to } = options
  const out = await open(to, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
    throw new BuildError(
      'it exists already; another run makes another file, so publish this one, or choose another name',
      to,
    )
  })
  await out.close()
  try {
    const { entries, what } = await entriesOf(options)
    if (entries.length === 0) await unlink(to)
    else await writeWhole(to, linesOf(what === 'batch' ? [] : ['key,value'], entries), 0o600)
    return { entries: entries.length, what }
  } catch (error) {
    await unlink(to)
    throw error
  }
}

function* linesOf(header: readonly string[], entries: readonly Entry[]): Generator<string> {
  for (const line of header) yield `${line}\n`
  for (let i = 0; i < entries.length; i += ENTRIES_TOGETHER) {
    yield entries
      .slice(i, i + ENTRIES_TOGETHER)
      .map(({ line }) => `${line}\n`)
      .join('')
  }
}

/** The line of `from` that became line `line` of the batch that `transform` made of it. Throws BuildError. */
export async function lineBefore(line: number, options: Omit<TransformOptions, 'to'>): Promise<number | undefined> {
  const { entries } = await entriesOf({ ...options, allowDeletes: Number.POSITIVE_INFINITY })
  const entry = entries[line - 1]
  if (entry) return entry.from
  throw new BuildError(`expected a line from 1 to ${entries.length}, got ${line}`, options.from)
}

async function entriesOf(
  options: Omit<TransformOptions, 'to'>,
): Promise<Omit<Transformed, 'entries'> & { entries: Entry[] }> {
  const { from, since, allowDeletes = 0, valueEncoding = 'utf8', onProgress } = options
  const { secret: bytes, unlockSecret, valueBytes } = await readOwnerKey(options.key)
  const { SecretHandle } = await loadSecrets()
  const unlocking = unlockSecret && new SecretHandle(unlockSecret)
  const sealing = new Sealing(new SecretHandle(bytes), unlocking, valueBytes, from)
  const entries: Entry[] = []
  const add = (entry: Entry) => {
    if (entries.push(entry) % 1000 === 0) onProgress?.(entries.length)
  }
  const isBatch = since === undefined && extname(from).toLowerCase() === '.jsonl' && (await isBatchFile(from))
  if (isBatch) await readBatch(from, valueEncoding, sealing, add)
  else if (since === undefined) {
    await readList(from, valueEncoding, (key, value, line) => {
      const sealed = sealing.entry(key, value, line)
      add({ key: sealed.key, line: `${sealed.key},${sealed.value}`, from: line })
    })
  } else {
    const before = new Map<string, Buffer>()
    await readList(since, valueEncoding, (key, value) => before.set(textOf(key), Buffer.from(value)))
    const { size } = before
    await readList(from, valueEncoding, (key, value, line) => {
      const old = before.get(textOf(key))
      before.delete(textOf(key))
      if (!old?.equals(value)) add(sealing.change(old ? 'edit' : 'add', key, value, line))
    })
    const refusal = tooManyDeletes(before.size, size, allowDeletes)
    if (refusal !== undefined) throw new BuildError(refusal, from)
    for (const key of before.keys()) add(sealing.change('delete', Buffer.from(key), undefined, undefined))
  }
  entries.sort((a, b) => (a.key < b.key ? -1 : Number(a.key > b.key))) // stable: changes of one key keep their order
  return { entries, what: isBatch || since !== undefined ? 'batch' : 'list' }
}

/** Calls `add` for each entry of a list. Throws BuildError. */
async function readList(
  file: string,
  encoding: ValueEncoding,
  add: (key: Uint8Array, value: Uint8Array, line: number) => void,
): Promise<void> {
  const lines = new Map<string, number>()
  const records = {
    add: (key: Uint8Array, value: Uint8Array, line: number) => {
      const twin = lines.get(textOf(key))
      if (twin !== undefined) throw new BuildError(`the same key as on line ${twin}; delete one of them`, file, line)
      lines.set(textOf(key), line)
      add(key, value, line)
    },
  }
  const format = extname(file).toLowerCase()
  if (format === '.csv' || format === '.tsv') {
    await readDelimited(file, format === '.csv' ? ',' : '\t', encoding, records)
  } else if (format === '.jsonl') await readJsonLines(file, encoding, records)
  else if (format === '.txt') {
    for await (const some of readLines(file)) {
      for (const [key, line] of keysOf(some, file)) records.add(key, NO_VALUE, line)
    }
  } else throw new BuildError('expected a name in csv, tsv, txt or jsonl, got another; rename the file', file)
  if (lines.size === 0) throw new BuildError('expected entries, got none; name another file', file)
}

/** Keys are UTF-8. */
const textOf = (key: Uint8Array): string => Buffer.from(key.buffer, key.byteOffset, key.length).toString()

/** Makes entries of the list with an owner's key. */
class Sealing {
  readonly #secret: Secret
  /** of a priced list */
  readonly #unlocking: Secret | undefined
  readonly #valueBytes: number
  readonly #file: string

  constructor(secret: Secret, unlocking: Secret | undefined, valueBytes: number, file: string) {
    this.#secret = secret
    this.#unlocking = unlocking
    this.#valueBytes = valueBytes
    this.#file = file
  }

  /** Throws BuildError. */
  entry(
    key: Uint8Array,
    value: Uint8Array | undefined,
    line: number | undefined,
  ): { readonly key: string; readonly value: string } {
    const refuse = (what: string, got: number) => {
      throw new BuildError(`expected a ${what} bytes, got ${got}`, this.#file, line)
    }
    if (key.length === 0 || key.length > MAX_KEY_BYTES) refuse(`key of 1 to ${MAX_KEY_BYTES}`, key.length)
    if (value && value.length > this.#valueBytes) refuse(`value of at most ${this.#valueBytes}`, value.length)
    const fresh = randomFillSync(new Uint8Array(FRESH_BYTES))
    const sealed = this.#unlocking ? undefined : value
    const entry = Buffer.from(this.#secret.entry(key, sealed, fresh, this.#valueBytes))
    const priced = value && this.#unlocking?.priced(key, value, fresh, this.#valueBytes)
    return {
      key: entry.toString('latin1', 0, KEY_CHARACTERS),
      value: priced ? Buffer.from(priced).toString('base64') : entry.toString('base64', KEY_CHARACTERS),
    }
  }

  /** A line of a batch. Throws BuildError. */
  change(op: string, key: Uint8Array, value: Uint8Array | undefined, line: number | undefined): Entry {
    const sealed = this.entry(key, value, line)
    return {
      key: sealed.key,
      line: JSON.stringify({ op, key: sealed.key, ...(value && { value: sealed.value }) }),
      from: line,
    }
  }
}

/** Whether the first line is a change. */
async function isBatchFile(file: string): Promise<boolean> {
  for await (const lines of readLines(file)) {
    for (const [bytes] of lines) return /^\s*\{.*"op"\s*:/.test(bytes.toString())
  }
  return false
}

async function readBatch(
  file: string,
  encoding: ValueEncoding,
  sealing: Sealing,
  add: (entry: Entry) => void,
): Promise<void> {
  for await (const lines of readLines(file)) {
    for (const [bytes, line] of lines) {
      const refuse = (reason: string): never => {
        throw new BuildError(reason, file, line)
      }
      const members = parseMembers(bytes.toString())
      if (typeof members === 'string') return refuse(`expected a JSON object on each line, but ${members}`)
      const { op, key, value, ...others } = members
      const isChange = typeof op === 'string' && OPERATIONS.includes(op) && typeof key === 'string'
      const hasValue = typeof value === 'string'
      if (!isChange || Object.keys(others).length > 0 || hasValue === (op === 'delete')) {
        refuse('expected {"op": "add" or "edit", "key", "value"} or {"op": "delete", "key"}, got another line')
      }
      const fault = faultOfText(`${key}\n${value}`)
      if (fault !== undefined) return refuse(fault)
      const decoded = hasValue ? decodeValue(Buffer.from(value), encoding) : undefined
      if (typeof decoded === 'string') return refuse(decoded)
      add(sealing.change(op as string, Buffer.from(key as string), decoded, line))
    }
  }
}
