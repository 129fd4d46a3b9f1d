// Two implementations meet on the wire: a client written from docs/protocol.md alone at real servers, and the SDK at
// servers written from docs/protocol.md alone.

import { open } from '@keyhush/client'
import { utf8ToBytes } from '@noble/hashes/utils.js'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Data, distinctRecords, startPair } from '../support/servers.js'
import { type Dataset, keyedDataset, keylessDataset } from './reference/dataset.js'
import { ReferenceClient } from './reference/http-client.js'
import { startReferenceServer } from './reference/http-server.js'

const values = distinctRecords(50, 24)
const keyless: Data = { format: 'bin', content: Uint8Array.from(values.flatMap(value => [...value])), recordBytes: 24 }

const names = Array.from({ length: 60 }, (_, i) => `name ${i}`)
const greeting = (name: string) => `hello, ${name}${'!'.repeat(Number(name.slice(5)) % 7)}`
const entries = names.map(name => [utf8ToBytes(name), utf8ToBytes(greeting(name))] as const)
const keyed: Data = {
  format: 'csv',
  content: `key,value\n${names.map(name => `${name},"${greeting(name)}"\n`).join('')}`,
}

/** Asks for present and absent keys, four at a time, and expects what is right. */
async function expectAllKeys(ask: (keys: readonly string[]) => Promise<readonly (Uint8Array | undefined)[]>) {
  for (let i = 0; i < names.length; i += 3) {
    const asked = [names[i]!, `absent ${i}`, names[i + 1]!, names[i + 2]!]
    const expected = asked.map(key => (key.startsWith('absent') ? undefined : utf8ToBytes(greeting(key))))
    expect(await ask(asked)).toEqual(expected)
  }
}

async function startServers(data: Data): Promise<readonly [string, string]> {
  const pair = await startPair(data)
  onTestFinished(pair.close)
  return pair.urls
}

async function startReferenceServers(dataset: Dataset): Promise<[string, string]> {
  const servers = [await startReferenceServer(dataset), await startReferenceServer(dataset)] as const
  for (const server of servers) onTestFinished(server.close)
  return [servers[0].url, servers[1].url]
}

describe('the reference client at real servers', () => {
  test.each([
    [1, 'merkle'],
    [2, 'merkle'],
    [2, 'tags'],
  ] as const)('in suite %d finds every record of a keyless database built for %s, twice', async (suite, proofs) => {
    const client = await ReferenceClient.open(...(await startServers({ ...keyless, proofs })), suite)
    for (const index of [...values.keys(), ...values.keys()]) expect(await client.at(index)).toEqual(values[index])
  })

  test.each([
    [1, 'merkle'],
    [2, 'tags'],
  ] as const)('in suite %d finds every key and no other, several at a time', async (suite, proofs) => {
    const client = await ReferenceClient.open(...(await startServers({ ...keyed, proofs })), suite)
    await expectAllKeys(keys => client.get(keys.map(utf8ToBytes)))
  })

  test('is refused proofs where the database has none', async () => {
    await expect(
      ReferenceClient.open(...(await startServers({ ...keyless, proofs: 'tags' })), 1).then(client => client.at(0)),
    ).rejects.toThrow(/400 .*suite/)
  })
})

describe('the SDK at reference servers', () => {
  test('finds every record of a keyless database, twice', async () => {
    const map = await open({ mode: 'full', servers: await startReferenceServers(keylessDataset(values)) })
    for (const index of [...values.keys(), ...values.keys()]) expect(await map.at(index)).toEqual(values[index])
    await map.close()
  })

  test('finds every key and no other, several at a time', async () => {
    const map = await open({ mode: 'full', servers: await startReferenceServers(keyedDataset(entries)) })
    await expectAllKeys(keys => map.getMany(keys, { padTo: 6 }))
    await map.close()
  })
})

test.each([
  ['keyless', keyless, () => keylessDataset(values)],
  ['keyless, for tags', { ...keyless, proofs: 'tags' } as const, () => keylessDataset(values, undefined, 2)],
  ['keyed', keyed, () => keyedDataset(entries)],
] as const)('from the same %s data both make the same manifest', async (_, data, reference) => {
  const [url] = await startServers(data)
  const manifest = new Uint8Array(await (await fetch(`${url}/v1/manifest`)).arrayBuffer())
  expect(manifest).toEqual(reference().manifestBytes)
})
