// The package in Hermes, in an app that Metro has built from the packed packages. Its network is React Native's own JavaScript.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Phone, suite } from '../../packages/react-native/test/suite.js'
import { root } from '../package/packed.js'
import { ENTRY, Hermes, type Installed, installApp, programOf } from './hermes.js'

let app: Installed
let bundle: string
const failures: unknown[] = []

beforeAll(async () => {
  const program = await readFile(join(root, 'packages/react-native/test/app.ts'), 'utf8')
  app = await installApp({ ...ENTRY, 'app.ts': program })
  bundle = await app.bundle('entry.js', 'this Hermes')
})
afterAll(() => app?.remove())

suite('Hermes', async random => {
  const hermes = await Hermes.start(programOf(app, 'hermes'), bundle, { random })
  return {
    run: command => hermes.run(command),
    activate: () => hermes.activate(),
    async close() {
      failures.push(...hermes.failures)
      await hermes.close()
    },
  } as Phone
})

test('nothing failed beside what was asked', () => {
  expect(failures).toEqual([])
})
