// The package in Hermes, in an app that Metro has built from the packed packages. Its network is React Native's own JavaScript.

import { cp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Phone, suite } from '../../packages/react-native/test/suite.js'
import { root, run } from '../package/packed.js'
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

test('the Expo example has the checked types, and Metro bundles it without WebAssembly', async () => {
  await cp(join(root, 'demo/examples/expo'), app.path, {
    recursive: true,
    filter: name => !name.endsWith('package.json'),
  })
  await run(app.path, 'npx', 'tsc', '--noEmit', '--project', 'tsconfig.json')
  const shipped = await app.bundle('node_modules/expo/AppEntry.js', 'shipped')
  expect(shipped).toContain('Was it leaked?')
  expect(shipped).not.toContain('AGFzbQ') // how WebAssembly begins in base64
})
