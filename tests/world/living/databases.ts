// The servers' first databases, built by the product, and the model of each. Small, so that every record is read often; many
// partitions, so that equal vectors are no coincidence; few records in each, so that a batch of adds opens several.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type BuildOptions, buildDataset, type Dataset, loadDataset } from '@keyhush/server'
import { buildDirectory, decodeDirectory, indexOf } from '../../interop/reference/directory.js'
import { fingerprint } from '../../interop/reference/hash.js'
import { planLayout } from '../../interop/reference/layout.js'
import { temporaryFolder } from '../../support/servers.js'
import { type Slot, Version } from './model.js'

export interface Foundation {
  readonly name: string
  /** a folder */
  readonly path: string
  readonly dataset: Dataset
  readonly first: Version
}

export const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

const PARTITIONS = 16

export interface Foundations {
  readonly foundations: readonly Foundation[]
  /** of theirs, and for what is built on them */
  readonly folder: string
  remove(): Promise<void>
}

/** Builds them, in a temporary folder. */
export async function layFoundations(
  plan: (folder: string) => Promise<readonly Foundation[]> = buildAll,
): Promise<Foundations> {
  const folder = await temporaryFolder()
  const foundations = await plan(folder.path)
  const remove = async () => {
    for (const { dataset } of foundations) dataset.close()
    await folder.remove()
  }
  return { foundations, folder: folder.path, remove }
}

async function buildAll(folder: string): Promise<readonly Foundation[]> {
  return [await keyed(folder, 250, 6, 2), await keyed(folder, 100, 6, 1), await keyless(folder, 120, 6)]
}

/** `pack` records a block. Some of the last partition is left open. Values have lengths of their own. */
export async function keyed(folder: string, count: number, headroom: number, pack: number): Promise<Foundation> {
  const valueBytes = 14
  const entries = Array.from({ length: count }, (_, i) => ({ key: `key ${i}`, value: `value ${i}`.slice(i % 4) }))
  const lines = entries.map(entry => `${JSON.stringify(entry)}\n`).join('')
  const options = {
    format: 'jsonl',
    partitions: PARTITIONS,
    headroom,
    pack,
    maxValueBytes: valueBytes,
    filter: true,
  } as const
  const { path, dataset } = await build(folder, `${count} keys`, lines, options)
  const directory = decodeDirectory(dataset.directory, count)
  const slots: Slot[] = []
  for (const { key, value } of entries) {
    slots[indexOf(directory, fingerprint(bytesOf(key)), count)] = { key, value: bytesOf(value) }
  }
  const { partitionRecords, blockRecords } = dataset.manifest
  const shape = { keyed: true, valueBytes, partitionRecords, blockRecords, generation: 1 }
  return { name: `${count} keys`, path, dataset, first: new Version(shape, 1, slots) }
}

export async function keyless(folder: string, count: number, valueBytes: number): Promise<Foundation> {
  const name = `${count} records`
  const values = Array.from({ length: count }, (_, i) => bytesOf(`${i}`.padStart(valueBytes, '.')))
  const options = { format: 'bin', partitions: PARTITIONS, recordBytes: valueBytes } as const
  const { path, dataset } = await build(folder, name, Buffer.concat(values), options)
  const slots = values.map(value => ({ key: undefined, value }))
  const { partitionRecords, blockRecords } = dataset.manifest
  const shape = { keyed: false, valueBytes, partitionRecords, blockRecords, generation: 1 }
  return { name, path, dataset, first: new Version(shape, 1, slots) }
}

/** The first epoch of the next generation (docs/protocol.md, A new generation), with room for `headroom` more records. */
export function renewed({ shape, epoch, slots }: Version, headroom: number): Version {
  const kept = slots.filter(slot => slot !== undefined)
  // The record's length does not affect the layout of so small a database.
  const { partitions, partitionRecords } = planLayout(kept.length + headroom, 1, undefined, shape.blockRecords)
  const next = { ...shape, partitionRecords, generation: shape.generation + 1 }
  if (!shape.keyed) return new Version(next, epoch + 1, kept)
  const prints = kept.map(({ key }) => fingerprint(bytesOf(key!)))
  const directory = buildDirectory(prints, partitions * partitionRecords)
  const placed: Slot[] = []
  for (const [i, slot] of kept.entries()) placed[indexOf(directory, prints[i]!, kept.length)] = slot
  return new Version(next, epoch + 1, placed)
}

async function build(folder: string, name: string, data: string | Uint8Array, options: Omit<BuildOptions, 'data'>) {
  const path = join(folder, name)
  await writeFile(`${path}.data`, data)
  await buildDataset({ ...options, data: `${path}.data`, out: path, name })
  return { path, dataset: await loadDataset(path) }
}
