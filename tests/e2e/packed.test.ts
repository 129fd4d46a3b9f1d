// Blocks of four records from end to end: the command builds and publishes, two processes serve, the SDK looks up in mode
// instant, against a plain map. (tests/world/living has blocks in the other modes, under faults, restarts and generations.)

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type KeyhushMap, open } from '@keyhush/client'
import { decodeManifest } from '@keyhush/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runKeyhush } from '../../server/test/command.js'
import { type ServerProcess, startServerProcess } from '../support/processes.js'
import { temporaryFolder } from '../support/servers.js'

const PACK = 4
const KEYS = 30
/** 32 slots in 2 partitions: the last block has two records, and room for two */
const LAYOUT = { records: KEYS, partitions: 2, partitionRecords: 16, blockRecords: PACK }

const model = new Map(Array.from({ length: KEYS }, (_, i) => [`key ${i}`, `value ${i}`.padEnd(8, '.')]))
const names = Array.from({ length: 40 }, (_, i) => `key ${i}`)

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let servers: readonly [ServerProcess, ServerProcess]
let map: KeyhushMap

const path = (name: string) => join(folder.path, name)

beforeAll(async () => {
  folder = await temporaryFolder()
  await writeFile(path('data.csv'), `key,value\n${[...model].map(([key, value]) => `${key},${value}\n`).join('')}`)
  await runKeyhush('keygen', '--out', path('key'))
  const built = [path('data.csv'), '--out', path('dataset'), '--record', path('key.record')]
  const printed = await runKeyhush('build', ...built, '--partitions', '2', '--pack', `${PACK}`)
  expect(printed).toContain('layout: 2 partitions of 16 records of 24 bytes, 4 a block\n')
  expect(decodeManifest(await readFile(path('dataset/manifest.bin')))).toMatchObject(LAYOUT)
  const publicKey = /^public ([0-9a-f]{64})$/m.exec(await readFile(path('key'), 'utf8'))![1]!
  const serve = (store: string) =>
    startServerProcess('--dataset', path('dataset'), '--store', path(store), '--publisher-key', publicKey)
  servers = [await serve('a'), await serve('b')]
  map = await open({ servers: servers.map(({ url }) => url), mode: 'instant' })
})
afterAll(async () => {
  await map.close()
  for (const server of servers) await server.stop()
  await folder.remove()
})

/** Looks up all present and former keys, one by one and in batches. */
async function expectTheModel(epoch: number): Promise<void> {
  await map.sync()
  expect([map.epoch, map.size >= model.size]).toEqual([epoch, true])
  for (const key of names) expect([key, await map.getText(key)]).toEqual([key, model.get(key)])
  for (let i = 0; i < names.length; i += 5) {
    const some = names.slice(i, i + 5)
    const values = await map.getMany(some)
    expect(values.map(value => value && new TextDecoder().decode(value))).toEqual(some.map(key => model.get(key)))
  }
}

async function publish(operations: readonly { op: string; key: string; value?: string }[]): Promise<void> {
  await writeFile(path('batch.jsonl'), operations.map(operation => `${JSON.stringify(operation)}\n`).join(''))
  const target = ['--servers', servers.map(({ url }) => url).join(), '--key', path('key'), '--no-generation']
  await runKeyhush('publish', ...target, path('batch.jsonl'))
  for (const { op, key, value } of operations) {
    if (op === 'delete') model.delete(key)
    else model.set(key, value!)
  }
}

test('all keys are found, and no others', async () => {
  await expectTheModel(1)
})

test('an update changes its slots: edits, a delete, and adds that fill the last block', async () => {
  await publish([
    { op: 'edit', key: 'key 3', value: 'edited.3' },
    { op: 'delete', key: 'key 4' },
    { op: 'edit', key: 'key 5', value: 'edited.5' },
    { op: 'add', key: 'key 30', value: 'added.30' },
    { op: 'add', key: 'key 31', value: 'added.31' },
  ])
  await expectTheModel(2)
})

test('adds fill an emptied slot, then open a partition', async () => {
  await publish([32, 33, 34, 35].map(i => ({ op: 'add', key: `key ${i}`, value: `added.${i}` })))
  const manifest = decodeManifest(new Uint8Array(await (await fetch(`${servers[0].url}/v1/manifest`)).arrayBuffer()))
  expect(manifest).toMatchObject({ ...LAYOUT, records: 35, partitions: 3 })
  await expectTheModel(3)
})
