// The stored form of a head, and its checks: nothing that is read is trusted (S3).

import { equalBytes } from '@keyhush/protocol'
import type { StoredHead } from './rules.js'
import { type StateHead, StateUnreadableError, StoreUnavailableError } from './store.js'

/** The one format that is read. Format 1 had one epoch only, format 2 one scheme, format 3 one fence. layouts.test.ts holds it. */
export const FORMAT = 4

/** The row that is written. */
export function toRow(head: StoredHead): StoredHead & { readonly format: number } {
  return { format: FORMAT, ...head }
}

/**
 * A head from what was read. Throws StateUnreadableError for anything that `toRow` has not made; StoreUnavailableError for
 * a newer format: another tab runs a newer release, and its state must not be replaced.
 */
export function fromRow(row: unknown): StoredHead {
  const { format, ...head } = Object(row) as Partial<ReturnType<typeof toRow>>
  if (isCount(format) && format > FORMAT) {
    throw new StoreUnavailableError(
      `the stored state is of format ${format}, made by a newer release of the SDK; this one reads format ${FORMAT}. Reload the page, or update the app`,
    )
  }
  if (format !== FORMAT) {
    throw new StateUnreadableError(`the stored state is of format ${format}; this SDK reads format ${FORMAT}`)
  }
  if (!isHead(head)) throw new StateUnreadableError('the stored head is torn or foreign')
  return head
}

function isHead(head: Partial<StoredHead>): head is StoredHead {
  const { record, stage, version, checkpointVersion, journalBytes, pending, condemned } = head
  return (
    isBytes(record?.hintId) &&
    record.hintId.length === 16 &&
    isText(record.scheme) &&
    Array.isArray(record.parties) &&
    record.parties.every(isText) &&
    Array.isArray(record.fenced) &&
    record.fenced.every(isText) &&
    isBytes(record.manifest) &&
    (record.signature === undefined || isBytes(record.signature)) &&
    isStage(stage) &&
    isCount(version) &&
    isCount(checkpointVersion) &&
    checkpointVersion <= version &&
    (stage === 'whole' || (checkpointVersion === version && pending === undefined)) &&
    isCount(journalBytes) &&
    (pending === undefined || isBytes(pending)) &&
    (condemned === undefined || condemned.culprit === undefined || isText(condemned.culprit))
  )
}

/** Whether two heads are equal. Rows come back with their properties in any order. */
export function isSameHead(a: StoredHead, b: StoredHead): boolean {
  return isSame(a, b)
}

function isSame(a: unknown, b: unknown): boolean {
  if (isBytes(a) || isBytes(b)) return isBytes(a) && isBytes(b) && equalBytes(a, b)
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b
  const parts = Object.entries(a)
  const others = new Map(Object.entries(b))
  return (
    parts.length === others.size && parts.every(([name, part]) => others.has(name) && isSame(part, others.get(name)))
  )
}

export function isBytes(value: unknown): value is Uint8Array {
  return value instanceof Uint8Array
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function isStage(value: unknown): value is StateHead['stage'] {
  return value === 'partial' || value === 'whole'
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
