// The folders of src/, from the ground up: a file may know its own folder and those below (docs/ARCHITECTURE.md).

import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import { expect, test } from 'vitest'

const FOLDERS = ['base', 'storage', 'dataset', 'database', 'workers', 'instant', 'publisher', 'http']
/** Both on all of these, and neither on the other. */
const ON_TOP = ['testing', 'commands']
const src = join(import.meta.dirname, '../src')

const folderOf = (file: string) => (file.includes('/') ? file.split('/')[0]! : '')
const heightOf = (folder: string) =>
  folder === '' ? Infinity : FOLDERS.includes(folder) ? FOLDERS.indexOf(folder) : 99

const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .map(name => normalize(name).replaceAll('\\', '/'))
  .filter(name => name.endsWith('.ts') && !name.endsWith('.d.ts'))

const arrows = files.flatMap(file => {
  const text = readFileSync(join(src, file), 'utf8')
  return [...text.matchAll(/(?:from|import) ?\(?'(\.[^']+)\.js'/g)].map(([, path]) => {
    return [file, relative(src, join(src, dirname(file), `${path}.ts`)).replaceAll('\\', '/')] as const
  })
})

test('every import is found, and leads to a file in a folder that has its height', () => {
  expect(arrows.length).toBeGreaterThan(100)
  for (const [, other] of arrows) expect(files).toContain(other)
  const folders = new Set(files.map(folderOf))
  expect([...folders].sort()).toEqual(['', ...FOLDERS, ...ON_TOP].sort())
})

test('no import leads upwards', () => {
  const upwards = arrows.filter(([file, other]) => {
    const [from, to] = [folderOf(file), folderOf(other)]
    return from !== to && heightOf(to) >= heightOf(from)
  })
  expect(upwards.map(arrow => arrow.join(' → '))).toEqual([])
})

test('no files import one another in a circle', () => {
  const circles: string[] = []
  const walk = (file: string, path: readonly string[]) => {
    if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' → '))
    else if (!clear.has(file)) for (const [from, to] of arrows) if (from === file) walk(to, [...path, file])
    clear.add(file)
  }
  const clear = new Set<string>()
  for (const file of files) walk(file, [])
  expect(circles).toEqual([])
})

test('an error class is an OperatorError, so that a command prints a sentence and no stack', () => {
  /** Those that no command ends with. */
  const inner = ['base/errors.ts: OperatorError', 'base/refusal.ts: Refusal', 'storage/postgres.ts: CalledOff']
  const proofs = '../../packages/pointproofs/src/server/errors.ts'
  const bare = [...files, proofs].flatMap(file => {
    const text = readFileSync(join(src, file), 'utf8')
    return [...text.matchAll(/class (\w+) extends Error\b/g)].map(([, name]) => `${file}: ${name}`)
  })
  expect(bare.sort(), 'have a new class extend OperatorError (server/src/base/errors.ts)').toEqual(inner)
})
