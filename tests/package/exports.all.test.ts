// `npm run build` makes every file that a package exports.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const { workspaces } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { workspaces: string[] }
const folders = workspaces.flatMap(name =>
  name.endsWith('/*') ? readdirSync(join(root, dirname(name))).map(one => join(dirname(name), one)) : [name],
)

type Target = string | { [condition: string]: Target }
const filesOf = (target: Target): string[] =>
  typeof target === 'string' ? [target] : Object.values(target).flatMap(filesOf)

test('npm run build makes every file that a package exports', () => {
  const exported = folders.flatMap(folder => {
    const { exports = {} } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'))
    return filesOf(exports).map(file => join(folder, file))
  })
  expect(exported).toContain('packages/client/dist/node.js')
  expect(exported).toContain('server/dist/index.d.ts')
  expect(exported.filter(file => !existsSync(join(root, file)))).toEqual([])
})
