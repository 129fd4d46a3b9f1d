// The world notices each rule that is taken out, in a known life, which breaks no rule without that.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { Compiler } from '../living/mutants.js'
import { hunted, MUTANTS, recording } from './mutants.js'

let compiler: Compiler
beforeAll(async () => {
  compiler = await Compiler.start(recording)
})
afterAll(() => compiler.close())

test.each(MUTANTS)('$rule: a life finds that $name', async mutant => {
  expect(await hunted(compiler, mutant, undefined)).toBeUndefined()
  expect(await hunted(compiler, mutant, mutant)).toMatch(mutant.shows)
})
