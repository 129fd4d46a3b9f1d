// What a server is exported as is begun from by an operator who is honest, and has nothing else left. Records are read through;
// but what a batch changed, which clients follow, cannot be computed from them. Whoever made it up would choose which hints are
// spoiled, and see which lookups fail.

import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeManifest, encodeManifest, toHex } from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import { expect, onTestFinished, test } from 'vitest'
import { createServer, loadDataset, type MountedDataset } from '../dist/index.js'
import { keyhush } from './command.js'
import { temporaryDirectory } from './helpers.js'
import { batchOn, keyed } from './updatable-helpers.js'

async function served(database: MountedDataset): Promise<string> {
  const app = await createServer({ datasets: [database] })
  onTestFinished(async () => {
    app.server.closeAllConnections()
    await app.close()
  })
  return await app.listen({ port: 0, host: '127.0.0.1' })
}

test('an update list that was made up is taken from nobody without the publisher’s word', async () => {
  const updatable = await keyed()
  await updatable.publish(batchOn(updatable, [{ op: 'edit', key: 'one', value: 'x' }]))
  const { manifestHash, manifest } = updatable.newest
  const parent = await temporaryDirectory()
  const run = (server: string, out: string, ...args: string[]) =>
    keyhush('export', '--server', server, '--out', join(parent, out), ...args)
  const honest = await run(await served({ updatable }), 'honest', '--manifest-hash', manifestHash)
  expect(honest).toMatchObject({ code: 0, stderr: '' })

  // The same records, and a list that says something else of how they came about.
  const blob = (hash: Uint8Array) => join(parent, 'honest', 'blobs', toHex(hash))
  const list = await readFile(blob(manifest.updateListHash))
  list[list.length - 1]! ^= 1
  await writeFile(blob(blake3(list)), list)
  const file = join(parent, 'honest', 'manifest.bin')
  const forged = { ...decodeManifest(await readFile(file)), updateListHash: blake3(list) }
  await writeFile(file, encodeManifest(forged))
  const dataset = await loadDataset(join(parent, 'honest'))
  onTestFinished(() => dataset.close())
  const liar = await served({ dataset })

  const unasked = await run(liar, 'out')
  expect([unasked.code, unasked.stderr]).toEqual([1, expect.stringContaining(dataset.manifestHash)])
  expect(unasked.stderr).toContain('cannot be checked here')
  expect((await run(liar, 'out', '--manifest-hash', manifestHash)).stderr).toContain(`not ${manifestHash}`)
  expect(await readdir(parent)).toEqual(['honest'])
})
