// `keyhush ceremony` as operators run it. What makes a transcript hold is tested in rust/pointproofs.

import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { keyhush } from '../../../server/test/command.js'
import { temporaryDirectory } from '../../../server/test/helpers.js'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { heldCeremony } from './support/proved.js'

test('the ceremony that other tests use is the one that the reference holds', async () => {
  for (const [name, content] of Object.entries(heldCeremony())) {
    const kept = await readFile(new URL(`ceremony/${name}`, import.meta.url))
    expect(kept.equals(Buffer.from(content as string)), name).toBe(true)
  }
})

const ceremony = (...args: string[]) => keyhush('ceremony', ...args)

test('begun, contributed to, verified with the receipt; nothing is overwritten, nothing that does not hold is taken', async () => {
  const folder = await temporaryDirectory()
  const [begun, mine, stray] = ['begun', 'mine', 'stray'].map(name => join(folder, name)) as [string, string, string]
  expect(await ceremony('init', '--out', begun, '--development')).toMatchObject({ code: 0, stderr: '' })

  const contributed = await ceremony('contribute', begun, '--name', 'Ada’s servers', '--out', mine)
  expect(contributed.stderr).toBe('')
  expect(contributed.stdout).toMatch(
    /^contributors: “Ada’s servers”\nfor development: yes.*\ntranscript hash: [0-9a-f]{64}\nreceipt: /,
  )
  const receipt = await readFile(`${mine}.receipt`, 'utf8')
  expect(receipt).toMatch(/^[0-9a-f]{64}\n$/)
  const verified = await ceremony('verify', mine, '--receipt', `${mine}.receipt`)
  expect(verified).toMatchObject({ code: 0, stderr: '' })
  expect(verified.stdout).toContain('receipts: all found\n')
  // Hash and names are those that the contributor read.
  expect(verified.stdout.split('\n').slice(0, 3)).toEqual(contributed.stdout.split('\n').slice(0, 3))

  const refusal = async (...args: string[]) => {
    const { code, stdout, stderr } = await ceremony(...args)
    expect([code, stdout]).toEqual([1, ''])
    return stderr
  }
  const another = receipt.replace(/^./, digit => (digit === '0' ? '1' : '0'))
  await writeFile(stray, another)
  expect(await refusal('verify', mine, '--receipt', stray)).toMatch(/the contribution of .*stray is not in it; do not/)
  expect(await refusal('verify', mine, '--receipt', mine)).toContain('expected a receipt, 64 hex digits')
  expect(await refusal('init', '--out', mine)).toContain('it exists already, and nothing is overwritten')
  const bytes = await readFile(mine)
  await writeFile(stray, bytes.subarray(0, -1))
  expect(await refusal('verify', stray)).toMatch(/transcript: expected \d+ bytes, got \d+/)
  bytes[49_120] = 'B'.charCodeAt(0)
  await writeFile(stray, bytes)
  expect(await refusal('verify', stray)).toContain('does not hold where it stands')
  if (THOROUGH) {
    const never = join(folder, 'never')
    expect(await refusal('contribute', stray, '--name', 'Grace', '--out', never)).toContain('does not hold')
    await expect(readFile(never)).rejects.toThrow()
  }

  // Interrupted after its receipt was written: the same command again ends it, and the receipt stays what it was.
  const contributing = ['contribute', begun, '--name', 'Ada’s servers', '--out', mine]
  const [transcript, part] = [await readFile(mine), `${mine}.part`]
  expect(await refusal(...contributing)).toContain('it exists already')
  await rename(mine, part)
  const ended = await ceremony(...contributing)
  expect(ended).toMatchObject({ code: 0, stderr: '' })
  expect(ended.stdout).toContain('an earlier run was interrupted')
  expect([await readFile(mine), await readFile(`${mine}.receipt`, 'utf8')]).toEqual([transcript, receipt])
  // Before it: then nothing is there that anybody could keep, and another is made.
  if (THOROUGH) {
    await rename(mine, part)
    await rm(`${mine}.receipt`)
    expect(await ceremony(...contributing)).toMatchObject({ code: 0, stderr: '' })
    expect(await readFile(`${mine}.receipt`, 'utf8')).not.toBe(receipt)
    expect(await ceremony('verify', mine, '--receipt', `${mine}.receipt`)).toMatchObject({ code: 0 })
  } else {
    await writeFile(`${mine}.receipt`, another)
  }
  // A receipt alone is of a transcript that has gone elsewhere: it is not written over. Nor is what does not go with it.
  await rm(mine)
  expect(await refusal(...contributing)).toContain('nothing is overwritten')
  await writeFile(part, transcript)
  expect(await refusal(...contributing)).toMatch(/is not what .* is for; remove both/)
})
