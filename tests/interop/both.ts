// The same inputs for the WebAssembly core and the cores without: the same bytes and the same refusals.

import { type LocalCore, loadCore } from '@keyhush/wasm'
import { localCore } from '@keyhush/wasm/script-local'
import fc from 'fast-check'
import { expect } from 'vitest'
import { THOROUGH } from '../support/thorough.js'
import type { Layout } from './reference/layout.js'

export const wasm = await loadCore()
export const script = localCore

/** The same steps by both cores: a value, or an error with a code and a message. */
export function both<T>(work: (core: LocalCore) => T): T | { code: string; message: string } {
  const [expected, actual] = [wasm, script].map(core => {
    try {
      return work(core)
    } catch (error) {
      const { code, message } = error as { code: string; message: string }
      expect(code, message).toBeTypeOf('string')
      return { code, message }
    }
  })
  expect(actual).toEqual(expected)
  return actual!
}

/** Fast-check prints the seed and the smallest case of what fails. */
export function always<T extends readonly unknown[]>(
  inputs: readonly [...{ [I in keyof T]: fc.Arbitrary<T[I]> }],
  property: (...input: T) => void,
  numRuns: number,
): void {
  fc.assert(fc.property(...(inputs as unknown as [fc.Arbitrary<unknown>]), property as never), {
    numRuns: THOROUGH ? numRuns * 10 : numRuns,
  })
}

export const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
export const number = fc.oneof(
  fc.nat(20),
  fc.nat(70_000),
  fc.nat(2 ** 31 - 1),
  fc.constantFrom(-1, 1.5, 2 ** 32, 2 ** 32 - 1, NaN),
)

/** Small layouts with blocks and parts of groups. */
export const layouts: fc.Arbitrary<Layout> = fc
  .record({
    recordBytes: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.constantFrom(256, 300)),
    blockRecords: fc.constantFrom(1, 1, 2, 4),
    partitions: fc.integer({ min: 1, max: 4 }),
    partitionBlocks: fc.integer({ min: 1, max: 70 }),
    spare: fc.nat(3),
  })
  .map(({ recordBytes, blockRecords, partitions, partitionBlocks, spare }) => {
    const partitionRecords = partitionBlocks * blockRecords
    const records = Math.max(1, partitions * partitionRecords - spare)
    return { records, recordBytes, partitions, partitionRecords, blockRecords }
  })
