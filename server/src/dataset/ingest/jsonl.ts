// Reads jsonl files: one object a line, `{"key": string, "value": string}`, without other members.

import { BuildError } from '../../base/errors.js'
import { parseMembers } from '../../base/json.js'
import { nameOf, readLines, type TextSource } from './lines.js'
import type { Records } from './table.js'
import { decodeValue, type ValueEncoding } from './values.js'

export async function readJsonLines(
  source: TextSource,
  encoding: ValueEncoding,
  table: Records,
  onChunk?: (chunk: Uint8Array) => void,
): Promise<void> {
  for await (const lines of readLines(source, onChunk)) {
    for (const [bytes, line] of lines) {
      const refuse = (reason: string): never => {
        throw new BuildError(reason, nameOf(source), line)
      }
      const entry = parseEntry(bytes.toString())
      if (typeof entry === 'string') return refuse(entry)
      const value = decodeValue(Buffer.from(entry.value), encoding)
      if (typeof value === 'string') return refuse(value)
      table.add(Buffer.from(entry.key), value, line)
    }
  }
}

/** The line's members, or why the line is refused. */
function parseEntry(text: string): { key: string; value: string } | string {
  const members = parseMembers(text)
  if (typeof members === 'string') return `expected {"key": "…", "value": "…"}, but ${members}`
  const { key, value, ...others } = members
  if (typeof key !== 'string') return 'expected the member "key" to be a string, got none or another kind'
  if (typeof value !== 'string') return 'expected the member "value" to be a string, got none or another kind'
  const [unknown] = Object.keys(others)
  if (unknown !== undefined)
    return `expected "key" and "value" alone, got the member ${JSON.stringify(unknown)}; remove it`
  return faultOfText(`${key}\n${value}`) ?? { key, value }
}

const LONE_SURROGATE = /\p{Surrogate}/u

/** Why a text of JSON cannot be bytes; undefined: it can. */
export function faultOfText(text: string): string | undefined {
  if (!LONE_SURROGATE.test(text)) return undefined
  return 'expected text, got a lone surrogate (\\ud800 to \\udfff), which has no UTF-8; write both halves'
}
