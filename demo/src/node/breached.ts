// The two operators of the page *Check a password*, each with a server and an evaluator, for the confidential list of breached passwords.
// The page has them started. It also shows what stands on the disk of one.

import { mkdtemp, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readShare } from '@keyhush/confidential/server'
import { decodeManifest } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { type Breached, SHOWN_PASSWORD, type StoredRow } from '../page/backstage.js'
import { breachedFolder } from './data.js'
import { confidentialCommand } from './paths.js'
import type { Publisher } from './publisher.js'
import { type RunningServer, startServer } from './servers.js'

/** Elements a day: enough to try things out. */
const LIMIT = '1000000'

type Operator = Readonly<Record<'server' | 'evaluator', string>>

export interface RunningBreached {
  readonly operators: Readonly<Record<'A' | 'B', Operator>>
  readonly shown: Breached
  /** of server A */
  readonly store: string
  close(): Promise<void>
}

/** As docs/operations/confidential.md says. `folder`: of this run. */
export async function startBreached(folder: string, publisher: Publisher): Promise<RunningBreached> {
  const own = await mkdtemp(join(folder, 'breached-')) // another try finds nothing of this one
  const [dataset, share] = [
    join(breachedFolder, 'dataset'),
    (number: number) => join(breachedFolder, `share-${number}`),
  ]
  const running: RunningServer[] = []
  const close = async () => {
    await Promise.all(running.map(each => each.close()))
  }
  const started = async (args: readonly string[], command?: string) => {
    const server = await startServer(args, command)
    running.push(server)
    return server.url
  }
  const operator = async (number: number): Promise<Operator> => {
    const store = join(own, `store-${number}`)
    const mounted = ['--dataset', `breached=${dataset}`, '--store', `breached=${store}`, '--no-blobs']
    const limits = ['--per-client-day', LIMIT, '--total-day', LIMIT, '--count-in', join(own, `count-${number}`)]
    return {
      server: await started([...mounted, '--publisher-key', publisher.publicKey]),
      evaluator: await started(['--share', share(number), ...limits], confidentialCommand),
    }
  }
  try {
    const both = await Promise.allSettled([operator(1), operator(2)])
    const [A, B] = both.map(each => {
      if (each.status === 'rejected') throw each.reason
      return each.value
    }) as [Operator, Operator]
    await publisher.sign({ A: A.server, B: B.server }, 'breached')
    const store = join(own, 'store-1')
    const { evaluationKey } = await readShare(share(1))
    const [plain, sealed] = await Promise.all([
      rowIn(join(breachedFolder, 'plain'), join(breachedFolder, 'plain'), SHOWN_PASSWORD),
      rowIn(store, dataset, await sealedKey()),
    ])
    return { operators: { A, B }, shown: { evaluationKey, plain, sealed }, store, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Under which key the list has SHOWN_PASSWORD. Only its owner, or both evaluators together, can make it. */
async function sealedKey(): Promise<string> {
  const [, row] = (await readFile(join(breachedFolder, 'row.csv'), 'utf8')).split('\n')
  return row!.split(',')[0]!
}

/** The bytes of the record with this key, as they stand in a file of `folder`. `dataset`: what it was made of. */
async function rowIn(folder: string, dataset: string, key: string): Promise<StoredRow> {
  const { recordBytes } = decodeManifest(await readFile(join(dataset, 'manifest.bin')))
  const fingerprint = (await loadCore()).fingerprint(Buffer.from(key))
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const bytes = await readFile(join(entry.parentPath, entry.name))
    const at = bytes.indexOf(fingerprint)
    if (at === -1) continue
    return { file: entry.name, at, hex: bytes.toString('hex', at, at + recordBytes) }
  }
  throw new Error(`${folder} lacks the record to show`)
}
