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
  readDelimited,
  readJsonLines,
  readLines,
  type ValueEncoding,
} from '@keyhush/server/beside'
import { readOwnerKey } from './files.js'
import { loadSecrets, type Secret } from './module.js'

export interface TransformOptions {
  /** csv, tsv or jsonl, by its extension. JSON lines with `op` are a batch of changes. */
  readonly from: string
  /** a new file: csv for a list, jsonl for a batch */
  readonly to: string
  /** the owner's */
  readonly key: string
  /** default: utf8 */
  readonly valueEncoding?: ValueEncoding | undefined
  /** called now and then with the number of entries that are done */
  readonly onProgress?: ((entries: number) => void) | undefined
}

export interface Transformed {
  readonly entries: number
  readonly what: 'list' | 'batch'
}

const KEY_CHARACTERS = 64
const FRESH_BYTES = 8
const OPERATIONS = ['add', 'edit', 'delete']

interface Entry {
  /** in the list: 64 hexadecimal digits */
  readonly key: string
  readonly line: string
}

/** Throws BuildError with file and line. `to` is there whole, or not at all. */
export async function transform(options: TransformOptions): Promise<Transformed> {
  const { from, to, valueEncoding = 'utf8', onProgress } = options
  const { secret: bytes, valueBytes } = await readOwnerKey(options.key)
  const { SecretHandle } = await loadSecrets()
  const sealing = new Sealing(new SecretHandle(bytes), valueBytes, from)
  const format = extname(from).slice(1).toLowerCase()
  const isBatch = format === 'jsonl' && (await isBatchFile(from))
  const out = await open(to, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
    throw new BuildError(
      'it exists already; another run makes another file, so publish this one, or choose another name',
      to,
    )
  })
  try {
    const entries: Entry[] = []
    const add = (entry: Entry) => {
      if (entries.push(entry) % 1000 === 0) onProgress?.(entries.length)
    }
    if (isBatch) await readBatch(from, valueEncoding, sealing, add)
    else {
      const records = {
        add: (key: Uint8Array, value: Uint8Array, line: number) => {
          const sealed = sealing.entry(key, value, line)
          add({ key: sealed.key, line: `${sealed.key},${sealed.value}` })
        },
      }
      if (format === 'csv' || format === 'tsv') {
        await readDelimited(from, format === 'csv' ? ',' : '\t', valueEncoding, records)
      } else if (format === 'jsonl') await readJsonLines(from, valueEncoding, records)
      else throw new BuildError('expected a name in csv, tsv or jsonl, got another; rename the file', from)
      if (entries.length === 0) throw new BuildError('expected entries, got none; name another file', from)
    }
    entries.sort((a, b) => (a.key < b.key ? -1 : Number(a.key > b.key))) // stable: changes of one key keep their order
    await out.writeFile(`${isBatch ? '' : 'key,value\n'}${entries.map(({ line }) => `${line}\n`).join('')}`)
    await out.sync()
    return { entries: entries.length, what: isBatch ? 'batch' : 'list' }
  } catch (error) {
    await unlink(to)
    throw error
  } finally {
    await out.close()
  }
}

/** Makes entries of the list with an owner's key. */
class Sealing {
  readonly #secret: Secret
  readonly #valueBytes: number
  readonly #file: string

  constructor(secret: Secret, valueBytes: number, file: string) {
    this.#secret = secret
    this.#valueBytes = valueBytes
    this.#file = file
  }

  /** Throws BuildError. */
  entry(
    key: Uint8Array,
    value: Uint8Array | undefined,
    line: number,
  ): { readonly key: string; readonly value: string } {
    const refuse = (what: string, most: number, got: number) => {
      throw new BuildError(`expected a ${what} of 1 to ${most} bytes, got ${got}`, this.#file, line)
    }
    if (key.length === 0 || key.length > MAX_KEY_BYTES) refuse('key', MAX_KEY_BYTES, key.length)
    if (value && value.length > this.#valueBytes) refuse('value', this.#valueBytes, value.length)
    const entry = Buffer.from(
      this.#secret.entry(key, value, randomFillSync(new Uint8Array(FRESH_BYTES)), this.#valueBytes),
    )
    return {
      key: entry.toString('latin1', 0, KEY_CHARACTERS),
      value: entry.toString('base64', KEY_CHARACTERS),
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
      const { op, key, value, ...others } = parsed(bytes.toString(), refuse)
      const isChange = typeof op === 'string' && OPERATIONS.includes(op) && typeof key === 'string'
      const hasValue = typeof value === 'string'
      if (!isChange || Object.keys(others).length > 0 || hasValue === (op === 'delete')) {
        refuse('expected {"op": "add" or "edit", "key", "value"} or {"op": "delete", "key"}, got another line')
      }
      const decoded = hasValue ? decodeValue(Buffer.from(value), encoding) : undefined
      if (typeof decoded === 'string') return refuse(decoded)
      const sealed = sealing.entry(Buffer.from(key as string), decoded, line)
      const change = { op, key: sealed.key, ...(hasValue && { value: sealed.value }) }
      add({ key: sealed.key, line: JSON.stringify(change) })
    }
  }
}

function parsed(text: string, refuse: (reason: string) => never): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {}
  return refuse('expected a JSON object on each line, got another text')
}
