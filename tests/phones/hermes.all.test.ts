// The package in Hermes, in an app that Metro has built from the packed packages. Its network is React Native's own JavaScript.

import { cp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Command, Outcome as Result } from '../../packages/react-native/test/app.js'
import { suite } from '../../packages/react-native/test/suite.js'
import { root, run } from '../package/packed.js'
import { ENTRY, Hermes, type Installed, installApp, programOf } from './hermes.js'
import { keyOf, type Lookup, type Outcome, type Phone, runSchedules, SCHEDULES } from './schedule.js'

/** How much longer an app's clock says that it was frozen, the first time, the second … */
const ASLEEP_MS = [86_400_000, 0, 3_000, 20_000]

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
    run: command => hermes.run(command) as Promise<Result>,
    activate: () => hermes.activate(),
    async close() {
      failures.push(...hermes.failures)
      await hermes.close()
    },
  }
})

/** An app that opens a map as it starts. It is killed with its process. */
async function appOf(servers: [string, string]): Promise<Phone> {
  const hermes = await Hermes.start(programOf(app, 'hermes'), bundle, { random: true })
  const lookups: Lookup[] = []
  let opened: Outcome | undefined
  const timed = async (command: Command): Promise<Outcome> => {
    const [start, before] = [performance.now(), asleep]
    const outcome = (await hermes.run(command)) as Result
    const ms = performance.now() - start - (asleep - before)
    return 'error' in outcome ? { ms, error: outcome.error } : { ms, value: `${outcome.value}` }
  }
  let asleep = 0
  let frozenAt = 0
  let thaws = 0
  const epochNow = async () => {
    const { value } = (await hermes.run(['read', 0, 'epoch'])) as { value?: number | null }
    return value ?? undefined
  }
  await hermes.run(['read', 0, 'mode']) // the bundle has been compiled and run
  void timed(['open', { servers }]).then(outcome => {
    opened = outcome
  })
  const isOpen = () => opened !== undefined && opened.error === undefined
  return {
    async lookUp(index) {
      if (!isOpen()) return
      const lookup: Lookup = { index, epoch: await epochNow() }
      lookups.push(lookup)
      void timed(['call', 0, 'getText', keyOf(index)]).then(outcome => {
        lookup.ended = outcome
      })
    },
    async freeze() {
      hermes.freeze()
      frozenAt = performance.now()
    },
    async thaw() {
      asleep += performance.now() - frozenAt
      hermes.thaw(ASLEEP_MS[thaws++ % ASLEEP_MS.length]!)
      hermes.activate()
    },
    show: async () => hermes.activate(),
    tell: async () => {}, // React Native tells an app nothing of its line
    seen: async () => ({ opened, epoch: isOpen() ? await epochNow() : undefined, lookups }),
    async kill() {
      await hermes.close()
      failures.push(...hermes.failures)
    },
  }
}

test(`${SCHEDULES} random schedules`, async () => {
  await runSchedules(async () => ({ modes: ['instant'], start: appOf, close: async () => {} }))
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
