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
