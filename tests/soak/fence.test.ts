import { toHex } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import type { Fence } from '../../server/dist/database/fence.js'
import { measured } from './fence-process.mjs'

test('no hint has two confirmations on their way at once: the later one may be judged first', async () => {
  const [underWay, versions] = [new Set<string>(), new Map<string, number>()]
  let twice = 0
  const judge: Fence['judge'] = async ({ hintId, version }) => {
    const id = toHex(hintId)
    if (underWay.has(id)) twice++
    underWay.add(id)
    await Promise.resolve()
    underWay.delete(id)
    const isOld = version < (versions.get(id) ?? 0)
    if (!isOld) versions.set(id, version)
    return isOld ? 'refused' : 'granted'
  }
  await measured({ judge, hints: 1000 } as unknown as Fence, 1000, () => {})
  expect(twice).toBe(0)
})
