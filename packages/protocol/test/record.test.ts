import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeRecord, encodeRecord, type RecordShape, WireError, writeRecord } from '../src/index.js'
import { bytesOf, expectExactOrRefused, holdToLaw } from './arbitraries.js'

const shapes: fc.Arbitrary<RecordShape> = fc
  .record({
    keyed: fc.boolean(),
    variable: fc.boolean(),
    valueBytes: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.constantFrom(255, 256, 300)),
  })
  .map(shape => ({ ...shape, recordBytes: (shape.keyed ? 16 : 0) + (shape.variable ? 2 : 0) + shape.valueBytes }))

const records = shapes.chain(shape =>
  fc.record({
    shape: fc.constant(shape),
    fingerprint: shape.keyed ? bytesOf(16).filter(bytes => bytes.some(byte => byte !== 0)) : fc.constant(undefined),
    value: fc.uint8Array({ minLength: shape.variable ? 0 : shape.valueBytes, maxLength: shape.valueBytes }),
  }),
)

const encodeStored = (shape: RecordShape) => (stored: ReturnType<typeof decodeRecord>) =>
  stored.empty ? new Uint8Array(shape.recordBytes) : encodeRecord(shape, stored.fingerprint, stored.value)

describe('a stored record', () => {
  test('decodes to what was encoded', () => {
    fc.assert(
      fc.property(records, ({ shape, fingerprint, value }) => {
        const record = encodeRecord(shape, fingerprint, value)
        expect(record.length).toBe(shape.recordBytes)
        expect(decodeRecord(shape, record)).toEqual({ fingerprint, empty: false, value })
      }),
    )
  })

  test('bytes are refused, or are the bytes of the record they decode to', () => {
    fc.assert(
      fc.property(records, ({ shape, fingerprint, value }) => {
        holdToLaw(bytes => decodeRecord(shape, bytes), encodeStored(shape), encodeRecord(shape, fingerprint, value))
      }),
      { numRuns: 40 },
    )
    fc.assert(
      fc.property(
        shapes.chain(shape => bytesOf(shape.recordBytes).map(bytes => ({ shape, bytes }))),
        ({ shape, bytes }) => {
          expectExactOrRefused(record => decodeRecord(shape, record), encodeStored(shape), bytes)
        },
      ),
    )
  })

  test('is written in place, touching only its own bytes', () => {
    fc.assert(
      fc.property(records, ({ shape, fingerprint, value }) => {
        const into = new Uint8Array(shape.recordBytes + 20).fill(9)
        into.fill(0, 10, 10 + shape.recordBytes)
        writeRecord(shape, into, 10, fingerprint, value)
        expect(into.subarray(10, 10 + shape.recordBytes)).toEqual(encodeRecord(shape, fingerprint, value))
        expect(into.filter(byte => byte === 9).length).toBeGreaterThanOrEqual(20)
        expect([into[9], into[10 + shape.recordBytes]]).toEqual([9, 9])
      }),
    )
  })

  test('of a keyed database that is all zero is an empty slot', () => {
    const shape = { recordBytes: 20, valueBytes: 2, keyed: true, variable: true }
    const stored = decodeRecord(shape, new Uint8Array(20))
    expect([stored.empty, stored.value.length]).toEqual([true, 0])
    const half = new Uint8Array(20)
    half[19] = 1
    expect(() => decodeRecord(shape, half)).toThrow(/empty slot/)
  })

  test('is refused where it breaks a rule', () => {
    const shape = { recordBytes: 22, valueBytes: 4, keyed: true, variable: true }
    const key = new Uint8Array(16).fill(1)
    expect(() => encodeRecord(shape, key, new Uint8Array(5))).toThrow(/value length/)
    expect(() => encodeRecord(shape, undefined, new Uint8Array(4))).toThrow(/missing/)
    expect(() => encodeRecord({ ...shape, keyed: false }, key, new Uint8Array(4))).toThrow(/without keys/)
    expect(() => encodeRecord(shape, new Uint8Array(16), new Uint8Array(4))).toThrow(/fingerprint/)
    expect(() => encodeRecord(shape, new Uint8Array(15).fill(1), new Uint8Array(4))).toThrow(/fingerprint/)

    const record = encodeRecord(shape, key, Uint8Array.of(1, 2))
    record[16] = 5
    expect(() => decodeRecord(shape, record)).toThrow(/value length: .*4.*5/)
    record[16] = 1
    expect(() => decodeRecord(shape, record)).toThrow(/padding/)
    expect(() => decodeRecord(shape, record.subarray(1))).toThrow(WireError)
  })
})
