// The folders of src/, from the ground up: a file may know its own folder and those below (docs/ARCHITECTURE.md).

import { join } from 'node:path'
import { expect, test } from 'vitest'
import { arrowsOf, circlesIn, importsIn } from '../../tests/support/imports.js'

const FOLDERS = ['base', 'storage', 'dataset', 'database', 'workers', 'instant', 'publisher', 'http']
/** Both on all of these, and neither on the other. */
const ON_TOP = ['testing', 'commands']

const folderOf = (file: string) => (file.includes('/') ? file.split('/')[0]! : '')
const heightOf = (folder: string) =>
  folder === '' ? Infinity : FOLDERS.includes(folder) ? FOLDERS.indexOf(folder) : 99

const imports = importsIn(join(import.meta.dirname, '../src'))
const arrows = arrowsOf(imports)

test('every import is found, and leads to a file in a folder that has its height', () => {
  expect(arrows.length).toBeGreaterThan(100)
  for (const [, other] of arrows) expect(imports.keys()).toContain(other)
  const folders = new Set([...imports.keys()].map(folderOf))
  expect([...folders].sort()).toEqual(['', ...FOLDERS, ...ON_TOP].sort())
})

test('no import leads upwards', () => {
  const upwards = arrows.filter(([file, other]) => {
    const [from, to] = [folderOf(file), folderOf(other)]
    return from !== to && heightOf(to) >= heightOf(from)
  })
  expect(upwards.map(arrow => arrow.join(' → '))).toEqual([])
})

test('no file is on a circle of imports, of types either', () => {
  expect(circlesIn(imports)).toEqual([])
})
