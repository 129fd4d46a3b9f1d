import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeRecord, encodeRecord, type RecordShape, WireError, writeRecord } from '../src/index.js'
import { bytesOf } from './arbitraries.js'

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

describe('a stored record', () => {
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

  test('is refused where it breaks a rule', () => {
    const shape = { recordBytes: 22, valueBytes: 4, keyed: true, variable: true }
    const key = new Uint8Array(16).fill(1)
    expect(() => encodeRecord(shape, key, new Uint8Array(5))).toThrow(/value length/)
    expect(() => encodeRecord(shape, undefined, new Uint8Array(4))).toThrow(/record: expected a fingerprint, got none/)
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
