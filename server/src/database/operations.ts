// A batch's operations, from text to what the core takes: kinds, fingerprints or indices, and whole stored records in
// flat buffers; or the operation that begins a generation. Wrong text is refused here, with its line; the core knows which keys exist.

import { isUtf8 } from 'node:buffer'
import {
  type Batch,
  type BatchEncoding,
  FINGERPRINT_BYTES,
  fromHex,
  isZero,
  MAX_KEY_BYTES,
  type Manifest,
  WireError,
  writeRecord,
} from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { parseMembers } from '../base/json.js'
import { MOST_BATCH_RECORDS_BYTES } from '../base/most.js'
import { Pace } from '../base/pace.js'
import { Refusal } from '../base/refusal.js'
import { decodeValue } from '../dataset/ingest/values.js'
import { hexHint } from '../dataset/shape.js'

/** n operations, as the core takes them. */
export interface Operations {
  /** 1 add, 2 edit, 3 delete */
  readonly kinds: Uint8Array
  /** keyed: 16 bytes each */
  readonly fingerprints: Uint8Array
  /** keyless */
  readonly indices: Uint32Array
  /** ℓ bytes each; zero for a delete */
  readonly records: Uint8Array
}

/** The operation that is a batch of its own: begin a generation with room for so many records more. */
export interface BeginGeneration {
  readonly headroom: number
  /** in a sharded database, whose next generation is built: what the batch says of its shards */
  readonly shards?: unknown
}

const KINDS = ['add', 'edit', 'delete'] as const
const LF = 0x0a
const CR = 0x0d
const BRACE = 0x7b
const CLOSING_BRACE = 0x7d
const BYTE_ORDER_MARK = Buffer.from('\ufeff')
/** All zeros mark an empty slot. */
const FINGERPRINT = /^(?!0+$)[0-9a-f]{32}$/
const LONE_SURROGATE = /\p{Surrogate}/u
/** Of an index, and of headroom. */
const MOST = 0xffff_ffff

/** One line of a batch. */
interface Line {
  readonly kind: number
  readonly key: Uint8Array
  /** of a delete that names its key by it */
  readonly fingerprint: Uint8Array | undefined
  readonly index: number
  readonly value: Uint8Array
}

/** A line with the longest key and value, in hex and every character escaped, has 0.8 MiB. A longer line is not looked at. */
const MOST_LINE_BYTES = 1024 * 1024

/** Lines whose keys are hashed together, at most. */
const LINES_TOGETHER = 256

/** Reads a batch's lines for a database of this shape, in slices. Throws a `batch_refused` Refusal with the line and reason. */
export async function readOperations(
  core: Core,
  manifest: Manifest,
  { encoding, operations: text }: Pick<Batch, 'encoding' | 'operations'>,
): Promise<Operations | BeginGeneration> {
  const pace = new Pace()
  const ends = await lineEnds(text, pace)
  const count = ends.length
  const lineAt = (i: number) => text.subarray(i === 0 ? 0 : ends[i - 1]! + 1, ends[i])
  if (count === 0) throw new Refusal('batch_refused', 'expected at least one operation, got none')
  if (count === 1) {
    const members = readObject(lineAt(0), 1)
    if (members['op'] === 'generation') return readGeneration(members, manifest)
    if (members['op'] === 'renew') return readRenewal(members)
  }
  const { keyed, recordBytes } = manifest
  const most = Math.floor(MOST_BATCH_RECORDS_BYTES / recordBytes)
  if (count > most) refuse(most + 1, `expected at most ${most} operations, got ${count}; split the batch`)
  const kinds = new Uint8Array(count)
  const fingerprints = new Uint8Array(keyed ? count * FINGERPRINT_BYTES : 0)
  const indices = new Uint32Array(keyed ? 0 : count)
  const records = new Uint8Array(count * recordBytes)
  // A line that is no operation is refused before a key or a value that does not fit, whichever comes first.
  let [keyless, unfit]: (() => never)[] = []
  for (let start = 0, end = 0; start < count; start = end) {
    const lines: Line[] = []
    do {
      lines.push(readLine(keyed, encoding, lineAt(end), end + 1))
      end += 1
    } while (end < count && lines.length < LINES_TOGETHER && !pace.isOver)
    const prints = keyed ? fingerprintsOf(core, lines) : undefined
    if (prints !== undefined) fingerprints.set(prints, start * FINGERPRINT_BYTES)
    for (const [n, { kind, index, value }] of lines.entries()) {
      const i = start + n
      kinds[i] = kind
      if (!keyed) indices[i] = index
      const fingerprint = prints?.subarray(FINGERPRINT_BYTES * n, FINGERPRINT_BYTES * (n + 1))
      if (fingerprint !== undefined && isZero(fingerprint)) {
        keyless ??= () => refuse(i + 1, 'no database can hold this key: its fingerprint marks an empty slot')
      }
      if (KINDS[kind - 1] === 'delete') continue
      try {
        writeRecord(manifest, records, i * recordBytes, fingerprint, value)
      } catch (error) {
        if (!(error instanceof WireError)) throw error
        unfit ??= () => refuse(i + 1, misfit(manifest, value))
      }
    }
    await pace.yield()
  }
  keyless?.()
  unfit?.()
  return { kinds, fingerprints, indices, records }
}

function misfit({ valueBytes, variable, shards }: Manifest, value: Uint8Array): string {
  const fit = variable ? `at most ${valueBytes} bytes` : `exactly ${valueBytes} bytes, as all values have`
  const remedy =
    shards === undefined
      ? 'build with --max-value-bytes'
      : 'begin a generation of another shape (docs/operations/sharded.md)'
  return `expected a value of ${fit}, got ${value.length}; ${hexHint(valueBytes, value.length)}for values of other lengths ${remedy}`
}

export function refuse(line: number, reason: string): never {
  throw new Refusal('batch_refused', `line ${line}: ${reason}`, undefined, { line })
}

/** Where lines end. Every line ends with LF, the last one too, and there is nothing around its object. */
async function lineEnds(text: Uint8Array, pace: Pace): Promise<number[]> {
  const ends: number[] = []
  for (let start = 0; start < text.length; ) {
    const number = ends.length + 1
    const ahead = text.subarray(start, start + MOST_LINE_BYTES + 1)
    const length = ahead.indexOf(LF)
    if (length === -1 && ahead.length > MOST_LINE_BYTES) {
      refuse(number, `expected at most ${MOST_LINE_BYTES} bytes, got more; write each operation on a line of its own`)
    }
    if (length === -1) refuse(number, 'it does not end with a line feed; end every line with one, the last too')
    const end = start + length
    const line = ahead.subarray(0, length)
    if (line.includes(CR)) refuse(number, 'it has a carriage return; end lines with a line feed alone')
    if (text[start] !== BRACE || text[end - 1] !== CLOSING_BRACE) {
      refuse(number, strayOf(line))
    }
    ends.push(end)
    start = end + 1
    if (pace.isOver) await pace.yield()
  }
  return ends
}

/** Why a line is refused that is not an object from brace to brace. */
function strayOf(line: Uint8Array): string {
  if (line.length === 0) return 'expected one JSON object, got an empty line; remove it'
  if (!isUtf8(line) || line.includes(0)) return 'expected UTF-8, got other bytes, as UTF-16 has; convert the file'
  if (BYTE_ORDER_MARK.equals(line.subarray(0, BYTE_ORDER_MARK.length)))
    return 'expected one JSON object, got a byte order mark before it; write the file without'
  return 'expected one JSON object, {…}, with nothing before or after it, got something else'
}

function readLine(keyed: boolean, encoding: BatchEncoding, bytes: Uint8Array, number: number): Line {
  const { op, ...others } = readObject(bytes, number)
  if (op === 'generation' || op === 'renew') {
    refuse(number, `"${op}" must be the only line of its batch; publish it separately`)
  }
  const kind = 1 + KINDS.indexOf(op as (typeof KINDS)[number])
  if (kind === 0)
    refuse(number, 'expected "op" to be "add", "edit", "delete", "generation" or "renew", got something else')
  const isByPrint = keyed && op === 'delete' && others['key'] === undefined && others['fingerprint'] !== undefined
  const place = keyed ? (isByPrint ? 'fingerprint' : 'key') : 'index'
  const wanted = [...(keyed || op !== 'add' ? [place] : []), ...(op === 'delete' ? [] : ['value'])]
  const unwanted = Object.keys(others).filter(name => !wanted.includes(name))
  refuseMembers(unwanted, `${op} in a ${keyed ? 'keyed' : 'keyless'} database`, number)
  return {
    kind,
    key: wanted.includes('key') ? readKey(others['key'], number) : new Uint8Array(),
    fingerprint: isByPrint ? readFingerprint(others['fingerprint'], number) : undefined,
    index: wanted.includes('index') ? readIndex(others['index'], number) : 0,
    value: wanted.includes('value') ? readValue(others['value'], encoding, number) : new Uint8Array(),
  }
}

function readGeneration({ op: _, ...members }: Record<string, unknown>, manifest: Manifest): BeginGeneration {
  const [wanted, of] =
    manifest.shards === undefined ? ['headroom', ''] : (['shards', ' in a sharded database'] as const)
  const unwanted = Object.keys(members).filter(name => name !== wanted)
  refuseMembers(unwanted, `generation${of}`, 1)
  const { headroom = 0, shards } = members
  if (typeof headroom !== 'number' || headroom > MOST) {
    return refuse(1, `expected "headroom" to be a whole number from 0 to ${MOST}, got something else`)
  }
  return { headroom, shards }
}

/** No operations: the epoch differs from the one before in its number and expiry alone. */
function readRenewal({ op: _, ...others }: Record<string, unknown>): Operations {
  refuseMembers(Object.keys(others), 'renew', 1)
  const none = new Uint8Array()
  return { kinds: none, fingerprints: none, indices: new Uint32Array(), records: none }
}

/** Throws if there are members that do not belong to an operation. */
function refuseMembers([name]: readonly string[], operation: string, number: number): void {
  if (name === undefined) return
  refuse(number, `the member ${JSON.stringify(name.slice(0, 40))} does not belong to ${operation}; remove it`)
}

function readObject(bytes: Uint8Array, number: number): Record<string, unknown> {
  if (!isUtf8(bytes)) refuse(number, 'expected UTF-8, got other bytes; convert the file')
  const members = parseMembers(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString())
  return typeof members === 'string' ? refuse(number, members) : members
}

function readKey(key: unknown, number: number): Uint8Array {
  const bytes = readText(key, 'the member "key"', number)
  if (bytes.length === 0) refuse(number, 'expected a key, got an empty one; remove the line')
  if (bytes.length > MAX_KEY_BYTES) refuse(number, `expected a key up to ${MAX_KEY_BYTES} bytes, got ${bytes.length}`)
  return bytes
}

function readFingerprint(fingerprint: unknown, number: number): Uint8Array {
  if (typeof fingerprint === 'string' && FINGERPRINT.test(fingerprint)) return fromHex(fingerprint)
  return refuse(
    number,
    `expected "fingerprint" to be ${2 * FINGERPRINT_BYTES} lower-case hex digits, not all zero, got something else`,
  )
}

function readIndex(index: unknown, number: number): number {
  if (typeof index !== 'number' || index > MOST) {
    return refuse(number, 'expected the member "index" to be the index of a record, got none or another')
  }
  return index
}

function readValue(value: unknown, encoding: BatchEncoding, number: number): Uint8Array {
  const bytes = decodeValue(readText(value, '"value"', number), encoding)
  return typeof bytes === 'string' ? refuse(number, bytes) : bytes
}

function readText(text: unknown, what: string, number: number): Buffer {
  if (typeof text !== 'string') return refuse(number, `expected ${what} to be text, got none or another kind`)
  if (LONE_SURROGATE.test(text)) refuse(number, 'a lone surrogate (\\ud800 to \\udfff) has no UTF-8')
  return Buffer.from(text)
}

function fingerprintsOf(core: Core, lines: readonly Line[]): Uint8Array {
  const ends = new Uint32Array(lines.length)
  let length = 0
  lines.forEach(({ key }, i) => {
    length += key.length
    ends[i] = length
  })
  const keys = new Uint8Array(length)
  lines.forEach(({ key }, i) => void keys.set(key, ends[i]! - key.length))
  const fingerprints = core.fingerprints(keys, ends)
  lines.forEach(({ fingerprint }, i) => {
    if (fingerprint !== undefined) fingerprints.set(fingerprint, FINGERPRINT_BYTES * i)
  })
  return fingerprints
}
