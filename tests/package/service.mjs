// A new service in Node that has installed the packages. `node service.mjs` answers GET /KEY; `--once` asks itself for two keys.
import { createServer } from 'node:http'
import { open } from '@keyhush/client'
import { startServers } from '@keyhush/server/testing'

const { servers, publisherKey, close } = await startServers({ otter: 'river' }) // elsewhere two operators have them
const map = await open({ servers, publisherKey })
const service = createServer(async (request, response) => {
  const text = await map.getText(decodeURIComponent(request.url.slice(1)))
  response.writeHead(text === undefined ? 404 : 200).end(text)
})
await new Promise(resolve => service.listen(0, '127.0.0.1', resolve))
const url = `http://127.0.0.1:${service.address().port}`
if (process.argv.includes('--once')) {
  const replies = [await fetch(`${url}/otter`), await fetch(`${url}/auk`)]
  const [found, absent] = replies.map(({ status }) => status)
  const text = await replies[0].text()
  service.close()
  await map.close()
  await close()
  if (text !== 'river' || found !== 200 || absent !== 404) throw new Error(`answered ${found} ${text}, ${absent}`)
  console.log('river, and nothing for auk')
} else {
  console.log(url)
}
