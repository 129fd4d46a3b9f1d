// vectors/about.json says of every section of the shared vectors what it has, and of nothing else.

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { readVectors } from './vectors.js'

const about = readVectors<Record<string, Record<string, string>>>('about')
const pointproofs = new URL('../../packages/pointproofs/test/vectors.json', import.meta.url)
const files = {
  core: readVectors<object>('core'),
  updates: readVectors<object>('updates'),
  wire: readVectors<object>('wire'),
  'one-server': readVectors<object>('one-server'),
  log: readVectors<object>('log'),
  confidential: readVectors<object>('confidential'),
  pointproofs: JSON.parse(readFileSync(pointproofs, 'utf8')) as object,
}

test.each(Object.entries(files))('%s', (name, vectors) => {
  const sections = Object.keys(vectors).filter(key => key !== 'comment')
  expect(Object.keys(about[name]!).sort()).toEqual(sections.sort())
})
