// `keyhush log`: makes the log that `publish --log` adds epochs to.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeManifest } from '@keyhush/protocol'
import { readingFrom } from '../base/errors.js'
import { PublisherLog } from '../publisher/log.js'

export async function log(
  name: string,
  { dataset, out }: { readonly dataset: string; readonly out: string },
): Promise<void> {
  const file = join(dataset, 'manifest.bin')
  const bytes = await readFile(file)
  const { databaseId } = await readingFrom(file, () => decodeManifest(bytes))
  process.stdout.write(`${await PublisherLog.create(out, name, databaseId)}\n`)
}
