// What the page has to know of a database: to draw to scale what servers are asked, and what each mode moves.

import { estimate } from '@keyhush/client'
import { decodeManifest, partitionBlocks } from '@keyhush/protocol'
import type { DatabaseName } from '../page/backstage.js'

export interface Shape {
  /** M, or with blocks of several records as many as there are of those */
  readonly partitionRecords: number
  /** Q·M */
  readonly slots: number
}

/** Of a database at a server; undefined: it has none of that name. Throws for anything else that is not a manifest. */
export async function readShape(server: string, database: DatabaseName): Promise<Shape | undefined> {
  const response = await fetch(`${server}/${database}/v1/manifest`)
  if (response.status === 404) return undefined
  if (!response.ok) throw new Error(`${response.url}: ${response.status}`)
  const manifest = decodeManifest(new Uint8Array(await response.arrayBuffer()))
  const partitionRecords = partitionBlocks(manifest)
  return { partitionRecords, slots: manifest.partitions * partitionRecords }
}

/** By mode: bytes of bodies, of all servers that are asked, until a first answer. */
export async function readFirstBytes(servers: readonly [string, string], database: DatabaseName) {
  const [a, b] = servers.map(server => `${server}/${database}`) as [string, string]
  const [one, both] = await Promise.all([estimate([a]), estimate([a, b])])
  const costs = Object.entries({ ...one.modes, ...both.modes })
  return Object.fromEntries(
    costs.map(([mode, { firstBytes, lookupBytesUp, lookupBytesDown }]) => [
      mode,
      firstBytes + lookupBytesUp + lookupBytesDown,
    ]),
  )
}
