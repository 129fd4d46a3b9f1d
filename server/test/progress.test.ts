// The line that says how far a build is.

import { expect, test } from 'vitest'
import { drawProgress } from '../src/commands/progress.js'

test('a stage is said when it begins, however soon after the one before, and then now and then', () => {
  const written: string[] = []
  let now = 1000
  const { draw, clear } = drawProgress(
    text => written.push(text.replace('\r\u001b[K', '')),
    () => now,
  )
  draw({ stage: 'hashing', done: 1, total: 2 })
  draw({ stage: 'hashing', done: 2, total: 2 })
  draw({ stage: 'checking the ceremony', done: 0, total: 1 })
  draw({ stage: 'proving', done: 0, total: 16 })
  now += 50
  draw({ stage: 'proving', done: 1, total: 16 })
  now += 50
  draw({ stage: 'proving', done: 4, total: 16 })
  clear()
  expect(written).toEqual(['hashing 50 %', 'checking the ceremony 0 %', 'proving 0 %', 'proving 25 %', ''])
})
