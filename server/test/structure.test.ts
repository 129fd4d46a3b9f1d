// Files of src/ import each other on no circle. tests/documents.test.ts holds which folder may import which.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import { arrowsOf, circlesIn, importsIn } from '../../tests/support/imports.js'

const imports = importsIn(join(import.meta.dirname, '../src'))
const arrows = arrowsOf(imports)

test('every import is found, and leads to a file', () => {
  expect(arrows.length).toBeGreaterThan(100)
  for (const [, other] of arrows) expect(imports.keys()).toContain(other)
})

test('no file is on a circle of imports, of types either', () => {
  expect(circlesIn(imports)).toEqual([])
})
