// `pirouette serve`: load, listen, and stop in good order. stdout gets one line, the address; the log goes to stderr.

import { mkdtempSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import closeWithGrace from 'close-with-grace'
import type { FastifyInstance } from 'fastify'
import { buildDataset } from '../dataset/build.js'
import { BuildError } from '../dataset/errors.js'
import { loadDataset } from '../dataset/load.js'
import { describeError } from '../plugins/errors.js'
import { createServer, type MountedDataset } from '../server.js'
import type { BuildArguments } from './build.js'
import { withProgress } from './progress.js'

/** How long what is under way may take after SIGTERM or SIGINT; a slow download is then cut off, to be resumed. */
const DRAIN_MILLISECONDS = 10_000

/** What `--trust-proxy` without a value trusts. */
const PRIVATE_ADDRESSES = 'loopback,linklocal,uniquelocal'

/** The options of `serve` as commander gives them. */
export type ServeArguments = Partial<Omit<BuildArguments, 'out' | 'force'>> & {
  readonly dataset?: string[]
  readonly port: number
  readonly host: string
  readonly allowOrigin: string[]
  readonly trustProxy?: string | true
  readonly rateLimit: number
  readonly logLevel: string
}

export async function serve(options: ServeArguments): Promise<void> {
  let app: FastifyInstance | undefined
  closeWhenAsked(() => app)
  const datasets = await mountAll(options)
  app = await createServer({
    datasets,
    allowOrigins: options.allowOrigin,
    trustProxy: options.trustProxy === true ? PRIVATE_ADDRESSES : options.trustProxy,
    rateLimit: options.rateLimit,
    log: { level: options.logLevel, stream: process.stderr },
  })
  await app.listen({ host: options.host, port: options.port })
  process.stdout.write(`listening on ${addressOf(app)}\n`)
}

async function mountAll(options: ServeArguments): Promise<MountedDataset[]> {
  const named = (options.dataset ?? []).map(parseMount)
  if (options.data !== undefined)
    named.push({ name: undefined, dir: await buildTemporary({ ...options, data: options.data }) })
  if (named.length === 0) throw new BuildError('give --dataset or --data: there is nothing to serve')
  const mounted: MountedDataset[] = []
  for (const { name, dir } of named) {
    mounted.push({ name, dataset: await withProgress(onProgress => loadDataset(dir, onProgress)) })
  }
  return mounted
}

/** `NAME=DIR` or `DIR`. A directory whose own name has a `=` is given as `./a=b`. */
function parseMount(argument: string): { name: string | undefined; dir: string } {
  const [, name, dir] = /^([^=/\\]+)=(.+)$/s.exec(argument) ?? []
  return name === undefined || dir === undefined ? { name: undefined, dir: argument } : { name, dir }
}

/** Builds `--data` into a directory that goes when the process does. */
async function buildTemporary(options: ServeArguments & { data: string }): Promise<string> {
  const parent = mkdtempSync(join(tmpdir(), 'pirouette-'))
  process.once('exit', () => rmSync(parent, { recursive: true, force: true }))
  const { data, format, recordBytes, valueEncoding, partitions, maxValueBytes, name } = options
  const out = join(parent, 'dataset')
  const choices = { data, format, recordBytes, valueEncoding, partitions, maxValueBytes, name, out }
  await withProgress(onProgress => buildDataset({ ...choices, onProgress }))
  return out
}

/**
 * SIGTERM and SIGINT: nothing new is answered, what is under way is finished, exit 0. A fault in our code: exit 1.
 * Installed before there is a server, for loading one takes a while and no signal may be lost.
 */
function closeWhenAsked(running: () => FastifyInstance | undefined): void {
  closeWithGrace({ delay: 2 * DRAIN_MILLISECONDS, logger: false, skip: ['beforeExit'] }, async ({ err, signal }) => {
    const app = running()
    if (app === undefined) {
      if (err !== undefined) process.stderr.write(`pirouette: ${err.stack ?? err}\n`)
      return
    }
    if (err !== undefined) app.log.error(describeError(err), 'an error nobody caught')
    else app.log.info(`closing: ${signal}`)
    setTimeout(() => app.server.closeAllConnections(), DRAIN_MILLISECONDS)
    await app.close()
  })
}

function addressOf(app: FastifyInstance): string {
  const { address, family, port } = app.server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
