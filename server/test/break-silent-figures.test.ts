// Whoever opens a connection to the port of the figures and says nothing, a load balancer's probe, say, keeps no server from stopping.

import { once } from 'node:events'
import { connect } from 'node:net'
import { onTestFinished, test } from 'vitest'
import { Health, Metrics, Readiness } from '../dist/index.js'

test('the figures wait for no connection that has brought nothing, either', async () => {
  const figures = await new Metrics().server(new Readiness())
  const health = await Health.listen(figures, { host: '127.0.0.1', port: 0 })
  const socket = connect(health.address.port, '127.0.0.1')
  socket.on('error', () => {})
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  const closed = new Promise(resolve => socket.once('close', resolve))
  await health.close() // Node would for a minute, which is more than a test may take
  await figures.close()
  await closed
})
