// Docstrings: every function that the packages export for apps, operators' code and tests says what it throws, and how to call
// it.

import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(file, 'utf8')

interface Declared {
  readonly name: string
  readonly isAsync: boolean
  /** undefined: none */
  readonly docstring: string | undefined
}

const DOCSTRING = String.raw`(?:\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n *)?`

/** Functions that a file exports, by name, re-exports included. */
function functionsOf(file: string): Declared[] {
  const text = read(file)
  const passedOn = [...text.matchAll(/^export \{([^}]*)\} from '(\.[^']*)\.js'$/gm)].flatMap(([, names, path]) => {
    const values = names!
      .split(',')
      .map(name => name.trim())
      .filter(name => name !== '' && !name.startsWith('type '))
    const other = functionsOf(join(dirname(file), `${path}.ts`))
    return other.filter(({ name }) => values.includes(name.split('.')[0]!))
  })
  // A loader that loads once is a constant, and a hook that is made for its entry.
  const own = [
    ...text.matchAll(new RegExp(`^${DOCSTRING}export (async function|function|const(?= (?:load|use))) (\\w+)`, 'gm')),
  ]
    .map(([, docstring, how, name]) => ({ name: name!, isAsync: how !== 'function' && !/^use/.test(name!), docstring }))
    .filter(({ name }, i, all) => all[i - 1]?.name !== name) // of overloads the first has the docstring
  const classes = [...text.matchAll(/^export (?:abstract )?class (\w+)[\s\S]*?^\}$/gm)].flatMap(([body, name]) =>
    // No getters: asynchronous methods, and the subscription.
    [...body.matchAll(new RegExp(`^  ${DOCSTRING}(static async |async |)(\\w+)[<(]`, 'gm'))]
      .filter(
        ([, , how, method]) => how === 'static async ' || (name === 'OpenedMap' && (how !== '' || method === 'on')),
      )
      .map(([, docstring, , method]) => ({ name: `${name}.${method}`, isAsync: true, docstring })),
  )
  return [...own, ...classes, ...passedOn]
}

const ENTRIES = [
  ...['index', 'map', 'node'].map(name => `packages/client/src/${name}.ts`),
  ...['instant', 'react', 'react-instant', 'react/lookup', 'testing/fake-map'].map(
    name => `packages/client/src/${name}.ts`,
  ),
  ...['packages/react-native/src/index.ts', 'server/src/index.ts', 'server/src/testing/servers.ts'],
  ...['node', 'client', 'instant', 'server', 'worker'].map(name => `packages/wasm/src/${name}.ts`),
]

test.each(ENTRIES)('%s', entry => {
  const file = join(root, entry)
  expect(existsSync(file)).toBe(true)
  const functions = functionsOf(file)
  expect(functions.length, relative(root, file)).toBeGreaterThan(0)
  const lacking = functions.flatMap(({ name, isAsync, docstring = '' }) => [
    ...(isAsync && !/@throws \{\w+/.test(docstring) ? [`${name}: @throws`] : []),
    ...(/@example\n/.test(docstring) ? [] : [`${name}: @example`]),
  ])
  expect(lacking).toEqual([])
})

test('the functions that an app calls are among those checked', () => {
  const names = [0, 1].flatMap(i => functionsOf(join(root, ENTRIES[i]!)).map(({ name }) => name))
  const calls = ['get', 'getText', 'getJson', 'has', 'at', 'getMany', 'on', 'sync', 'reset', 'close']
  expect(names).toEqual(
    expect.arrayContaining(['open', 'estimate', 'discardState', ...calls.map(call => `OpenedMap.${call}`)]),
  )
})
