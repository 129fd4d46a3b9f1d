// Explains the bytes of a lookup's requests and replies, field by field. The lengths are those of docs/protocol.md (HTTP, Instant
// lookups, One server, Rollback fence); the fields of a message always add up to its length.

import {
  blockBytes,
  DATABASE_ID_BYTES,
  decodeClaimedQuery,
  decodeInstantQuery,
  depth,
  entryBytes,
  FENCE_REPLY_BYTES,
  FENCE_REQUEST_BYTES,
  HASH_BYTES,
  HEADER_BYTES,
  HINT_ID_BYTES,
  INSTANT_PATH,
  instantLayout,
  type Manifest,
  OFFSET_BYTES,
  proofBytes,
  proofsIn,
  SUITE_INSTANT_DIRECTORY,
  SUITE_PARITIES,
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
const FENCE_MAGIC = 'PIRF'

/** The kind of a question, by the suite number in its header. */
const KINDS: Readonly<Record<number, string>> = {
  1: 'records, each with its proof',
  2: 'records, checked with what is kept here',
  3: 'records, from one server alone',
  4: 'an instant lookup of a record',
  5: 'an instant lookup in the list of keys',
  6: 'records, with one proof for all',
}

/** The fields of a request to `path`. */
export function fieldsOfRequest(path: string, bytes: Uint8Array): Field[] {
  if (path.endsWith('/v1/fence')) return placed(claimFields(bytes), bytes)
  if (path.endsWith(INSTANT_PATH)) {
    const { count, queries } = decodeInstantQuery(bytes)
    return placed([...headFields(bytes), ...times(count, k => keyFields(queries, count, k))], bytes)
  }
  const { query, claim } = decodeClaimedQuery(bytes, ({ count }) => parityQueryBytes(bytes, count))
  const { suite, count, vectors } = query
  const each = vectors.length / count
  const question = suite === SUITE_PARITIES ? halvesFields(each) : offsetsFields(each)
  const behind = claim === undefined ? [] : claimFields(bytes.subarray(bytes.length - FENCE_REQUEST_BYTES))
  return placed([...headFields(bytes), ...times(count, k => question.map(numbered(k, count))), ...behind], bytes)
}

/** The fields of the reply to `request`, from a database with this manifest. */
export function fieldsOfReply(path: string, request: Uint8Array, bytes: Uint8Array, manifest: Manifest): Field[] {
  if (path.endsWith('/v1/fence')) return placed(verdictFields(bytes), bytes)
  const head = headFields(bytes)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const [suite, count] = [view.getUint16(6, true), view.getUint16(36, true)]
  if (path.endsWith(INSTANT_PATH)) {
    const of = suite === SUITE_INSTANT_DIRECTORY ? 'directory' : 'records'
    const answer = sumFields(instantLayout(manifest, of), of === 'directory' ? 'list of keys' : 'database')
    return placed([...head, ...times(count, k => answer.map(numbered(k, count)))], bytes)
  }
  const { claim } = decodeClaimedQuery(request, ({ count }) => parityQueryBytes(request, count))
  const behind = claim === undefined ? [] : verdictFields(bytes.subarray(bytes.length - FENCE_REPLY_BYTES))
  const answer = suite === SUITE_PARITIES ? paritiesFields(manifest) : entriesFields(manifest, suite)
  return placed([...head, ...times(count, k => answer.map(numbered(k, count))), ...behind], bytes)
}

/** The random bytes of a request: after the header, and before a claim for the rollback fence. */
export function secretPart(path: string, bytes: Uint8Array): Uint8Array {
  if (path.endsWith('/v1/fence')) return new Uint8Array()
  const claimed = !path.endsWith(INSTANT_PATH) && hasClaim(bytes)
  return bytes.subarray(HEADER_BYTES, claimed ? bytes.length - FENCE_REQUEST_BYTES : bytes.length)
}

/** The length of each query in a request of mode `single`, which may end with a claim. */
export function parityQueryBytes(body: Uint8Array, count: number): number {
  return ((hasClaim(body) ? body.length - FENCE_REQUEST_BYTES : body.length) - HEADER_BYTES) / count
}

function hasClaim(body: Uint8Array): boolean {
  const end = body.length - FENCE_REQUEST_BYTES
  return end > 0 && new TextDecoder().decode(body.subarray(end, end + 4)) === FENCE_MAGIC
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
    { bytes: 4, name: 'What it is', means: magic === 'PIRQ' ? 'a question' : 'an answer', value: magic },
    { bytes: 2, name: 'Format', means: 'of this message', value: String(view.getUint16(4, true)) },
    { bytes: 2, name: 'Kind', means: KINDS[suite] ?? 'unknown', value: String(suite) },
    { bytes: DATABASE_ID_BYTES, name: 'Database', means: 'which one; the same for everybody who asks it' },
    { bytes: 4, name: 'Arrangement', means: 'counts how often the database was laid out anew', value: number(24) },
    { bytes: 4, name: 'Version', means: 'of the database: the same for everybody', value: number(28) },
    { bytes: 4, name: 'Parts', means: 'that the database is cut into', value: number(32) },
    { bytes: 2, name: 'Questions', means: 'asked at once', value: String(view.getUint16(36, true)) },
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
    { bytes: SEED_BYTES, name: 'Seed', means: 'random; the other server has another' },
    {
      bytes: levels * SEED_BYTES,
      name: 'Corrections',
      means: `${levels} of 16 bytes, the same for both servers: with one seed alone they look random`,
    },
    { bytes: bitsBytes(levels), name: 'Correction bits', means: `${2 * levels}, the same for both servers` },
    { bytes: SEED_BYTES, name: 'Last correction', means: 'the same for both servers' },
    {
      bytes: 1,
      name: 'Half',
      means: 'which of the two keys this is: a coin decides who gets which',
      value: String(party),
    },
  ].map(numbered(k, count))
}

const bitsBytes = (levels: number) => Math.ceil(levels / 4)
const keyBytes = (levels: number) => 2 * SEED_BYTES + levels * SEED_BYTES + bitsBytes(levels) + 1

function offsetsFields(bytes: number): Loose[] {
  const places = bytes / OFFSET_BYTES
  return [
    {
      bytes,
      name: 'Places',
      means: `${places} random ones of ${OFFSET_BYTES} bytes: one in each part of the database`,
    },
  ]
}

function halvesFields(each: number): Loose[] {
  const stripes = Math.floor((8 * each) / 17)
  const halves = Math.ceil(stripes / 8)
  return [
    { bytes: halves, name: 'Halves', means: `a bit for each of ${stripes} stripes: a random half of them` },
    {
      bytes: each - halves,
      name: 'Places',
      means: `${stripes} random ones of ${OFFSET_BYTES} bytes: one in each stripe`,
    },
  ]
}

function claimFields(bytes: Uint8Array): Loose[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return [
    {
      bytes: 4,
      name: 'Against copies',
      means: 'for this server alone, so that a copy of this page’s secrets is noticed',
    },
    { bytes: 2, name: 'Format', means: 'of this part', value: String(view.getUint16(4, true)) },
    { bytes: 2, name: 'Kind', means: '1 begins, 2 goes on', value: String(view.getUint16(6, true)) },
    { bytes: DATABASE_ID_BYTES, name: 'Database', means: 'the same as above' },
    { bytes: HINT_ID_BYTES, name: 'Whose', means: 'a random number that stands for this page’s secrets' },
    { bytes: 8, name: 'Use', means: 'how often they have been used', value: String(view.getBigUint64(40, true)) },
    { bytes: HASH_BYTES, name: 'Fingerprint', means: 'of this very use: another one with the same number is refused' },
  ]
}

function verdictFields(bytes: Uint8Array): Loose[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const kind = view.getUint16(6, true)
  return [
    { bytes: 4, name: 'Against copies', means: 'what this server has to say to the number of uses' },
    { bytes: 2, name: 'Format', means: 'of this part', value: String(view.getUint16(4, true)) },
    { bytes: 2, name: 'Verdict', means: kind === 1 ? 'nobody has used a copy' : 'refused', value: String(kind) },
  ]
}

function sumFields(layout: ReturnType<typeof instantLayout>, what: string): Loose[] {
  const levels = depth(layout)
  let grouped = 0
  while (grouped < levels && 2 ** grouped * layout.recordBytes < LEAST_GROUP_BYTES) grouped += 1
  const siblings = levels - grouped
  const group = {
    bytes: 2 ** grouped * layout.recordBytes,
    name: 'Sum',
    means: `of about half of the whole ${what}, ${2 ** grouped} × ${layout.recordBytes} bytes at a time: noise without the other server’s`,
  }
  const path = {
    bytes: siblings * HASH_BYTES,
    name: 'Proof',
    means: `${siblings} sums of ${HASH_BYTES} bytes: with the other server’s they lead to what both had agreed on`,
  }
  return siblings === 0 ? [group] : [group, path]
}

function paritiesFields(manifest: Manifest): Loose[] {
  const bytes = blockBytes(manifest)
  return [
    { bytes, name: 'Sum of one half', means: 'of the records at those places' },
    { bytes, name: 'Sum of the other', means: 'the server cannot tell which of them is of use' },
  ]
}

function entriesFields(manifest: Manifest, suite: number): Loose[] {
  const proofs = proofsIn(manifest, { suite })
  const { partitions } = manifest
  const proof = proofBytes(manifest, proofs)
  const proved = proof === 0 ? '' : `, each with ${proof} bytes that prove it`
  const means = `${partitions} of ${blockBytes(manifest)} bytes, one from each part${proved}: all of them are checked`
  return [{ bytes: partitions * entryBytes(manifest, proofs), name: 'Records', means }]
}
