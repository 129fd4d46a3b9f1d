// What lookups cost on phones: in Hermes beside Node, and in Chromium with a slow processor on a slow line.

import { randomInt } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { scriptCore } from '@keyhush/wasm/script'
import { root, run as runProgram } from '../package/packed.js'
import { ENTRY, Hermes, type Installed, installApp, NATIVE, programOf } from '../phones/hermes.js'
import { startApp, visitApp } from './app-page.js'
import { look, type Timed } from './look.js'
import { type Options, target } from './options.js'
import { phoneMemory } from './phone-memory.js'
import type { Figure, Section } from './report.js'
import { record } from './script.js'
import { residentBytes, Stage, under } from './stage.js'
import { LINE } from './visits.js'

/** How many times slower than this machine's a phone's processor is. */
const SLOWED = 6
const FINGERPRINT_BYTES = 16
/** Lookups before the memory is read. */
const LOOKUPS = 40

/** Runs rounds of lookups as bytecode, and prints how long each took. */
const COMPUTING = `import { scriptCore } from '@keyhush/wasm/script'
import { look } from './look'
const { described, lookups, rounds } = globalThis.given
const timed = []
for (let round = 0; round < rounds; round++) timed.push(look(scriptCore, described, lookups))
print('timed ' + JSON.stringify(timed))
`
/** An app with React Native alone. */
const EMPTY = `import { AppState } from 'react-native'
AppState.addEventListener('change', () => {})
globalThis.app = { run: async () => ({ value: null }) }
`

export async function phones(options: Options): Promise<Section[]> {
  return await Stage.with(async stage => {
    const { records, recordBytes } = options.shape
    const lines = Array.from({ length: records }, (_, i) => `${keyOf(i)},${valueAt(i, recordBytes)}\n`)
    const dataset = await stage.build('csv', `key,value\n${lines.join('')}`)
    const urls = under(await stage.pair(() => ['--dataset', dataset]))
    const app = await installApp({
      ...ENTRY,
      'app.ts': await readFile(join(root, 'packages/react-native/test/app.ts'), 'utf8'),
      'look.ts': await readFile(join(import.meta.dirname, 'look.ts'), 'utf8'),
      'computing.js': COMPUTING,
      'empty.js': EMPTY,
    })
    stage.closeLast(app.remove)
    const inHermes = [...(await computing(app, options)), ...(await lookingUp(app, urls, options))]
    return [
      { title: 'Phones: Hermes', figures: inHermes },
      { title: `Phones: Chromium slowed ${SLOWED} times`, figures: await firstAnswer(stage, urls, options) },
      ...(await phoneMemory(options)),
    ]
  })
}

const keyOf = (index: number) => `key-${index}`
const valueAt = (index: number, bytes: number) => `value ${index} `.padEnd(bytes, '.')

/** A query and its verification, both steps of a lookup. */
async function computing(app: Installed, options: Options): Promise<Figure[]> {
  const { shape, repeats } = options
  const { described, lookups } = await record(shape.records, FINGERPRINT_BYTES + shape.recordBytes)
  const rounds = repeats + 1 // the first does not count
  const bundle = await app.bundle('computing.js', 'this Hermes')
  const given = `globalThis.performance = Date\nglobalThis.given = ${JSON.stringify({ described, lookups, rounds })}\n`
  const [source, bytecode] = [join(app.path, 'whole.js'), join(app.path, 'whole.hbc')]
  await writeFile(source, `${await readFile(NATIVE, 'utf8')}${given}${bundle}`)
  await runProgram(app.path, programOf(app, 'hermesc'), '-O', '-w', '-emit-binary', '-out', bytecode, source)
  const printed = await runProgram(
    app.path,
    programOf(app, 'hermes'),
    '-Xes6-promise',
    '-Xmicrotask-queue',
    '-b',
    bytecode,
  )
  const inHermes = JSON.parse(/^timed (.*)$/m.exec(printed)![1]!) as Timed[]
  const inNode = Array.from({ length: rounds }, () => look(scriptCore, described, lookups))
  const name = 'queries and verification'
  const samples = (timed: readonly Timed[]) => timed.slice(1).map(({ query, verify }) => query + verify)
  return [
    { name, column: 'Hermes', unit: 'ms', target: target(options, '≤', 25), samples: samples(inHermes) },
    { name, column: 'Node', unit: 'ms', samples: samples(inNode) },
  ]
}

/** Whole lookups, and the memory of the app. */
async function lookingUp(app: Installed, servers: readonly string[], options: Options): Promise<Figure[]> {
  const { shape, repeats } = options
  const [opening, lookups, memory]: [number[], number[], number[]] = [[], [], []]
  const [bundle, empty] = [await app.bundle('entry.js', 'this Hermes'), await app.bundle('empty.js', 'this Hermes')]
  for (let run = 0; run < repeats; run++) {
    const [one, other] = [await started(app, bundle), await started(app, empty)]
    const timed = async (command: unknown, into: number[]) => {
      const start = performance.now()
      const outcome = await one.run(command)
      into.push(performance.now() - start)
      return (outcome as { value?: unknown }).value
    }
    if ((await timed(['open', { servers }], opening)) !== 0) throw new Error('expected a map')
    for (let i = 0; i < LOOKUPS; i++) {
      const index = randomInt(shape.records)
      const value = await timed(['call', 0, 'getText', keyOf(index)], lookups)
      if (value !== valueAt(index, shape.recordBytes)) throw new Error('a value is wrong')
    }
    const [bytes, without] = [await residentBytes(one.pid), await residentBytes(other.pid)]
    if (bytes !== undefined && without !== undefined) memory.push((bytes - without) / 1e6)
    for (const each of [one, other]) await each.close()
  }
  return [
    { name: 'open()', column: 'Hermes', unit: 'ms', samples: opening },
    { name: 'whole lookup', column: 'Hermes', unit: 'ms', target: target(options, '≤', 60), samples: lookups },
    { name: 'memory', column: 'Hermes', unit: 'MB', target: target(options, '≤', 12), samples: memory },
  ]
}

/** Hermes when the app's bundle has been run. */
async function started(app: Installed, bundle: string): Promise<Hermes> {
  const hermes = await Hermes.start(programOf(app, 'hermes'), bundle, { random: true })
  await hermes.run(['read', 0, 'mode'])
  return hermes
}

/** A page of an app that opens a map and looks a key up. */
async function firstAnswer(stage: Stage, servers: readonly string[], options: Options): Promise<Figure[]> {
  const app = await startApp(stage, '@keyhush/client/instant')
  const [whole, sinceOpen]: [number[], number[]] = [[], []]
  for (let run = 0; run < options.repeats; run++) {
    const index = randomInt(options.shape.records)
    const answer = await visitApp(stage, app, { servers, push: false }, keyOf(index), SLOWED)
    const text = Buffer.from(answer.value).toString()
    if (text !== valueAt(index, options.shape.recordBytes)) throw new Error('a value is wrong')
    whole.push(answer.whole)
    sinceOpen.push(answer.sinceOpen)
  }
  const name = `first instant answer, ${LINE.megabits} Mbit/s`
  return [
    { name, column: 'from open()', unit: 's', target: target(options, '≤', 0.8), samples: sinceOpen },
    { name, column: 'from navigation', unit: 's', samples: whole },
  ]
}
