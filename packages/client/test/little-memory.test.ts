// WebAssembly gets no more memory, as on a small phone: the module has a maximum, which the engine enforces. However little there is, a
// map opens and answers rightly, or its error says that memory is missing.

import { readFile } from 'node:fs/promises'
import type { SingleCore } from '@keyhush/wasm/client'
import { Instance } from '@keyhush/wasm/instance'
import { expect, test } from 'vitest'
import { clientCore } from '../../wasm/dist/client-core.js'
import { singleHalf } from '../../wasm/dist/single-core.js'
import type { MapEvent, UnsupportedError } from '../src/index.js'
import type { Environment, OpenWithOptions } from '../src/testing.js'
import { rest } from './support/clock.js'
import { buildDatabase, someValues } from './support/database.js'
import { core, Harness, sameOnBoth } from './support/harness.js'
import { A } from './support/network.js'
import { publisherKey, signedOnBoth } from './support/signed.js'

const GENERATED = '../../wasm/generated'
const MEMORY_SECTION = 5
const HEADER_BYTES = 8
/** what an error says */
const MISSING = /expected memory|for lack of memory/

const database = buildDatabase(core, { values: someValues(1 << 16, 32), partitions: 64 })
const parts = await memoryOf(new URL(`${GENERATED}/single_bg.wasm`, import.meta.url))

/** The pages of 64 KiB with which the module starts, and its bytes before and after it says so. */
async function memoryOf(file: URL) {
  const module = await readFile(file)
  let at = HEADER_BYTES
  /** LEB128 */
  const number = () => {
    let [value, shift] = [0, 0]
    do {
      value |= (module[at]! & 0x7f) << shift
      shift += 7
    } while (module[at++]! >= 0x80)
    return value
  }
  for (;;) {
    const start = at
    const section = module[at++]
    const end = number() + at
    if (section === MEMORY_SECTION) {
      expect([number(), number()]).toEqual([1, 0]) // one memory, without a maximum
      return { pages: number(), before: module.subarray(0, start), after: module.subarray(end) }
    }
    at = end
  }
}

/** The module with a maximum of so many pages. */
function limitedTo(pages: number): Promise<WebAssembly.Module> {
  const leb = (value: number) => [(value & 0x7f) | 0x80, value >> 7]
  const limits = [1, 1, ...leb(parts.pages), ...leb(pages)]
  const section = Uint8Array.of(MEMORY_SECTION, limits.length, ...limits)
  return WebAssembly.compile(Buffer.concat([parts.before, section, parts.after]))
}

let instances = 0

/** Starts a core with glue of its own. */
async function coreWith(pages: number): Promise<SingleCore> {
  const glue = (await import(
    `${GENERATED}/single.js?${instances++}`
  )) as typeof import('../../wasm/generated/single.js')
  const own = glue as unknown as Parameters<typeof clientCore>[0]
  const coreOf = (memory: object) => ({ ...clientCore(own, memory as WebAssembly.Memory), ...singleHalf(glue) })
  return await new Instance<SingleCore>(glue, coreOf).load(() => limitedTo(pages))
}

test.each<[string, Partial<OpenWithOptions>, step: number, most: number]>([
  ['full', { mode: 'full' }, 1, 40],
  ['full, with tags', { mode: 'full', proofs: 'tags' }, 2, 50],
  ['local', { mode: 'local' }, 4, 80],
  ['single', { mode: 'single', servers: [A], publisherKey }, 16, 300],
])('mode %s', async (_, options, step, most) => {
  const outcomes: string[] = []
  for (let pages = parts.pages; pages < most && outcomes.at(-1) !== 'answered'; pages += step) {
    const own = await coreWith(pages)
    const network = options.mode === 'single' ? signedOnBoth(database) : sameOnBoth(database)
    const harness = new Harness(network, pages, { loadCore: (async () => own) as Environment['loadCore'] })
    const found = harness.open({ storage: 'memory', ...options }).then(map => harness.drive(map.at(77)))
    const error = await found.then(
      value => void expect(value).toEqual(database.byIndex[77]),
      (error: UnsupportedError) => error,
    )
    if (error !== undefined) expect(error.message, `${error.cause}`).toMatch(MISSING)
    outcomes.push(error?.reason ?? 'answered')
  }
  console.log(`from ${parts.pages} pages, each with ${step} more:`, outcomes.join(', '))
  expect(outcomes.length).toBeGreaterThan(3)
  expect(outcomes.slice(0, -1).filter(outcome => !['memory', 'crashed'].includes(outcome))).toEqual([])
  expect(outcomes.at(-1)).toBe('answered')
})

test("mode auto: lookups go on without a state, and 'preparing-failed' says why", async () => {
  for (const pages of [parts.pages, parts.pages + 20]) {
    const own = await coreWith(pages)
    const loadCore = (async build => (build === 'instant' ? core : own)) as Environment['loadCore']
    const harness = new Harness(sameOnBoth(database), pages, { loadCore })
    const failed: unknown[] = []
    const onEvent = (event: MapEvent) => {
      if (event.type === 'preparing-failed') failed.push(event.error)
    }
    const map = await harness.open({ mode: 'auto', onEvent })
    for (const index of [77, 1 << 15]) expect(await harness.drive(map.at(index))).toEqual(database.byIndex[index])
    await rest() // what is made behind has failed
    expect(map.mode).toBe('instant')
    expect(await harness.drive(map.at(5))).toEqual(database.byIndex[5])
    expect(failed.length).toBeGreaterThan(0)
    for (const error of failed) expect(error).toMatchObject({ message: expect.stringMatching(MISSING) })
  }
})
