// What clients download, as a folder for a static host: files named by their hash, at the path they have at a server. A file never
// changes, so that the folder can be copied, cached and brought on at any time; clients check all of it.

import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { equalBytes, fromHex, type Manifest, toHex } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { PublishError } from './errors.js'
import { blobsOf, checkSigned, type ExportOptions } from './export.js'
import { PublishedServer } from './server.js'

const PATH = join('v1', 'blobs')

/** What this has written, or was about to. */
const NAME = /^[0-9a-f]{64}(\.new)?$/

/** What was done to the folder, in files. */
export interface BlobsSummary {
  readonly written: number
  readonly kept: number
  readonly removed: number
}

/**
 * Brings `out` to what the newest epoch of a server takes to download, and the update lists of the epochs before that it still
 * tells of. `prune`: nothing else stays. Throws PublishError; what is there then is right, and may lack something.
 */
export async function exportBlobs(
  options: Omit<ExportOptions, 'force'> & { readonly prune?: boolean | undefined },
): Promise<BlobsSummary> {
  const { blake3 } = await loadCore()
  const server = new PublishedServer(options.server, options.name)
  const folder = join(options.out, PATH)
  await mkdir(folder, { recursive: true })
  const newest = await server.newest()
  await checkSigned(server, newest, options.publisherKey)
  const wanted = new Map<string, number>()
  for (const { hash, length } of blobsOf(newest.manifest)) wanted.set(toHex(hash), length)
  for (const { updateListHash, updateListBytes } of await before(server, newest.manifest)) {
    if (updateListBytes > 0) wanted.set(toHex(updateListHash), updateListBytes)
  }
  let written = 0
  for (const [i, [hash, length]] of [...wanted].entries()) {
    const path = join(folder, hash)
    const there = await readFile(path).catch(() => undefined)
    if (there === undefined || !equalBytes(blake3(there), fromHex(hash))) {
      const blob = await server.blob(hash, length)
      if (!equalBytes(blake3(blob), fromHex(hash))) {
        throw new PublishError(`${server.name}: the blob ${hash} is not what its name says`)
      }
      await writeFile(`${path}.new`, blob)
      await rename(`${path}.new`, path)
      written++
    }
    options.onProgress?.({ stage: 'writing', done: i + 1, total: wanted.size })
  }
  const others =
    options.prune === true ? (await readdir(folder)).filter(file => NAME.test(file) && !wanted.has(file)) : []
  for (const file of others) await rm(join(folder, file))
  return { written, kept: wanted.size - written, removed: others.length }
}

/** The manifests before one, as far back as a server tells. */
async function before(server: PublishedServer, newest: Manifest): Promise<Manifest[]> {
  const manifests: Manifest[] = []
  for (let { generation, epoch } = newest; epoch > 1; epoch--) {
    const known =
      (await server.manifestIfKnown(generation, epoch - 1)) ??
      (generation > 1 ? await server.manifestIfKnown(generation - 1, epoch - 1) : undefined)
    if (known === undefined) break
    manifests.push(known.manifest)
    generation = known.manifest.generation
  }
  return manifests
}
