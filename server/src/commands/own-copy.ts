// Publishing at one server: what its batch has to make of the database, a copy of the publisher's own tells, which this
// process serves to itself for as long as it publishes. So a server that lies is found out before anything of it is signed, as
// one of two is.

import type { AddressInfo } from 'node:net'
import type { UpdatableDatabase } from '../database/updatable.js'
import { createServer } from '../http/server.js'
import type { KeyPair } from '../publisher/files.js'

export interface OwnCopy {
  readonly url: string
  /** The database is closed as well. */
  close(): Promise<void>
}

/** Serves it on a port of the system's choosing, to whoever has the key. */
export async function serveOwnCopy(updatable: UpdatableDatabase, { publicKey }: KeyPair): Promise<OwnCopy> {
  const app = await createServer({
    datasets: [{ updatable, publisherKeys: [publicKey] }],
    allowOrigins: [],
    instant: false,
  })
  const close = async () => {
    app.server.closeAllConnections()
    await app.close()
    await updatable.close()
  }
  try {
    await app.listen({ host: '127.0.0.1', port: 0 })
  } catch (error) {
    await close()
    throw error
  }
  return { url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`, close }
}
