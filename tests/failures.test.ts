// tools/test.mjs counts and names what fails, also outside of any test.

import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root, run, write } from './package/packed.js'
import { temporaryFolder } from './support/servers.js'

const FILES = {
  'several.test.ts': `import { beforeAll, describe, expect, test } from 'vitest'
    test('fails', () => expect('one').toBe('another'))
    test('leaves a rejection', () => void Promise.reject(new Error('caught by none')))
    test('throws later', () => new Promise(done => {
      setTimeout(() => { done(); throw new TypeError('too late') })
    }))
    describe('a suite', () => {
      beforeAll(() => { throw new Error('in a hook') })
      test('is not run', () => {})
    })`,
  'one.test.ts': `throw new Error('while it loads')`,
}

test('each failure counts, and is named with its file, also outside of a test', async () => {
  const folder = await temporaryFolder()
  try {
    await write(folder.path, FILES)
    await symlink(join(root, 'node_modules'), join(folder.path, 'node_modules'))
    const args = JSON.stringify([['--root', folder.path], join(folder.path, 'report.json')])
    const call = `const { testTypeScript } = await import('./tools/test.mjs'); const sum = await testTypeScript(...${args})`
    const printed = await run(
      root,
      process.execPath,
      '--input-type=module',
      '--eval',
      `${call}; console.log(JSON.stringify(sum))`,
    )
    const { passed, failed, failures } = JSON.parse(printed.trim().split('\n').at(-1)!)
    expect([passed, failed]).toEqual([2, 1 + 4 + 1]) // the last was skipped without a reason
    for (const failure of [
      'several.test.ts: fails: AssertionError: expected',
      'several.test.ts: Error: in a hook',
      'several.test.ts: Error: caught by none',
      'several.test.ts: TypeError: too late',
      'one.test.ts: Error: while it loads',
    ]) {
      expect(failures.join('\n')).toContain(failure)
    }
  } finally {
    await folder.remove()
  }
})
