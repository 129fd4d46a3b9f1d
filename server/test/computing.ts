// What the tests of instant lookups share: one database, the plugin with computations that a test can
// look into, and what a log may hold.

import type { Manifest } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { fastify } from 'fastify'
import { expect, onTestFinished } from 'vitest'
import type { Readers } from '../dist/database/readers.js'
import {
  Computations,
  type ComputationsOptions,
  type KeyhushOptions,
  keyhushPlugin,
  type ServerOptions,
} from '../dist/index.js'
import { builtDataset, type Choices, logged, pseudoRandom, running } from './helpers.js'
import { opened, storageOf } from './updatable-helpers.js'

export const RECORD_BYTES = 24
export const RECORDS = 300
export const CONTENT = pseudoRandom(RECORDS * RECORD_BYTES)
export const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

export const fixed = (choices: Choices = {}) =>
  builtDataset('a.bin', CONTENT, { recordBytes: RECORD_BYTES, ...choices })
export const changing = async () => opened(await storageOf('a.bin', CONTENT, { recordBytes: RECORD_BYTES }))

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

/** A server that logs all it can, and what it has logged. */
export async function loggingServer(options: Pick<ServerOptions, 'datasets'>) {
  const { lines, log } = logged('trace')
  const app = await running({ ...options, log })
  /** It has logged these routes and statuses, nothing but size and duration with them, and no secret in any form. */
  const expectLogged = (routes: readonly (readonly [string, number])[], secrets: readonly Buffer[]) => {
    const all = lines.map(line => JSON.parse(line) as Record<string, unknown>).filter(line => 'route' in line)
    expect(all.map(({ route, status }) => [route, status])).toEqual(routes)
    for (const line of all) {
      expect(Object.keys(line).sort()).toEqual(['bytes', 'level', 'milliseconds', 'route', 'status', 'time'])
    }
    for (const secret of secrets) {
      for (const form of ['hex', 'base64', 'latin1'] as const) {
        expect(lines.join('')).not.toContain(secret.toString(form))
      }
    }
  }
  return { app, expectLogged }
}
