// A publisher changes its key, as docs/operations/keys.md says: nobody who looks up is without a signature on the way.

import { join } from 'node:path'
import { fromHex, parseInfo, toHex } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import {
  createKeyFile,
  loadDataset,
  MemoryStorage,
  PublisherRecord,
  publish,
  UpdatableDatabase,
} from '../dist/index.js'
import { builtDirectory, listening, temporaryDirectory } from './helpers.js'

test('epochs are signed with both keys while operators know both, and with the new one alone afterwards', async () => {
  const dir = await temporaryDirectory()
  const dataset = await loadDataset(await builtDirectory('a.csv', 'key,value\none,first\ntwo,second\n'))
  const { manifest, manifestHash } = dataset
  const [old, next] = [await createKeyFile(join(dir, 'old')), await createKeyFile(join(dir, 'new'))]
  const storages = [new MemoryStorage(), new MemoryStorage()]
  for (const storage of storages) await UpdatableDatabase.create(storage, dataset)
  dataset.close()
  const record = await PublisherRecord.open(join(dir, 'record'))
  await record.addManifest({ databaseId: toHex(manifest.databaseId), epoch: manifest.epoch, hash: manifestHash })

  /** Both operators, each knowing these keys. */
  const operators = async (...keys: { readonly publicKey: Uint8Array }[]) => {
    const publisherKeys = keys.map(({ publicKey }) => publicKey)
    const open = (storage: MemoryStorage) => UpdatableDatabase.open(storage)
    const updatable = await Promise.all(storages.map(open))
    const running = await Promise.all(
      updatable.map(each => listening({ datasets: [{ updatable: each, publisherKeys }] })),
    )
    const stop = async () => {
      for (const { app } of running) app.server.closeAllConnections()
      for (const { app } of running) await app.close()
    }
    const servers = running.map(({ url }) => url)
    const edit = (value: string) => Buffer.from(`{"op":"edit","key":"one","value":"${value}"}\n`)
    return {
      batch: (key: typeof old, value: string) => publish({ servers, key, record, operations: edit(value) }),
      sign: (key: typeof old) => publish({ servers, key, record }),
      /** whose signatures there are of the newest epoch, at each server */
      signers: () =>
        Promise.all(
          servers.map(async url => {
            const { signatures, epochs } = parseInfo(await (await fetch(`${url}/v1/info`)).json())
            const newest = Math.max(...epochs.map(({ epoch }) => epoch))
            return signatures.filter(({ epoch }) => epoch === newest).map(({ publicKey }) => publicKey)
          }),
        ),
      stop,
    }
  }
  const [oldKey, newKey] = [old, next].map(({ publicKey }) => toHex(publicKey)) as [string, string]
  const both = expect.arrayContaining([oldKey, newKey])

  const before = await operators(old)
  await before.batch(old, 'a')
  await before.stop()

  const meanwhile = await operators(old, next)
  await meanwhile.sign(next)
  expect(await meanwhile.signers()).toEqual([both, both])
  await meanwhile.batch(next, 'b')
  await meanwhile.sign(old)
  expect(await meanwhile.signers()).toEqual([both, both])
  await meanwhile.stop()

  const after = await operators(next)
  await expect(after.batch(old, 'c')).rejects.toThrow(/401|unauthorized|key/)
  await after.batch(next, 'c')
  expect(await after.signers()).toEqual([[newKey], [newKey]])
  expect(fromHex(newKey)).toEqual(next.publicKey)
})
