// `pirouette publish` and `pirouette keygen`: what a publisher runs.

import { readFile } from 'node:fs/promises'
import { type BatchEncoding, toHex } from '@pirouette/protocol'
import { PublishError } from '../publisher/errors.js'
import { createKeyFile, readableByAll, readKeyFile, readToken } from '../publisher/files.js'
import { publish as publishBatch } from '../publisher/publish.js'
import { PublisherRecord } from '../publisher/record.js'

/** The options of `publish` as commander gives them. */
export interface PublishArguments {
  readonly servers: string
  readonly tokenFile?: string[]
  readonly key?: string
  readonly record?: string
  readonly trustBase?: string
  readonly valueEncoding?: BatchEncoding
  readonly expires?: number
  readonly validDays?: number
  readonly generation: boolean
  readonly headroom?: number
}

const DAY_SECONDS = 24 * 60 * 60

export async function publish(file: string | undefined, options: PublishArguments): Promise<void> {
  const servers = options.servers.split(',').map(url => url.trim())
  const [first, second] = servers
  if (first === undefined || second === undefined || servers.length !== 2) {
    throw new PublishError('--servers: expected two URLs with a comma between them')
  }
  const { validDays, key } = options
  const recordFile = options.record ?? (key === undefined ? undefined : `${key}.record`)
  if (recordFile === undefined) throw new PublishError('--record: without a key, say where to keep what was published')
  const summary = await publishBatch({
    servers: [first, second],
    tokens: await readTokens([first, second], options.tokenFile ?? []),
    operations: file === undefined ? undefined : await readFile(file),
    encoding: options.valueEncoding,
    expires: validDays === undefined ? options.expires : Math.floor(Date.now() / 1000) + validDays * DAY_SECONDS,
    key: key === undefined ? undefined : await readSecret(key, readKeyFile),
    record: await PublisherRecord.open(recordFile),
    trustBase: options.trustBase,
    generation: options.generation,
    headroom: options.headroom,
  })
  const lines = {
    epoch: `${summary.epoch} of generation ${summary.generation}`,
    changes: `${summary.changes}${file !== undefined && summary.repeated ? ' (published before)' : ''}`,
    'manifest hash': summary.manifestHash,
    signed: key === undefined ? 'no' : 'yes',
    ...(summary.growth !== undefined && {
      'new generation': `${summary.began ? 'begun' : 'due, and not begun (--no-generation)'}: ${summary.growth}`,
    }),
  }
  process.stdout.write(
    Object.entries(lines)
      .map(([name, value]) => `${name}: ${value}\n`)
      .join(''),
  )
}

/** Each token by the URL of its server, so that none goes to the other one by a mistake in the order. */
async function readTokens(
  servers: readonly [string, string],
  given: readonly string[],
): Promise<[string | undefined, string | undefined]> {
  const tokens: [string | undefined, string | undefined] = [undefined, undefined]
  for (const each of given) {
    const at = servers.findIndex(url => each.startsWith(`${url}=`)) as 0 | 1 | -1
    if (at === -1 || tokens[at] !== undefined) {
      throw new PublishError(`--token-file ${each}: expected URL=FILE, once for each URL of --servers`)
    }
    tokens[at] = await readSecret(each.slice(servers[at].length + 1), readToken)
  }
  return tokens
}

async function readSecret<T>(file: string, read: (file: string) => Promise<T>): Promise<T> {
  const secret = await read(file)
  const warning = await readableByAll(file)
  if (warning !== undefined) process.stderr.write(`pirouette: warning: ${warning}\n`)
  return secret
}

export async function keygen({ out }: { readonly out: string }): Promise<void> {
  const { publicKey } = await createKeyFile(out)
  process.stdout.write(`public key: ${toHex(publicKey)}\n`)
}
