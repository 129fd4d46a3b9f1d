// Schemes do not know each other. tests/documents.test.ts holds which folder may import which, and that no import closes a circle.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import { arrowsOf, importsIn } from '../../../tests/support/imports.js'

const imports = importsIn(join(import.meta.dirname, '../src'))
const arrows = arrowsOf(imports)

test('every import is found, and leads to a file', () => {
  expect(imports.size).toBeGreaterThan(40)
  for (const [, other] of arrows) expect(imports.keys()).toContain(other)
  expect(imports.get('session/stateful.ts')).toContain('lookup/lookup.ts')
  expect(imports.get('servers/ed25519.ts')).toContain('servers/curves.ts') // on demand
})

test('no scheme knows another, and none above that room knows one by name', () => {
  const folderOf = (file: string) => file.split('/').slice(0, -1).join('/')
  const isInside = (file: string) => folderOf(file).startsWith('scheme/')
  const known = arrows.filter(([file, other]) => isInside(other) && folderOf(other) !== folderOf(file))
  const lists = ['scheme/table.ts', 'scheme/known.ts', 'scheme/on-demand.ts']
  expect(known.filter(([file]) => !lists.includes(file)).map(arrow => arrow.join(' → '))).toEqual([])
})
