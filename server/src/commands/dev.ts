// `keyhush dev`: two servers and a publisher on this machine, for app developers. Each server has a store of its own and accepts
// only what the publisher signed, as in production.

import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { toHex } from '@keyhush/protocol'
import type { FastifyInstance } from 'fastify'
import { BoundedLog } from '../base/bounded-log.js'
import type { UpdatableDatabase } from '../database/updatable.js'
import { buildDataset } from '../dataset/build.js'
import { createServer } from '../http/server.js'
import { createKeyFile, readKeyFile } from '../publisher/files.js'
import { publish } from '../publisher/publish.js'
import { PublisherRecord } from '../publisher/record.js'
import type { BuildArguments } from './build.js'
import { withProgress } from './progress.js'
import { addressOf, closeWhenAsked, orClose } from './serve.js'
import { openStore } from './store.js'

/** The options of `dev` as commander gives them. */
export type DevArguments = Pick<BuildArguments, 'format' | 'recordBytes' | 'valueEncoding' | 'maxValueBytes'> & {
  readonly folder?: string
  readonly ports: readonly [number, number]
  readonly allowOrigin?: string[]
  readonly logLevel: string
}

export async function dev(data: string, options: DevArguments): Promise<void> {
  const apps: FastifyInstance[] = []
  const databases: UpdatableDatabase[] = []
  const closeDatabases = async () => {
    for (const database of databases) await database.close()
  }
  closeWhenAsked(() => apps, closeDatabases)
  const { folder: kept, ports, allowOrigin = ['localhost'], logLevel, ...choices } = options
  const temporary = mkdtempSync(join(tmpdir(), 'keyhush-dev-'))
  process.once('exit', () => rmSync(temporary, { recursive: true, force: true }))
  const folder = kept ?? temporary
  mkdirSync(folder, { recursive: true })

  const keyFile = join(folder, 'publisher.key')
  const key = existsSync(keyFile) ? await readKeyFile(keyFile) : await createKeyFile(keyFile)
  const record = await PublisherRecord.open(`${keyFile}.record`)
  const built = join(temporary, 'built', basename(data)) // messages name it
  const { databaseId, manifest, manifestHash } = await withProgress(onProgress =>
    buildDataset({ ...choices, data, out: built, onProgress }),
  )
  await record.addManifest({ databaseId, epoch: manifest.epoch, hash: manifestHash })

  await orClose(apps, closeDatabases, async () => {
    for (const [i, port] of ports.entries()) {
      const database = await openStore(join(folder, i === 0 ? 'a' : 'b'), built)
      databases.push(database)
      const app = await createServer({
        datasets: [{ updatable: database, publisherKeys: [key.publicKey] }],
        allowOrigins: allowOrigin,
        log: { level: logLevel, stream: new BoundedLog(process.stderr) },
      })
      apps.push(app)
      await app.listen({ host: '127.0.0.1', port })
    }
    const [a, b] = apps.map(addressOf) as [string, string]
    await publish({ servers: [a, b], key, record })
    process.stdout.write(paste(a, b, toHex(key.publicKey), kept, keyFile))
  })
}

function paste(a: string, b: string, publisherKey: string, kept: string | undefined, keyFile: string): string {
  const again = 'key, addresses and what was published are others the next time'
  return `Two servers on this machine, until Ctrl-C. Paste into an app:

import { open } from '@keyhush/client'

const map = await open({
  servers: ['${a}', '${b}'],
  publisherKey: '${publisherKey}',
})

To change what they serve, write operations into a file (docs/operations.md, A database that changes), and

npx keyhush publish --servers ${a},${b} --key ${keyFile} changes.jsonl
${kept === undefined ? `\nNothing of it is kept: ${again}, unless you begin with --folder DIR --ports 8801,8802.\n` : ''}`
}
