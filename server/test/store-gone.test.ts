// A store is moved, removed or replaced under a server. The system still writes to the nameless file, which no restart finds: its grants
// would be lost, and the fence would go back. So the server stops granting.

import { open as openAsFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeFenceReply, type FenceRequest, parseErrorReply } from '@keyhush/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { PUBLISHER, signed } from '../../tests/support/publishing.js'
import { openLmdb, UpdatableDatabase } from '../dist/index.js'
import { builtDirectory, createIn, fenceRequest, post, queryAt, running, temporaryDirectory } from './helpers.js'
import { batchOn } from './updatable-helpers.js'

const HASH = new Uint8Array(32).fill(7)

async function begin(dir: string): Promise<void> {
  const dataset = await builtDirectory('a.csv', 'key,value\none,1\ntwo,2\n')
  await (await createIn(await openLmdb(dir), dataset)).close()
}

async function serve(dir: string) {
  const updatable = await UpdatableDatabase.open(await openLmdb(dir))
  const app = await running({ datasets: [{ updatable, publisherKeys: [PUBLISHER.publicKey] }] })
  let isOpen = true
  const close = async () => {
    if (!isOpen) return
    isOpen = false
    await app.close()
    await updatable.close()
  }
  onTestFinished(close)
  const { manifest } = updatable.newest
  const { databaseId } = manifest
  type Reply = Awaited<ReturnType<typeof post>>
  const outcome = <Good>(reply: Reply, good: (body: Buffer) => Good): Good | [number, string] =>
    reply.statusCode === 200 ? good(reply.rawPayload) : [reply.statusCode, parseErrorReply(reply.body).code]
  return {
    close,
    async fence(kind: FenceRequest['kind'], id: number, version = 0) {
      const requestHash = kind === 'register' ? undefined : HASH
      const request = fenceRequest(databaseId, kind, id, version, requestHash)
      return outcome(await post(app, '/v1/fence', request), decodeFenceReply)
    },
    async publish(value: string) {
      const body = batchOn(updatable, [{ op: 'edit', key: 'one', value }])
      return outcome(await post(app, '/v1/epochs', body, signed(body)), () => updatable.newest.manifest.epoch)
    },
    answer: async () => (await post(app, '/v1/answer', queryAt(manifest, 0))).statusCode,
    readiness: async () => (await app.inject('/readyz')).json(),
    problems: () => app.readiness.problems,
  }
}

test.each<[string, string, (store: string) => Promise<void>]>([
  ['gone', 'ENOENT: its file is gone', async () => {}],
  ['another', 'ESTALE: its file was replaced', begin],
  ['no folder', 'ENOTDIR', async store => (await openAsFile(store, 'w')).close()],
])('a server whose store is %s answers, grants nothing, and goes on when it is back', async (_, why, replace) => {
  const store = join(await temporaryDirectory(), 'store')
  await begin(store)
  const server = await serve(store)
  expect([await server.fence('register', 1), await server.fence('confirm', 1, 5)]).toEqual(['granted', 'granted'])

  await rename(store, `${store}.away`)
  await replace(store)
  const refused = [503, 'not_ready']
  expect(await server.fence('confirm', 1, 6)).toEqual(refused)
  expect(await server.fence('register', 2)).toEqual(refused)
  expect(await server.publish('x')).toEqual(refused)
  expect(await server.readiness()).toEqual({ status: 'ready', problems: ['the store cannot be written'] })
  expect(server.problems()).toEqual([expect.stringContaining(`the store cannot be written (${why}`)])
  expect(await server.answer()).toBe(200)

  await rm(store, { recursive: true, force: true })
  await rename(`${store}.away`, store)
  // What was refused was not written.
  expect(await server.fence('confirm', 2, 1)).toEqual('refused')
  expect(await server.fence('confirm', 1, 6)).toBe('granted')
  expect(await server.publish('x')).toBe(2)
  expect(await server.readiness()).toEqual({ status: 'ready' })
  await server.close()

  const again = await serve(store)
  expect(await again.fence('confirm', 1, 5)).toBe('refused')
  expect(await again.fence('confirm', 1, 7)).toBe('granted')
})
