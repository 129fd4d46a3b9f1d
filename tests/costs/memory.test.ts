// Memory as planned and as WebAssembly's grows: of a server that commits to a database, and of a client that downloads it.
// In a file of its own, so that its instance is fresh: memory that was freed before would hide what is taken.

import { type Costs, loadCore } from '@pirouette/wasm'
import { expect, test } from 'vitest'
import { distinctRecords } from '../support/servers.js'
import { commitDatabase, makeHint } from '../support/wasm.js'

const core = await loadCore()

/** Bytes by which memory grows, for good. It never shrinks, and grows by pages of 64 KiB. */
function growth<T>(work: () => T): { bytes: number; value: T } {
  const before = core.memory.buffer.byteLength
  const value = work()
  return { bytes: core.memory.buffer.byteLength - before, value }
}

/** As planned, but for what is rounded and for bookkeeping: half a percent and a few pages. */
function expectAsPlanned(bytes: number, planned: number): void {
  expect(bytes).toBeGreaterThan(planned * 0.995 - 4 * 65_536)
  expect(bytes).toBeLessThan(planned * 1.005 + 4 * 65_536)
}

test('of a server and of a client', () => {
  const [records, valueBytes] = [300_000, 32]
  const content = Buffer.concat(distinctRecords(records, valueBytes))
  const { layout, merkle }: { layout: Parameters<typeof commitDatabase>[1]; merkle: Costs } = core.plan({
    records,
    valueBytes,
  })
  const server = growth(() => commitDatabase(core, layout, content))
  expectAsPlanned(server.bytes, merkle.serverBytes)

  const client = growth(() => makeHint(core, layout, server.value, new Uint8Array(32)))
  expectAsPlanned(client.bytes, merkle.memoryBytes + merkle.downloadMemoryBytes)
  client.value.free()
  server.value.handle.free()
})
