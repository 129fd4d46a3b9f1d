// The fields of a header, described once. A table of them gives the header's length, how it is written and read, the range of
// each field, and what a later epoch may change. Fields stand one behind the other, in the table's order.

import { checkInteger, checkLength, copyOf, isZero } from './bytes.js'
import { malformed } from './errors.js'

interface Rules {
  /** of the number as it is written; missing: 0, and the largest that fits, at most 2^53 - 1 */
  readonly min?: number
  readonly max?: number
  /** what the next epoch of a generation has: the same value, or no smaller one; missing: any */
  readonly next?: 'same' | 'no smaller'
  /** zero in a database without keys */
  readonly keyedOnly?: boolean
}

/** A field whose values are a T. */
export interface Field<T> extends Rules {
  /** what error messages and docs/protocol.md call it */
  readonly name: string
  readonly bytes: number
  /** numbers are little-endian: as they are, 1 or 0, or a power of two by its logarithm */
  readonly type: 'number' | 'flag' | 'power' | 'bytes'
  /** never there: for the compiler */
  readonly values?: T
}

export type Fields = Readonly<Record<string, Field<unknown>>>

/** What a table's header says. */
export type Values<F extends Fields> = { readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never }

const fieldOf =
  <T>(type: Field<T>['type']) =>
  (name: string, bytes: number, rules?: Rules): Field<T> => ({ name, bytes, type, ...rules })

export const number = fieldOf<number>('number')
export const flag = fieldOf<boolean>('flag')
export const power = fieldOf<number>('power')
export const byteString = fieldOf<Uint8Array>('bytes')

/** Not with `in`, which also names what a page adds to Object.prototype. */
export const namesOf = <F extends Fields>(fields: F) => Object.keys(fields) as (keyof F & string)[]

/** Bytes of a header. */
export function headerBytes(fields: Fields): number {
  return Object.values(fields).reduce((sum, { bytes }) => sum + bytes, 0)
}

function checkRange({ name, bytes, type, min = 0, max = 256 ** bytes - 1 }: Field<unknown>, value: number): void {
  checkInteger(name, value, min, type === 'flag' ? 1 : Math.min(max, Number.MAX_SAFE_INTEGER))
}

/** Reads a header, and checks each field by itself. The values share no memory with `bytes`. Throws WireError. */
export function readFields<F extends Fields>(fields: F, bytes: Uint8Array): Values<F> {
  const values: Record<string, unknown> = {}
  let at = 0
  for (const key of namesOf(fields)) {
    const field = fields[key]!
    const read = copyOf(bytes, at, at + field.bytes)
    at += field.bytes
    if (field.type === 'bytes') {
      values[key] = read
      continue
    }
    const value = read.reduceRight((sum, byte) => 256 * sum + byte, 0) // inexact above 2^53, where it is refused
    checkRange(field, value)
    values[key] = field.type === 'flag' ? value === 1 : field.type === 'power' ? 2 ** value : value
  }
  return values as Values<F>
}

/** Writes a header, and checks each field by itself. Throws WireError. */
export function writeFields<F extends Fields>(fields: F, values: Values<F>): Uint8Array {
  const bytes = new Uint8Array(headerBytes(fields))
  let at = 0
  for (const key of namesOf(fields)) {
    const field = fields[key]!
    const value: unknown = values[key]
    if (field.type === 'bytes') {
      checkLength(field.name, value as Uint8Array, field.bytes)
      bytes.set(value as Uint8Array, at)
    } else {
      let rest = field.type === 'power' ? Math.log2(value as number) : Number(value)
      checkRange(field, rest)
      for (let i = 0; i < field.bytes; i++, rest = Math.floor(rest / 256)) bytes[at + i] = rest % 256
    }
    at += field.bytes
  }
  return bytes
}

/** Throws WireError for a field of a database without keys that only others have. */
export function checkKeyless<F extends Fields>(fields: F, values: Values<F>): void {
  for (const key of namesOf(fields))
    if (fields[key]!.keyedOnly) checkZero(fields[key]!.name, values[key], 'without keys')
}

/** Throws WireError for a number, flag or bytes that are not zero; `why` says what calls for it. */
export function checkZero(name: string, value: unknown, why: string): void {
  if (typeof value === 'object' ? !isZero(value as Uint8Array) : Number(value) !== 0)
    malformed(name, `zero ${why}`, 'others')
}
