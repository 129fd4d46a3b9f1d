// Blocks of four records from end to end: the command builds, two servers serve and publish, the SDK looks up in mode instant,
// against a plain map. (tests/world/living has blocks in the other modes, under faults, restarts and generations.)

import { type KeyhushMap, open } from '@keyhush/client'
import { decodeManifest } from '@keyhush/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runKeyhush } from '../../server/test/command.js'
import { dataFile } from '../../server/test/helpers.js'
import { type ServerPair, startPair } from '../support/servers.js'

const PACK = 4
const KEYS = 30
/** 32 slots in 2 partitions: the last block has two records, and room for two */
const LAYOUT = { records: KEYS, partitions: 2, partitionRecords: 16, blockRecords: PACK }

const model = new Map(Array.from({ length: KEYS }, (_, i) => [`key ${i}`, `value ${i}`.padEnd(8, '.')]))
const names = Array.from({ length: 40 }, (_, i) => `key ${i}`)

let servers: ServerPair
let map: KeyhushMap
const content = `key,value\n${[...model].map(([key, value]) => `${key},${value}\n`).join('')}`
beforeAll(async () => {
  servers = await startPair({ format: 'csv', content, partitions: 2, pack: PACK }, { living: true })
  map = await open({ servers: servers.urls, mode: 'instant' })
})
afterAll(async () => {
  await map.close()
  await servers.close()
})

const manifestOf = async () =>
  decodeManifest(new Uint8Array(await (await fetch(`${servers.urls[0]}/v1/manifest`)).arrayBuffer()))

test('the command builds blocks as the servers have them', async () => {
  const data = await dataFile('data.csv', content)
  const printed = await runKeyhush('build', data, '--out', `${data}.built`, '--partitions', '2', '--pack', `${PACK}`)
  expect(printed).toContain('layout: 2 partitions of 16 records of 24 bytes, 4 a block\n')
  expect(await manifestOf()).toMatchObject(LAYOUT)
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
  await servers.publish(operations)
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
  expect(await manifestOf()).toMatchObject({ ...LAYOUT, records: 35, partitions: 3 })
  await expectTheModel(3)
})
