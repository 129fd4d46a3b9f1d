// Planned memory equals the growth of WebAssembly's memory, for a server that commits to a database and a client that downloads
// it. Each in a fresh instance: memory freed before would hide the growth.

import { type EntryProofs, loadCore } from '@keyhush/wasm'
import { discardInstance } from '@keyhush/wasm/instance'
import { expect, test } from 'vitest'
import { distinctRecords } from '../support/servers.js'
import { commitDatabase, makeHint } from '../support/wasm.js'

/** As planned, but for what is rounded and for bookkeeping: half a percent and a few pages of 64 KiB. */
function expectAsPlanned(bytes: number, planned: number): void {
  expect(bytes).toBeGreaterThan(planned * 0.995 - 4 * 65_536)
  expect(bytes).toBeLessThan(planned * 1.005 + 4 * 65_536)
}

test.each<EntryProofs>(['merkle', 'tags'])('memory of a server and of a client with %s is as planned', async proofs => {
  const core = await loadCore()
  /** What memory grows by, for good: it never shrinks. */
  const growth = <T>(work: () => T): { bytes: number; value: T } => {
    const before = core.memory.buffer.byteLength
    const value = work()
    return { bytes: core.memory.buffer.byteLength - before, value }
  }
  const [records, valueBytes] = [300_000, 32]
  const content = Buffer.concat(distinctRecords(records, valueBytes))
  const { layout, [proofs]: costs } = core.plan({ records, valueBytes })
  const server = growth(() => commitDatabase(core, layout, content, proofs))
  expectAsPlanned(server.bytes, costs.serverBytes)
  const client = growth(() => makeHint(core, layout, server.value, new Uint8Array(32), proofs))
  expectAsPlanned(client.bytes, costs.memoryBytes + costs.downloadMemoryBytes)
  discardInstance(core)
})
