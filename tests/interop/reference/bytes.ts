// Fields in a row, read and written in order: docs/protocol.md's tables top to bottom.

import { equalBytes } from '@noble/ciphers/utils.js'
import { concatBytes, utf8ToBytes } from '@noble/hashes/utils.js'

/** Where fields begin that stand in a row, by their lengths; and where the last one ends. */
export function offsetsOf<Name extends string>(lengths: Readonly<Record<Name, number>>): Record<Name | 'end', number> {
  let end = 0
  const begins = Object.entries<number>(lengths).map(([name, length]) => {
    end += length
    return [name, end - length]
  })
  return { ...Object.fromEntries(begins), end }
}

/** Fields by name: bytes, or numbers in little-endian. */
export function writeFields(writer: Writer, lengths: Readonly<Record<string, number>>, values: object): void {
  for (const [name, length] of Object.entries(lengths)) {
    const value = (values as Record<string, Uint8Array | bigint | number | boolean>)[name]!
    if (value instanceof Uint8Array) writer.put(value)
    else writer.put(new Uint8Array(new BigUint64Array([BigInt(value)]).buffer).subarray(0, length))
  }
}

/** Numbers of up to four bytes, bigints of eight, and bytes. */
export function readFields(reader: Reader, lengths: Readonly<Record<string, number>>): unknown {
  const numbers: Readonly<Record<number, () => unknown>> = {
    ...{ 1: () => reader.take(1)[0], 2: reader.u16, 4: reader.u32, 8: reader.u64 },
  }
  const values = Object.entries(lengths).map(([name, length]) => [name, numbers[length]?.() ?? reader.take(length)])
  return Object.fromEntries(values)
}

export class Reader {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  take(count: number): Uint8Array {
    if (this.#at + count > this.#bytes.length) throw new Error(`${count} bytes at ${this.#at}: too short`)
    this.#at += count
    return this.#bytes.slice(this.#at - count, this.#at)
  }

  expect(what: string, expected: Uint8Array | string): void {
    const wanted = typeof expected === 'string' ? utf8ToBytes(expected) : expected
    if (!equalBytes(this.take(wanted.length), wanted)) throw new Error(`wrong ${what}`)
  }

  u16 = () => this.#view.getUint16(this.#skip(2), true)
  u32 = () => this.#view.getUint32(this.#skip(4), true)
  u64 = () => this.#view.getBigUint64(this.#skip(8), true)

  end(): void {
    if (this.#at !== this.#bytes.length) throw new Error(`${this.#bytes.length - this.#at} bytes too many`)
  }

  #skip(count: number): number {
    this.take(count)
    return this.#at - count
  }
}

export class Writer {
  readonly #parts: Uint8Array[] = []

  put(...parts: (Uint8Array | string)[]): this {
    this.#parts.push(...parts.map(part => (typeof part === 'string' ? utf8ToBytes(part) : part)))
    return this
  }

  u16 = (value: number) => this.#number(2, view => view.setUint16(0, value, true))
  u32 = (value: number) => this.#number(4, view => view.setUint32(0, value, true))
  u64 = (value: bigint) => this.#number(8, view => view.setBigUint64(0, value, true))
  bytes = () => concatBytes(...this.#parts)

  #number(count: number, set: (view: DataView) => void): this {
    const bytes = new Uint8Array(count)
    set(new DataView(bytes.buffer))
    return this.put(bytes)
  }
}

export function isZero(bytes: Uint8Array): boolean {
  return bytes.every(byte => byte === 0)
}
