// Pointproofs from one end to the other while the database changes; and that the smallest dataset, which other tests use, is what is
// built today.

import { open } from '@keyhush/client'
import { expect, onTestFinished, test } from 'vitest'
import { contentsOf } from '../../../server/test/helpers.js'
import { buildInto, startPair, temporaryFolder } from '../../../tests/support/servers.js'
import { ceremonyIn } from './support/proved.js'
import { CONTENT, DATASET, SMALL } from './support/small.js'

const proved = { proofs: 'pointproofs', pointproofs: () => import('@keyhush/pointproofs') } as const

async function begun() {
  const folder = await temporaryFolder()
  onTestFinished(() => folder.remove())
  const { transcript: ceremony, mine: receipt } = await ceremonyIn(folder.path)
  return { path: folder.path, data: { ...SMALL, ceremony, receipt } }
}

test('the dataset that other tests use is the one that is built', async () => {
  const { path, data } = await begun()
  const built = await buildInto(path, { ...data, content: CONTENT })
  expect(await contentsOf(built)).toEqual(await contentsOf(DATASET))
})

test('a map follows what is published, is proved right before and after, and fetches no rows again', async () => {
  const { data } = await begun()
  const names = Array.from({ length: 40 }, (_, i) => `name ${i},value ${i}\n`)
  const living = await startPair({ ...data, content: `key,value\n${names.join('')}`, headroom: 10 }, { living: true })
  onTestFinished(() => living.close())
  const paths: string[] = []
  const counted: typeof fetch = (url, init) => {
    paths.push(new URL(String(url)).pathname)
    return fetch(url, init)
  }
  const map = await open({
    ...{ servers: living.urls, fetch: counted, push: false },
    ...{ mode: 'full', ...proved, storage: 'memory' },
  })
  expect(await map.getText('name 7')).toBe('value 7')
  for (let round = 1; round <= 3; round++) {
    await living.publish([
      { op: 'edit', key: 'name 7', value: `value ${round}` },
      { op: 'add', key: `new ${round}`, value: 'there' },
      { op: 'delete', key: `name ${9 + round}` },
    ])
    // At the epoch before, which is answered as well; then at the newest.
    expect(await map.getText('name 7')).toBe(round === 1 ? 'value 7' : `value ${round - 1}`)
    const before = paths.length
    await map.sync()
    expect(map.epoch).toBe(round + 1)
    expect(await map.getText('name 7')).toBe(`value ${round}`)
    expect(await map.getText(`new ${round}`)).toBe('there')
    expect(await map.getText(`name ${9 + round}`)).toBeUndefined()
    // The update list, and nothing else.
    expect(paths.slice(before).filter(path => path.startsWith('/v1/blobs/'))).toHaveLength(1)
  }
  await map.close()
})
