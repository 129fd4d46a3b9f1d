// Where a command listens.

import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'

/** `http://…`, of one that listens. */
export function addressOf(app: FastifyInstance): string {
  const { address, family, port } = app.server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
