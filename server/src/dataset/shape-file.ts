// The file of a shape: made once by a publisher, and read by all builds.

import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { FINGERPRINT_BYTES, toHex } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { BuildError } from '../base/errors.js'
import { parseMembers } from '../base/json.js'
import { recordsOf, SHAPE_NUMBERS, type Shape } from './shape.js'

/** Plans the shards of so many records in all. Throws the core's `layout` error. */
export function planShape(
  core: Core,
  {
    records,
    valueBytes,
    variable = false,
    shards,
  }: Record<'records' | 'valueBytes' | 'shards', number> & { variable?: boolean | undefined },
): Shape {
  const { recordBytes } = recordsOf({ valueBytes, variable })
  const [partitions, partitionRecords, blockRecords, directoryBlockLog, directoryBlockBytes, directoryRoom] = [
    ...core.planShards(records, recordBytes, shards),
  ] as [number, number, number, number, number, number]
  const directory = {
    directorySeed: toHex(randomBytes(FINGERPRINT_BYTES)),
    directoryBlockLog,
    directoryBlockBytes,
    directoryRoom,
  }
  return { shards, partitions, partitionRecords, blockRecords, valueBytes, variable, ...directory }
}

/** The contents of its file. */
export function encodeShape(shape: Shape): string {
  return `${JSON.stringify(shape, undefined, 2)}\n`
}

/** Reads a shape, and checks all that the core does not. Throws BuildError. */
export async function readShape(file: string): Promise<Shape> {
  const refuse = (reason: string): never => {
    throw new BuildError(`${reason}; take the file that \`keyhush plan --shards\` wrote`, file)
  }
  const members = parseMembers(await readFile(file, 'utf8'))
  if (typeof members === 'string') return refuse(`expected a shape, but ${members}`)
  const { variable, directorySeed, ...numbers } = members
  if (typeof variable !== 'boolean') refuse('expected "variable" to be true or false, got none or another')
  if (!/^[0-9a-f]{32}$/.test(`${directorySeed}`)) refuse('expected "directorySeed" to be 32 hex digits, got others')
  for (const name of Object.keys(numbers)) {
    if (!Object.hasOwn(SHAPE_NUMBERS, name)) refuse(`expected a shape, got the member ${JSON.stringify(name)}`)
  }
  for (const [name, [least, most, power]] of Object.entries(SHAPE_NUMBERS)) {
    const value = numbers[name]
    const fits =
      typeof value === 'number' && value >= least && value <= most && !(power && !Number.isInteger(Math.log2(value)))
    if (!fits)
      refuse(`expected "${name}" to be ${power ? 'a power of two' : 'a number'} from ${least} to ${most}, got ${value}`)
  }
  const shape = members as unknown as Shape
  const { shards, partitions, partitionRecords, blockRecords } = shape
  const blocks = partitionRecords / blockRecords
  if (blocks < 128 || blocks > 65_536) refuse(`expected 128 to 65536 blocks in a partition, got ${blocks}`)
  const bytes = blockRecords * recordsOf(shape).recordBytes
  if (bytes < 256) refuse(`expected blocks of at least 256 bytes, got ${bytes}`)
  const slots = shards * partitions * partitionRecords
  if (slots >= 2 ** 32 || shards * partitions > 65_536)
    refuse(`expected fewer than 2^32 slots in 65536 partitions, got ${slots}`)
  return shape
}
