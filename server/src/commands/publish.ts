// `keyhush publish` and `keyhush keygen`: what a publisher runs.

import { existsSync } from 'node:fs'
import { type BatchEncoding, MAX_SERVERS, toHex } from '@keyhush/protocol'
import { PublishError } from '../base/errors.js'
import { readLines } from '../dataset/ingest/lines.js'
import { createServer } from '../http/server.js'
import { RENEWAL } from '../publisher/batches.js'
import { createKeyFile, type KeyPair, readableByAll, readKeyFile } from '../publisher/files.js'
import { checkFolder, checkHost, writeFolder } from '../publisher/folder.js'
import { PublisherLog } from '../publisher/log.js'
import { type PublishOptions, type PublishSummary, publish as publishBatch, type Step } from '../publisher/publish.js'
import { PublisherRecord } from '../publisher/record.js'
import { storageKind } from '../storage/kinds.js'
import { type Printed, printSummary } from './progress.js'
import { checkListOptions, type ListArguments, publishNewList } from './publish-list.js'
import { openStore } from './store.js'

/** The options of `publish` as commander gives them. */
export interface PublishArguments extends ListArguments {
  readonly servers?: string
  readonly folder?: string
  readonly url?: string
  readonly store?: string
  readonly dataset?: string
  readonly key: readonly [string, ...string[]]
  readonly record?: string
  readonly trustBase?: string
  readonly log?: string
  readonly valueEncoding?: BatchEncoding
  readonly validDays?: number
  readonly expiry: boolean
  readonly generation: boolean
  readonly again?: boolean
}

const DAY_SECONDS = 24 * 60 * 60

const LINE_FEED = Buffer.from('\n')

const NO_EXPIRY =
  '--folder: expected --valid-days, got none: until it expires, a first visitor can be shown an old epoch; give the days, for ' +
  'example 7, and run it again before they are over, or give --no-expiry'

/** A step that takes longer is named. */
const LONG_MILLISECONDS = 3000

export async function publish(file: string | undefined, options: PublishArguments): Promise<void> {
  checkListOptions(file, options)
  const { key: files, store, dataset, validDays, folder } = options
  const servers = serversOf(options)
  if (servers.includes('') || servers.length > MAX_SERVERS) {
    throw new PublishError(
      `--servers: expected one URL, or up to ${MAX_SERVERS} with commas between, got ${servers.length}; see --help`,
    )
  }
  const keys = await Promise.all(files.map(readKeyFile))
  for (const warning of await Promise.all(files.map(readableByAll))) {
    if (warning !== undefined) process.stderr.write(`keyhush: warning: ${warning}\n`)
  }
  // A folder needs no batch to get a new expiry.
  const renews = folder !== undefined && file === undefined && options.list === undefined && validDays !== undefined
  const operations = renews ? RENEWAL : file === undefined ? undefined : await readBatch(file)
  const record = await PublisherRecord.open(options.record ?? `${files[0]}.record`)
  if (options.dryRun && store !== undefined && !storageKind(store).isShared && !existsSync(store)) {
    throw new PublishError(`${store}: expected your own copy, got none; run it once without --dry-run, which makes one`)
  }
  const log = options.log === undefined || options.dryRun ? undefined : await PublisherLog.open(options.log)
  const own = await openOwnCopy(servers, store, options.dryRun ? undefined : dataset, keys).catch(error => {
    log?.close()
    throw error
  })
  const steps = longSteps()
  const common: PublishOptions = {
    servers: own ? [...servers, own.url] : servers,
    own: own !== undefined,
    names: own && [...servers, `your own copy (${store})`],
    expires: validDays === undefined ? undefined : Math.floor(Date.now() / 1000) + validDays * DAY_SECONDS,
    key: keys,
    record,
    log,
    trustBase: options.trustBase,
    generation: options.generation,
    signsForever: folder === undefined || !options.expiry,
    onStep: steps.begin,
  }
  let printed: Printed
  try {
    if (folder !== undefined) {
      const copy = own!.updatable
      const changes = operations !== undefined || options.list !== undefined
      const expires = changes ? validDays : copy.newest.manifest.expires
      if (options.expiry && !expires) throw new PublishError(NO_EXPIRY)
      await checkFolder(folder, copy, options.log === undefined ? files : [...files, options.log])
      if (options.url !== undefined) await checkHost(options.url, copy)
      const signed = await copy.signaturesOf(copy.newest.manifest.epoch)
      if (signed.length > 0 && !signed.some(of => keys.some(({ publicKey }) => toHex(publicKey) === of.publicKey))) {
        process.stderr.write(
          `keyhush: warning: ${files[0]}: expected a key that signed epoch ${signed[0]!.epoch}, got another; maps that know only ` +
            'the old one stay there: give both with --key, unless the old one was stolen\n',
        )
      }
    }
    if (options.list === undefined) {
      const { again, valueEncoding: encoding } = options
      const summary = await publishBatch({ ...common, operations, again, encoding })
      const repeated = file !== undefined && summary.repeated ? ' (published before)' : ''
      printed = described(summary, { changes: `${summary.changes}${repeated}` })
    } else {
      const { counts, published } = await publishNewList(options.list, common, options, steps.end)
      printed = published ? described(published, counts) : counts
    }
    if (folder !== undefined && !options.dryRun) await writeFolder(folder, own!.updatable)
  } catch (error) {
    // It is published, for apps that demand no witnesses.
    if (folder !== undefined && error instanceof PublishError && error.exit === 75)
      await writeFolder(folder, own!.updatable)
    throw error
  } finally {
    steps.end()
    log?.close()
    await own?.close()
  }
  printSummary(printed)

  function described(summary: PublishSummary, counts: Printed): Printed {
    return {
      epoch: `${summary.epoch} of generation ${summary.generation}`,
      ...counts,
      'manifest hash': summary.manifestHash,
      ...(summary.caughtUp > 0 && { 'caught up': `${summary.caughtUp} epochs` }),
      ...(summary.growth !== undefined && {
        'new generation': `${summary.began ? 'begun' : notBegun(options)}: ${summary.growth}`,
      }),
    }
  }
}

/** The operations of a file as servers take them: each line ends with a line feed, and nothing stands before the first. */
async function readBatch(file: string): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  for await (const lines of readLines(file)) {
    for (const [line] of lines) parts.push(line, LINE_FEED)
  }
  return Buffer.concat(parts)
}

/** None: a folder takes their place. */
function serversOf({ servers, folder, url }: PublishArguments): readonly string[] {
  if ((servers === undefined) === (folder === undefined)) {
    const came = servers === undefined ? 'none' : 'both'
    throw new PublishError(`--servers, --folder: expected one of them, got ${came}; see --help`)
  }
  if (url !== undefined && folder === undefined)
    throw new PublishError('--url: expected --folder too, got none; give the folder, or leave --url out')
  return servers?.split(',').map(url => url.trim()) ?? []
}

/** Names steps that take long, on stderr. */
function longSteps() {
  let timer: NodeJS.Timeout | undefined
  const end = () => clearTimeout(timer)
  const begin = (step: Step) => {
    end()
    timer = setTimeout(() => process.stderr.write(`keyhush: still at the step "${step}"\n`), LONG_MILLISECONDS)
  }
  return { begin, end }
}

function notBegun({ generation }: PublishArguments): string {
  return generation ? 'due; build it with keyhush build --succeeds' : 'due, but not begun (--no-generation)'
}

/**
 * Publishing at one server, or in a folder: this process serves the publisher's own copy to itself for as long as it publishes. What a batch makes of
 * the copy has to be what the server says, before the manifest is signed.
 */
export async function openOwnCopy(
  servers: readonly string[],
  store: string | undefined,
  dataset: string | undefined,
  keys: readonly KeyPair[],
) {
  if (servers.length > 1) {
    if (store === undefined && dataset === undefined) return undefined
    throw new PublishError(
      '--store, --dataset: expected one server, got several, which check one another; leave these options out',
    )
  }
  if (store === undefined) {
    const option =
      servers.length === 0 ? '--folder: expected --store with a folder' : '--servers: expected --store with one server'
    throw new PublishError(
      `${option}, got none; only your own copy can check what became of a batch. Give --store a directory for that copy, and the ` +
        'first time --dataset with the dataset that you built',
    )
  }
  const updatable = await openStore(store, dataset, { oneServer: false })
  try {
    await updatable.checkHint()
  } catch (error) {
    await updatable.close()
    throw error
  }
  const datasets = [{ updatable, publisherKeys: keys.map(({ publicKey }) => publicKey) }]
  const app = await createServer({ datasets, allowOrigins: [], instant: false, oneServer: false })
  const close = async () => {
    app.server.closeAllConnections()
    await app.close()
    await updatable.close()
  }
  const url = await app.listen({ host: '127.0.0.1', port: 0 }).catch(async error => {
    await close()
    throw error
  })
  return { url, updatable, close }
}

export async function keygen({ out }: { readonly out: string }): Promise<void> {
  const { publicKey } = await createKeyFile(out)
  printSummary({ 'public key': toHex(publicKey) })
}
