// State in files as apps in Node have it: named where a map is opened, in each place anew.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { NEEDS_POSIX } from '../../../tests/support/needs.js'
import { open } from '../src/index.js'
import { fileStore } from '../src/node.js'
import { keyed, NAMES } from './support/harness.js'
import { A, B } from './support/network.js'

test('maps of one folder share their state, wherever they are opened', NEEDS_POSIX, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'keyhush-node-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const { network, database } = keyed()
  const openOne = (folder: string) =>
    open({ servers: [A, B], mode: 'full', fetch: network.fetch, store: fileStore(folder), storage: 'required' })
  const one = await openOne(folder)
  const asked = network.seen.length
  const two = await openOne(relative('.', folder))
  expect(network.seen.length).toBe(asked)
  expect(await two.get(NAMES[1]!)).toEqual(await one.get(NAMES[1]!))
  expect(await one.get(NAMES[1]!)).toEqual(database.contents.values[1])
  await one.close()
  await two.close()
})
