// The rooms of src/, from the ground up: a file may know its own room and those below, and no file is on a circle of
// imports, of types either. *Where things are* in the README says what each is for.

import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import { expect, test } from 'vitest'

const ROOMS = ['base', 'store', 'platform', 'servers', 'scheme', 'state', 'lookup', 'session']
const src = join(import.meta.dirname, '../src')

const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .map(normalize)
  .filter(name => name.endsWith('.ts'))

/** What a file imports of this package, dynamic imports and types included. */
function importsOf(file: string): string[] {
  const text = readFileSync(join(src, file), 'utf8')
  const found = [...text.matchAll(/(?:from|import) ?\(?'(\.[^']+)\.js'/g)]
  return found.map(([, path]) => relative(src, join(src, dirname(file), `${path}.ts`)))
}

const imports = new Map(files.map(file => [file, importsOf(file)]))

/** Its floor; what is in no room is on the roof. */
function floorOf(file: string): number {
  const room = ROOMS.indexOf(file.split(/[\\/]/)[0]!)
  return room === -1 ? ROOMS.length : room
}

test('every import is found, and leads to a file', () => {
  expect(files.length).toBeGreaterThan(40)
  for (const known of imports.values()) for (const file of known) expect(files).toContain(file)
  expect(imports.get(join('session', 'stateful.ts'))).toContain(join('lookup', 'lookup.ts'))
  expect(imports.get(join('servers', 'ed25519.ts'))).toContain(join('servers', 'curves.ts')) // on demand
})

test('no import leads upwards', () => {
  const upwards = [...imports].flatMap(([file, known]) =>
    known.filter(other => floorOf(other) > floorOf(file)).map(other => `${file} → ${other}`),
  )
  expect(upwards).toEqual([])
})

test('no scheme knows another, and none above that room knows one by name', () => {
  const folderOf = (file: string) => file.split(/[\\/]/).slice(0, -1).join('/')
  const isInside = (file: string) => folderOf(file).startsWith('scheme/')
  const known = [...imports].flatMap(([file, known]) =>
    known.filter(other => isInside(other) && folderOf(other) !== folderOf(file)).map(other => `${file} → ${other}`),
  )
  const lists = ['table.ts', 'known.ts'].map(file => join('scheme', file))
  expect(known.filter(arrow => !lists.some(file => arrow.startsWith(`${file} `)))).toEqual([])
})

test('no file is on a circle', () => {
  const done = new Set<string>()
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) throw new Error([...path.slice(path.indexOf(file)), file].join(' → '))
    if (done.has(file)) return
    for (const other of imports.get(file) ?? []) visit(other, [...path, file])
    done.add(file)
  }
  for (const file of files) visit(file, [])
})
