// `pirouette ceremony` as operators run it. What makes a transcript hold is tested in rust-core/pointproofs.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { pirouette } from './command.js'
import { temporaryDirectory } from './helpers.js'

const ceremony = (...args: string[]) => pirouette('ceremony', ...args)

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
  await writeFile(stray, `${receipt.replace(/^./, digit => (digit === '0' ? '1' : '0'))}`)
  expect(await refusal('verify', mine, '--receipt', stray)).toMatch(/the contribution of .*stray is not in it; do not/)
  expect(await refusal('verify', mine, '--receipt', mine)).toContain('expected a receipt, 64 hex digits')
  expect(await refusal('init', '--out', mine)).toContain('it exists already, and nothing is overwritten')
  const bytes = await readFile(mine)
  await writeFile(stray, bytes.subarray(0, -1))
  expect(await refusal('verify', stray)).toMatch(/transcript: expected \d+ bytes, got \d+/)
  bytes[49_120] = 'B'.charCodeAt(0)
  await writeFile(stray, bytes)
  expect(await refusal('verify', stray)).toContain('does not hold where it stands')
  expect(await refusal('contribute', stray, '--name', 'Grace', '--out', join(folder, 'never'))).toContain(
    'does not hold',
  )
  await expect(readFile(join(folder, 'never'))).rejects.toThrow()
}, 600_000)
