// Whoever opens a connection to the port of the figures and says nothing, a load balancer's probe, say, keeps no server from stopping.

import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { Metrics, Readiness } from '../dist/index.js'

test('the figures wait for no connection that has brought nothing, either', async () => {
  const figures = await new Metrics().server(new Readiness())
  const at = new URL(await figures.listen({ host: '127.0.0.1', port: 0 }))
  const socket = connect(Number(at.port), at.hostname)
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  await expect
    .poll(() => new Promise(resolve => figures.server.getConnections((_error, count) => resolve(count))))
    .toBe(1)
  await figures.close() // Node would for a minute, which is more than a test may take
})
