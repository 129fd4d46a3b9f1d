// jsonl: one object a line, `{"key": string, "value": string}` and no other members.

import { isUtf8 } from 'node:buffer'
import { BuildError } from '../../base/errors.js'
import { parseMembers } from '../../base/json.js'
import { readLines } from './lines.js'
import type { Table } from './table.js'
import { decodeValue, type ValueEncoding } from './values.js'

export async function readJsonLines(
  file: string,
  encoding: ValueEncoding,
  table: Table,
  onBytes?: (bytes: number) => void,
): Promise<void> {
  await readLines(
    file,
    (bytes, line) => {
      const refuse = (reason: string): never => {
        throw new BuildError(reason, file, line)
      }
      if (!isUtf8(bytes)) refuse('the line is not UTF-8')
      const entry = parseEntry(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString())
      if (typeof entry === 'string') return refuse(entry)
      const value = decodeValue(Buffer.from(entry.value), encoding)
      if (typeof value === 'string') return refuse(value)
      table.add(Buffer.from(entry.key), value, line)
    },
    onBytes,
  )
}

/** A line's members, or what is wrong with it. */
function parseEntry(text: string): { key: string; value: string } | string {
  const members = parseMembers(text)
  if (typeof members === 'string') return `the line cannot be read: ${members}`
  const { key, value, ...others } = members
  if (typeof key !== 'string') return 'the member "key" is not there or not a string'
  if (typeof value !== 'string') return 'the member "value" is not there or not a string'
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) return `the member ${JSON.stringify(unknown)} is not known; only "key" and "value" are`
  if (LONE_SURROGATE.test(key) || LONE_SURROGATE.test(value))
    return 'a lone surrogate (\\ud800 to \\udfff) has no UTF-8'
  return { key, value }
}

const LONE_SURROGATE = /\p{Surrogate}/u
