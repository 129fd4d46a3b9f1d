// Reads from the servers what the page has to know of a database before it opens it.

import { estimate } from '@keyhush/client'
import { decodeManifest } from '@keyhush/protocol'
import { DATABASES, type DatabaseName, type Shape } from '../page/backstage.js'

type Pair = readonly [string, string]

/** The shapes of all databases that both servers have. Throws if a server fails otherwise than by 404. */
export async function readShapes(servers: Pair): Promise<Partial<Record<DatabaseName, Shape>>> {
  const found = await Promise.all(DATABASES.map(async name => [name, await readShape(servers, name)] as const))
  return Object.fromEntries(found.filter(([, shape]) => shape !== undefined))
}

async function readShape(servers: Pair, name: DatabaseName): Promise<Shape | undefined> {
  const urls = servers.map(server => `${server}/${name}`) as [string, string]
  const [manifest, other] = await Promise.all(urls.map(readManifest))
  if (manifest === undefined || other === undefined) return undefined
  return { records: manifest.records, firstBytes: await readFirstBytes(urls) }
}

/** undefined: the server has no such database */
async function readManifest(url: string) {
  const response = await fetch(`${url}/v1/manifest`)
  if (response.status === 404) return undefined
  if (!response.ok) throw new Error(`${response.url}: ${response.status}`)
  return decodeManifest(new Uint8Array(await response.arrayBuffer()))
}

async function readFirstBytes(urls: Pair): Promise<Shape['firstBytes']> {
  const [one, both] = await Promise.all([estimate([urls[0]]), estimate(urls)])
  const costs = Object.entries({ ...one.modes, ...both.modes })
  return Object.fromEntries(
    costs.map(([mode, { firstBytes, lookupBytesUp, lookupBytesDown }]) => [
      mode,
      firstBytes + lookupBytesUp + lookupBytesDown,
    ]),
  )
}
