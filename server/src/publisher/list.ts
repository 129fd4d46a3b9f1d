// Publishes a new file of a list: compares it with the newest epoch and sends batches, until the servers have what the file has.
//
//   1. The file is read, whole. Nothing is sent if it is malformed, or has values that the list has no room for.
//   2. What an earlier run left is finished.
//   3. The newest epoch is downloaded, checked by its manifest, and compared.
//   4. The batches go one after the other. Each is signed everywhere before the next is made.
//
// A later run continues after a kill: it finishes the batch under way, and compares again.

import { builtFor, equalBytes, FINGERPRINT_BYTES, hasRows, toHex } from '@keyhush/protocol'
import { type Core, loadCore } from '@keyhush/wasm'
import { PublishError } from '../base/errors.js'
import { MOST_BATCH_BYTES, MOST_BATCH_RECORDS_BYTES } from '../base/most.js'
import { type ListOptions, readList } from '../dataset/build.js'
import { blobsOf } from '../dataset/directory.js'
import type { KeyedRecords } from '../dataset/ingest/table.js'
import { hexHint } from '../dataset/shape.js'
import { RENEWAL } from './batches.js'
import { type Difference, differenceOf, misfit, portionsOf, tooManyDeletes, valueIn } from './difference.js'
import { whyGenerationWillPay } from './growth.js'
import { type NewestEpoch, newestOf, type PublishOptions, type PublishSummary, publish } from './publish.js'
import type { PublishedServer } from './server.js'

/** Room for a batch's header and more. */
const MOST_TEXT_BYTES = MOST_BATCH_BYTES - 1024

export interface PublishListOptions
  extends Omit<PublishOptions, 'operations' | 'encoding' | 'again' | 'onto' | 'following'>,
    ListOptions {
  /** so many deletes are allowed, even if they are more than a tenth of the keys; default: 0 */
  readonly allowDeletes?: number | undefined
  /** only say what would be done: nothing is sent, signed or written; default: false */
  readonly dryRun?: boolean | undefined
  /** of a folder in the place of servers: its file with the newest manifest, for messages */
  readonly manifestFile?: string | undefined
  /** most bytes of operations in a batch; default: as many as servers take */
  readonly batchBytes?: number | undefined
}

export interface ListSummary {
  readonly adds: number
  readonly edits: number
  readonly deletes: number
  readonly batches: number
  /** of all operations together */
  readonly bytes: number
  /** of the last batch, or of the newest epoch if there was none; undefined: it was a dry run */
  readonly published?: PublishSummary | undefined
  /** of a dry run: why a new generation is expected; undefined: none is */
  readonly growth?: string | undefined
  /** of a dry run: it will be begun, so that clients download the list again */
  readonly begins?: boolean | undefined
  /** of a dry run: the deletes are too many without `allowDeletes` */
  readonly isRefused: boolean
}

/**
 * Makes the list at all servers what a file has, by batches. You may always run it again, with this file or a newer one. If nothing has
 * changed and `expires` is later than the expiry that the newest epoch has, that is renewed.
 * @throws {BuildError} with file and line, if the file is malformed; then nothing was sent
 * @throws {PublishError} as `publish` does
 * @example
 * const record = await PublisherRecord.open('publisher.key.record')
 * const key = await readKeyFile('publisher.key')
 * await publishList({ servers, key, record, data: 'new.csv' })
 */
export async function publishList(options: PublishListOptions): Promise<ListSummary> {
  const core = await loadCore()
  const { data, valueEncoding: encoding = 'utf8', expires, allowDeletes = 0, dryRun = false, ...calm } = options
  const rows = await readList(core, options)
  let newest = await newestOf(calm)
  checkFits(newest, rows, options)
  let published: PublishSummary | undefined
  if (!dryRun) {
    published = await publish(calm)
    newest = await newestOf(calm)
  }
  const { manifest } = newest
  const difference = await differenceOf(manifest, partitionsOf(core, newest, options.onProgress), rows)
  const refusal = tooManyDeletes(deletesOf(difference), difference.before, allowDeletes)
  const isRefused = refusal !== undefined
  const most = {
    bytes: options.batchBytes ?? MOST_TEXT_BYTES,
    operations: Math.floor(MOST_BATCH_RECORDS_BYTES / manifest.recordBytes),
  }
  const portions = () => portionsOf(difference, rows, encoding, most)
  const counts = { adds: difference.adds.length, edits: difference.edits.length, deletes: deletesOf(difference) }
  let [batches, bytes] = [0, 0]
  for (const { operations } of portions()) {
    batches += 1
    bytes += operations.length
  }
  if (dryRun) {
    const growth = whyGenerationWillPay(core, manifest, difference.before, counts.adds)
    const begins = growth !== undefined && options.generation !== false && !hasRows(manifest)
    return { ...counts, batches, bytes, growth, begins, isRefused }
  }
  if (isRefused) throw new PublishError(`${data}: ${refusal}`)
  let [following, done] = [counts.adds, 0]
  let onto = toHex(core.blake3(newest.bytes))
  for (const { operations, adds, isLast } of portions()) {
    options.onProgress?.({ stage: 'publishing', done, total: batches })
    following -= adds
    const more = isLast && !published?.began ? undefined : following // a run begins one generation at most, unless one is full
    const made = await publish({ ...calm, operations, encoding, expires, again: true, onto, following: more })
    published = joined(published, made)
    onto = made.manifestHash
    done += 1
  }
  if (batches === 0 && expires !== undefined && expires > manifest.expires) {
    published = joined(published, await publish({ ...calm, operations: RENEWAL, expires, onto }))
  }
  return { ...counts, batches, bytes, published, isRefused }
}

/** Of two runs, one after the other. */
function joined(before: PublishSummary | undefined, after: PublishSummary): PublishSummary {
  const caughtUp = Math.max(before?.caughtUp ?? 0, after.caughtUp)
  return { ...after, caughtUp, growth: after.growth ?? before?.growth, began: after.began || before?.began === true }
}

function deletesOf({ deletes }: Difference): number {
  return deletes.length / FINGERPRINT_BYTES
}

/** Throws a BuildError or PublishError if no batch can bring the list what the file has. */
function checkFits({ manifest }: NewestEpoch, rows: KeyedRecords, options: PublishListOptions): void {
  const { data, format, valueEncoding, manifestFile } = options
  if (!manifest.keyed) {
    throw new PublishError(
      `${data}: expected a list with keys at the servers, got records without; publish a batch of operations by index`,
    )
  }
  const row = misfit(manifest, rows)
  if (row === undefined) return
  let longest = 0
  for (let i = 0; i < rows.records; i++) longest = Math.max(longest, valueIn(rows, i).length)
  const { valueBytes, variable } = manifest
  const { length } = valueIn(rows, row)
  const proofs = builtFor(manifest)
  const choices = [
    `--out next --succeeds ${manifestFile ?? 'manifest.bin'} --max-value-bytes ${longest}`,
    ...(format === undefined ? [] : [`--format ${format}`]),
    ...(valueEncoding === undefined ? [] : [`--value-encoding ${valueEncoding}`]),
    ...(proofs === 'merkle' ? [] : [`--proofs ${proofs}`]),
  ]
  const fit = variable ? `at most ${valueBytes} bytes` : `exactly ${valueBytes} bytes, as all values of the list have`
  const build = `\`keyhush build ${quoted(data)} ${choices.join(' ')}\` with your other options`
  const remedy =
    manifestFile === undefined
      ? `all operators build: \`curl -o manifest.bin ${options.servers[0]}/v1/manifest\`, then ${build}`
      : `you build: ${build}; then publish with \`--dataset next\` and another --store`
  throw rows.fault(
    row,
    `expected a value of ${fit}, got ${length}. Nothing was sent; ${hexHint(valueBytes, length)}other lengths need a generation that ${remedy}`,
  )
}

/** As a shell takes it. */
function quoted(file: string): string {
  return /^[\w./-]+$/.test(file) ? file : `'${file.replaceAll("'", `'\\''`)}'`
}

/** The records of an epoch, as its manifest has them. */
async function* partitionsOf(core: Core, newest: NewestEpoch, onProgress: ListOptions['onProgress']) {
  const { partitions } = newest.manifest
  const blobs = blobsOf(newest.manifest).slice(0, partitions)
  for (const [q, blob] of blobs.entries()) {
    yield await verified(core, newest.servers, blob)
    onProgress?.({ stage: 'comparing', done: q + 1, total: partitions })
  }
}

/** A blob from the first server that gives it. Throws PublishError. */
export async function verified(
  { blake3 }: Core,
  servers: readonly PublishedServer[],
  { hash, bytes }: { readonly hash: Uint8Array; readonly bytes: number },
): Promise<Uint8Array> {
  let fault: PublishError | undefined
  for (const server of servers) {
    try {
      const blob = await server.blob(toHex(hash), bytes)
      if (equalBytes(blake3(blob), hash)) return blob
      fault = new PublishError(`${server.name}: expected blob ${toHex(hash)}, got other bytes; ask its operator`, 4)
    } catch (error) {
      if (!(error instanceof PublishError)) throw error
      fault = error
    }
  }
  throw fault
}
