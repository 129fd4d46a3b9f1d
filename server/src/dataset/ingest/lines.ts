// Reads a text file in chunks or in lines. Lines end with LF or CRLF. A byte order mark at the start is skipped.

import { createReadStream } from 'node:fs'
import { BuildError } from '../../base/errors.js'
import { MAX_LINE_BYTES } from './csv.js'

const CHUNK_BYTES = 1024 * 1024
const BYTE_ORDER_MARK = Buffer.from('\ufeff')
const LF = 0x0a
const CR = 0x0d

/** The chunks of a text file, without its byte order mark. Calls `onBytes` with the length of each chunk. */
export async function* readText(file: string, onBytes?: (bytes: number) => void): AsyncGenerator<Buffer> {
  let start = Buffer.alloc(0) // kept until a byte order mark would fit
  let started = false
  for await (const chunk of createReadStream(file, { highWaterMark: CHUNK_BYTES }) as AsyncIterable<Buffer>) {
    onBytes?.(chunk.length)
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

/** Calls `onLine` with each line, a view without its line end, and its number from 1. */
export async function readLines(
  file: string,
  onLine: (line: Uint8Array, number: number) => void,
  onBytes?: (bytes: number) => void,
): Promise<void> {
  let rest: Buffer = Buffer.alloc(0)
  let number = 0
  for await (const chunk of readText(file, onBytes)) {
    const text = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let start = 0
    for (let end = text.indexOf(LF); end !== -1; end = text.indexOf(LF, start)) {
      onLine(withoutCarriageReturn(text.subarray(start, end)), ++number)
      start = end + 1
    }
    rest = text.subarray(start)
    if (rest.length > MAX_LINE_BYTES) {
      throw new BuildError(`expected lines of at most ${MAX_LINE_BYTES} bytes, got a longer one`, file, number + 1)
    }
  }
  if (rest.length > 0) onLine(withoutCarriageReturn(rest), ++number)
}

function withoutByteOrderMark(text: Buffer): Buffer {
  return text.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK) ? text.subarray(BYTE_ORDER_MARK.length) : text
}

function withoutCarriageReturn(line: Buffer): Buffer {
  return line.at(-1) === CR ? line.subarray(0, -1) : line
}
