// Whoever opens a connection to the port of the figures and says nothing, a load balancer's probe, say, keeps no server from stopping.

import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { onTestFinished, test } from 'vitest'
import { Metrics, Readiness } from '../dist/index.js'

test('the figures wait for no connection that has brought nothing, either', async () => {
  const figures = await new Metrics().server(new Readiness())
  await figures.listen({ host: '127.0.0.1', port: 0 })
  const socket = connect((figures.server.address() as AddressInfo).port, '127.0.0.1')
  socket.on('error', () => {})
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  const closed = new Promise(resolve => socket.once('close', resolve))
  await figures.close() // Node would for a minute, which is more than a test may take
  await closed
})
