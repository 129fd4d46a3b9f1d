// What remains in WebAssembly's memory of a map that was closed: nothing of the hint, of what was asked, or of the random
// bytes both follow from. The memory is scanned for every run of sixteen bytes of them.

import { HINT_ID_BYTES } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { MemoryStore, type StateStore } from '../src/testing.js'
import { buildDatabase, someValues } from './support/database.js'
import { nextEpoch } from './support/epochs.js'
import { core, Harness, sameOnBoth } from './support/harness.js'
import { seededRandom } from './support/random.js'

const WINDOW_BYTES = 16

/** Kind, version, hint id, version, layout: what every form begins with, and is no secret. */
const BINDING_BYTES = 32 // a manifest's public hash, which follows the frame in partial hints and checkpoints
const FRAME_BYTES = 4 + 2 + 2 + HINT_ID_BYTES + 8 + 16

/** Writes down every secret that passes: stored forms, and random bytes. */
class Recording {
  readonly secrets = new Map<string, Uint8Array[]>()

  note(what: string, bytes: Uint8Array): void {
    this.secrets.set(what, [...(this.secrets.get(what) ?? []), bytes.slice()])
  }

  store(): StateStore {
    const form = (what: string, bytes: Uint8Array) => this.note(what, bytes.subarray(FRAME_BYTES, -16))
    return new (class extends MemoryStore {
      override async begin(...told: Parameters<StateStore['begin']>) {
        form('partial', told[1].subarray(BINDING_BYTES))
        await super.begin(...told)
      }
      override async putPartial(...told: Parameters<StateStore['putPartial']>) {
        form('partial', told[2].subarray(BINDING_BYTES))
        await super.putPartial(...told)
      }
      override async complete(...told: Parameters<StateStore['complete']>) {
        form('checkpoint', told[2].subarray(BINDING_BYTES))
        await super.complete(...told)
      }
      override async putPending(...told: Parameters<StateStore['putPending']>) {
        form('pending', told[2])
        await super.putPending(...told)
      }
      override async commit(...told: Parameters<StateStore['commit']>) {
        form('effect', told[2])
        return await super.commit(...told)
      }
    })({ durable: true })
  }

  /** How many windows of each kind of secret stand somewhere in the memory. */
  found(): Record<string, number> {
    const memory = Buffer.from(core.memory.buffer)
    const count = (bytes: Uint8Array) => {
      let found = 0
      for (let at = 0; at + WINDOW_BYTES <= bytes.length; at += WINDOW_BYTES) {
        const window = bytes.subarray(at, at + WINDOW_BYTES)
        if (new Set(window).size > 4 && memory.includes(Buffer.from(window))) found++
      }
      return found
    }
    return Object.fromEntries(
      [...this.secrets].map(([what, all]) => [what, all.reduce((sum, bytes) => sum + count(bytes), 0)]),
    )
  }
}

describe.each(['merkle', 'tags'] as const)('with %s', proofs => {
  test('a closed map leaves no permutation, parity, tag, lookup, effect or random byte in memory', async () => {
    const recording = new Recording()
    const database = buildDatabase(core, { values: someValues(1000, 24), partitions: 16 })
    const network = sameOnBoth(database)
    const random = seededRandom(7)
    const harness = new Harness(network, 7, {
      openStore: async () => ({ store: recording.store(), storage: 'memory' }),
      random: bytes => {
        const drawn = random(bytes)
        if (bytes === 32) recording.note('entropy', drawn)
        return drawn
      },
    })
    const map = await harness.open({ proofs })
    for (const index of [3, 999, 3]) await harness.drive(map.at(index))
    const next = nextEpoch(core, database, [
      { op: 'edit', index: 5, value: new Uint8Array(24).fill(9) },
      ...Array.from({ length: 20 }, (_, i) => ({ op: 'add' as const, value: new Uint8Array(24).fill(i) })),
    ])
    network.publishOnBoth(next)
    await harness.drive(map.sync())
    for (const index of [5, 1010]) await harness.drive(map.at(index))
    const open = recording.found()
    await harness.drive(map.close())
    const closed = recording.found()
    expect(open['checkpoint']).toBeGreaterThan(10) // the scan sees what is there
    expect(Object.keys(closed).sort()).toEqual(['checkpoint', 'effect', 'entropy', 'partial', 'pending'])
    expect(
      Object.values(closed).reduce((sum, found) => sum + found),
      JSON.stringify(closed),
    ).toBe(0)
  })
})
