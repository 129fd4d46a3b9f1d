// Reads UTF-8 text in chunks or in lines. Lines end with LF or CRLF. A byte order mark at the start is skipped.

import { isUtf8 } from 'node:buffer'
import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { BuildError } from '../../base/errors.js'
import { MAX_LINE_BYTES, NOT_UTF8 } from './csv.js'

const CHUNK_BYTES = 1024 * 1024
const BYTE_ORDER_MARK = Buffer.from('\ufeff')
const LF = 0x0a
const CR = 0x0d

/** A file by its name, or what comes in. */
export type TextSource = string | Readable

/** A line without its end, which is a view, and its number from 1. */
export type TextLine = readonly [bytes: Buffer, number: number]

/** The chunks of a text, without its byte order mark. Calls `onChunk` with each chunk as it came. Throws BuildError if it cannot be read. */
export async function* readText(source: TextSource, onChunk?: (chunk: Uint8Array) => void): AsyncGenerator<Buffer> {
  let start = Buffer.alloc(0) // kept until a byte order mark would fit
  let started = false
  const input = typeof source === 'string' ? createReadStream(source, { highWaterMark: CHUNK_BYTES }) : source
  for await (const chunk of readable(input, nameOf(source))) {
    onChunk?.(chunk)
    if (started) {
      yield chunk
      continue
    }
    start = Buffer.concat([start, chunk])
    if (start.length < BYTE_ORDER_MARK.length) continue
    started = true
    yield withoutByteOrderMark(start)
  }
  if (!started) yield start
}

async function* readable(input: AsyncIterable<Buffer>, name: string): AsyncGenerator<Buffer> {
  try {
    yield* input
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException
    if (syscall === undefined) throw error
    throw new BuildError(`expected a file that can be read, got ${code}; see its permissions, and the disk`, name)
  }
}

/** The lines of a text, those that end in one chunk at a time. Throws BuildError with the line if one is too long, or not UTF-8. */
export async function* readLines(
  source: TextSource,
  onChunk?: (chunk: Uint8Array) => void,
): AsyncGenerator<Iterable<TextLine>> {
  const name = nameOf(source)
  let rest: Buffer = Buffer.alloc(0)
  let number = 0
  const next = (bytes: Buffer): TextLine => {
    number++
    if (!isUtf8(bytes)) throw new BuildError(NOT_UTF8, name, number)
    return [withoutCarriageReturn(bytes), number]
  }
  function* linesOf(text: Buffer): Generator<TextLine> {
    let start = 0
    for (let end = text.indexOf(LF); end !== -1; end = text.indexOf(LF, start)) {
      yield next(text.subarray(start, end))
      start = end + 1
    }
    rest = text.subarray(start)
  }
  for await (const chunk of readText(source, onChunk)) {
    yield linesOf(rest.length === 0 ? chunk : Buffer.concat([rest, chunk]))
    if (rest.length > MAX_LINE_BYTES) {
      throw new BuildError(`expected lines of at most ${MAX_LINE_BYTES} bytes, got a longer one`, name, number + 1)
    }
  }
  if (rest.length > 0) yield [next(rest)]
}

/** For messages. */
export function nameOf(source: TextSource): string {
  return typeof source === 'string' ? source : 'standard input'
}

function withoutByteOrderMark(text: Buffer): Buffer {
  return text.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK) ? text.subarray(BYTE_ORDER_MARK.length) : text
}

function withoutCarriageReturn(line: Buffer): Buffer {
  return line.at(-1) === CR ? line.subarray(0, -1) : line
}
