// What the tests of instant lookups and those with one server share: one database, and the plugin with computations that a test
// can look into.

import type { Manifest } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { fastify } from 'fastify'
import { onTestFinished } from 'vitest'
import type { Readers } from '../dist/database/readers.js'
import { Computations, type ComputationsOptions, type KeyhushOptions, keyhushPlugin } from '../dist/index.js'
import { builtDataset, type Choices, pseudoRandom } from './helpers.js'
import { opened, storageOf } from './updatable-helpers.js'

export const RECORD_BYTES = 24
export const RECORDS = 300
export const CONTENT = pseudoRandom(RECORDS * RECORD_BYTES)
export const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

export const fixed = (choices: Choices = {}) =>
  builtDataset('a.bin', CONTENT, { recordBytes: RECORD_BYTES, ...choices })
export const changing = async (choices: Choices = {}) =>
  opened(await storageOf('a.bin', CONTENT, { recordBytes: RECORD_BYTES, ...choices }))

let draws = 0
/** 32 bytes, different for each of 255 draws of a file. */
export const entropy = () => pseudoRandom(32, 1 + (draws++ % 255))

/** The first server's request of an instant lookup of the first record, so many times, and how long its answer is. */
export async function queriesFor(manifest: Manifest, count: number) {
  const core = await loadCore()
  const layout = core.layout(manifest.records, manifest.recordBytes, manifest.partitions, manifest.partitionRecords)
  const query = core.newInstantQuery(layout, new Uint32Array(count), entropy())
  const made = { queries: query.request(0), answerBytes: layout.instantAnswerBytes }
  query.free()
  layout.free()
  return made
}

/** The plugin with computations that the test can look into. */
export async function withComputations(options: KeyhushOptions, choices: ComputationsOptions = {}) {
  const computations = new Computations(choices)
  computations.onFailure = error => {
    throw error
  }
  const app = fastify()
  await app.register(keyhushPlugin, { ...options, computations })
  await app.ready()
  onTestFinished(async () => {
    await app.close()
    await computations.close()
  })
  return { app, computations }
}

/** Nobody may begin to read until `release`; whoever asks waits. */
export function held(readers: Readers): () => Promise<void> {
  const end = readers.begin()
  const writing = readers.exclusively(() => {})
  return async () => {
    end()
    await writing
  }
}
