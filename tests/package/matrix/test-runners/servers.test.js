import { open } from '@keyhush/client'
import { startServers } from '@keyhush/server/testing'

test('looks up', async () => {
  const { servers, publisherKey, close } = await startServers({ otter: 'river' })
  const map = await open({ servers, publisherKey, mode: 'full' })
  expect(await map.getText('otter')).toBe('river')
  await map.close()
  await close()
})
