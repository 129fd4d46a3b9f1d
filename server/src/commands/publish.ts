// `pirouette publish` and `pirouette keygen`: what a publisher runs.

import { readFile } from 'node:fs/promises'
import { type BatchEncoding, toHex } from '@pirouette/protocol'
import { PublishError } from '../publisher/errors.js'
import { createKeyFile, readKeyFile, readToken } from '../publisher/files.js'
import { publish as publishBatch } from '../publisher/publish.js'

/** The options of `publish` as commander gives them. */
export interface PublishArguments {
  readonly servers: string
  readonly tokenFile: string
  readonly key?: string
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
  const { validDays } = options
  const summary = await publishBatch({
    servers: [first, second],
    token: await readToken(options.tokenFile),
    operations: file === undefined ? undefined : await readFile(file),
    encoding: options.valueEncoding,
    expires: validDays === undefined ? options.expires : Math.floor(Date.now() / 1000) + validDays * DAY_SECONDS,
    key: options.key === undefined ? undefined : await readKeyFile(options.key),
    generation: options.generation,
    headroom: options.headroom,
  })
  const lines = {
    epoch: `${summary.epoch} of generation ${summary.generation}`,
    changes: `${summary.changes}${file !== undefined && summary.repeated ? ' (published before)' : ''}`,
    'manifest hash': summary.manifestHash,
    signed: options.key === undefined ? 'no' : 'yes',
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

export async function keygen({ out }: { readonly out: string }): Promise<void> {
  const { publicKey } = await createKeyFile(out)
  process.stdout.write(`public key: ${toHex(publicKey)}\n`)
}
