// Explains the bytes of an instant lookup's requests and replies, field by field. The lengths are those of docs/protocol.md; the
// fields of a message always add up to its length.

import {
  DATABASE_ID_BYTES,
  decodeInstantQuery,
  depth,
  HASH_BYTES,
  instantLayout,
  type Manifest,
  SUITE_INSTANT_DIRECTORY,
} from '@keyhush/protocol'

export interface Field {
  /** where it begins */
  readonly at: number
  readonly bytes: number
  readonly name: string
  readonly means: string
  /** shown instead of the bytes */
  readonly value?: string
}

/** A field before its offset is known. */
type Loose = Omit<Field, 'at'>

const SEED_BYTES = 16
const LEAST_GROUP_BYTES = 256

/** The kind of a question, by the suite number in its header. */
const KINDS: Readonly<Record<number, string>> = { 4: 'a record', 5: 'a part of the list of keys' }

/** The fields of a request. */
export function fieldsOfRequest(bytes: Uint8Array): Field[] {
  const { count, queries } = decodeInstantQuery(bytes)
  return placed([...headFields(bytes), ...times(count, k => keyFields(queries, count, k))], bytes)
}

/** The fields of a reply, from a database with this manifest. */
export function fieldsOfReply(bytes: Uint8Array, manifest: Manifest): Field[] {
  const head = headFields(bytes)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const [suite, count] = [view.getUint16(6, true), view.getUint16(36, true)]
  const of = suite === SUITE_INSTANT_DIRECTORY ? 'directory' : 'records'
  const answer = sumFields(instantLayout(manifest, of), of === 'directory' ? 'list of keys' : 'list')
  return placed([...head, ...times(count, k => answer.map(numbered(k, count)))], bytes)
}

/** Gives each field its offset. Throws unless the fields add up to all bytes. */
function placed(fields: readonly Loose[], bytes: Uint8Array): Field[] {
  let at = 0
  const found = fields.map(field => {
    const here = { at, ...field }
    at += field.bytes
    return here
  })
  if (at !== bytes.length) throw new RangeError(`fields of ${at} bytes, in ${bytes.length}`)
  return found
}

function times(count: number, fields: (k: number) => readonly Loose[]): Loose[] {
  return Array.from({ length: count }, (_, k) => fields(k)).flat()
}

const numbered = (k: number, count: number) => (field: Loose) =>
  count === 1 ? field : { ...field, name: `Question ${k + 1}: ${field.name.toLowerCase()}` }

function headFields(bytes: Uint8Array): Loose[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const magic = new TextDecoder().decode(bytes.subarray(0, 4))
  const suite = view.getUint16(6, true)
  const number = (at: number) => String(view.getUint32(at, true))
  return [
    { bytes: 4, name: 'What it is', means: magic === 'PIRQ' ? 'a request' : 'a reply', value: magic },
    { bytes: 2, name: 'Format', means: 'of this message', value: String(view.getUint16(4, true)) },
    { bytes: 2, name: 'Kind', means: `asks for ${KINDS[suite] ?? 'something unknown'}`, value: String(suite) },
    { bytes: DATABASE_ID_BYTES, name: 'Database', means: 'which list; the same for everybody' },
    { bytes: 4, name: 'Generation', means: 'layout of the list; the same for everybody', value: number(24) },
    { bytes: 4, name: 'Epoch', means: 'version of the list; the same for everybody', value: number(28) },
    { bytes: 4, name: 'Partitions', means: 'parts of the list', value: number(32) },
    { bytes: 2, name: 'Questions', means: 'in this message', value: String(view.getUint16(36, true)) },
    { bytes: 2, name: 'Unused', means: 'zeros' },
  ]
}

/** One key of a distributed point function. Its length gives its number of levels. */
function keyFields(queries: Uint8Array, count: number, k: number): Loose[] {
  const each = queries.length / count
  const levels = Array.from({ length: 32 }, (_, n) => n).find(n => keyBytes(n) === each)
  const party = queries[(k + 1) * each - 1]
  if (levels === undefined || party === undefined) throw new RangeError(`no key has ${each} bytes`)
  return [
    { bytes: SEED_BYTES, name: 'Seed', means: 'random; the other server gets another' },
    {
      bytes: levels * SEED_BYTES,
      name: 'Corrections',
      means: `${levels} of 16 bytes, the same for both servers; they look random to each`,
    },
    { bytes: bitsBytes(levels), name: 'Correction bits', means: `${2 * levels}, the same for both servers` },
    { bytes: SEED_BYTES, name: 'Last correction', means: 'the same for both servers' },
    {
      bytes: 1,
      name: 'Half',
      means: 'which of the two halves this is; a coin decides who gets which',
      value: String(party),
    },
  ].map(numbered(k, count))
}

const bitsBytes = (levels: number) => Math.ceil(levels / 4)
const keyBytes = (levels: number) => 2 * SEED_BYTES + levels * SEED_BYTES + bitsBytes(levels) + 1

function sumFields(layout: ReturnType<typeof instantLayout>, what: string): Loose[] {
  const levels = depth(layout)
  let grouped = 0
  while (grouped < levels && 2 ** grouped * layout.recordBytes < LEAST_GROUP_BYTES) grouped += 1
  const siblings = levels - grouped
  const group = {
    bytes: 2 ** grouped * layout.recordBytes,
    name: 'Sum',
    means: `over about half of the ${what}; noise without the other server’s sum`,
  }
  const path = {
    bytes: siblings * HASH_BYTES,
    name: 'Proof',
    means: `${siblings} hashes; with the other server’s they must lead to the fingerprint of the list`,
  }
  return siblings === 0 ? [group] : [group, path]
}
