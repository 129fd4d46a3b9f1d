// What the page has to know of a database to draw to scale what servers are asked.

import { decodeManifest, partitionBlocks } from '@pirouette/protocol'
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
