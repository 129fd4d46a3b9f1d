// The `keyhush-confidential` command: what an owner does with its list and its key, and an evaluator's server.

import { readFile } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import {
  address,
  addressOf,
  BuildError,
  closeWhenAsked,
  type GetArguments,
  get,
  Metrics,
  OperatorError,
  readableByAll,
  VALUE_ENCODINGS,
  type ValueEncoding,
  VERSION,
} from '@keyhush/server/beside'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import type { FastifyInstance } from 'fastify'
import { confidential } from '../client/confidential.js'
import { databaseNameOf } from '../wire/derive.js'
import { dev } from './dev.js'
import { type Authorized, createEvaluator } from './evaluator.js'
import { type Choices, createOwnerKey, readOwnerKey, readShare, recoverOwnerKey, reshare } from './files.js'
import { Meter } from './meter.js'
import { lineBefore, transform } from './transform.js'

/** A network, a /24 or a /48, has this many clients' limit: one party may have all of it. */
const CLIENTS_OF_NETWORK = 8

const count = (text: string): number => {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('expected a whole number')
  return Number(text)
}
const counted = (flags: string, help: string) => new Option(flags, help).argParser(count)
const keyOption = () => new Option('--key <file>', "the owner's key file").makeOptionMandatory()
const encodingOption = (of = 'of the values in the file') =>
  new Option('--value-encoding <encoding>', `encoding ${of}`).choices(VALUE_ENCODINGS).default('utf8')

const program = new Command('keyhush-confidential')
  .description('Confidential databases: who may ask may guess. Limits, or permission to ask, make guesses expensive.')
  .version(VERSION)
  .exitOverride()

program
  .command('keygen')
  .description("make an owner's key, and a share for each evaluator; print the evaluation key, which apps pin")
  .addOption(counted('--value-bytes <n>', 'longest value of the list, in bytes').makeOptionMandatory())
  .addOption(counted('--evaluators <n>', 'how many evaluators there are').default(2))
  .addOption(counted('--at-least <n>', 'how many of them suffice (default: all)'))
  .option('--priced', 'anybody who may evaluate learns which keys are in the list, and pays for each value')
  .requiredOption('--out <file>', 'the key file to make; shares are written beside it')
  .action(async ({ out, evaluators, atLeast = evaluators, ...choices }: Choices & { readonly out: string }) => {
    await createOwnerKey(out, { ...choices, evaluators, atLeast })
    await say(out)
  })

interface TransformArguments {
  readonly key: string
  readonly out: string
  readonly since?: string
  readonly allowDeletes?: number
  readonly valueEncoding: ValueEncoding
}
const sinceOption = () => new Option('--since <file>', 'the list before: what differs becomes a batch of changes')

program
  .command('transform <file>')
  .description('make a list (csv, tsv, txt, jsonl) or a batch of changes (jsonl with op) confidential')
  .addOption(keyOption())
  .addOption(encodingOption())
  .addOption(sinceOption())
  .addOption(counted('--allow-deletes <n>', 'with --since: allow so many deletes, if they are more than a tenth'))
  .requiredOption('--out <file>', 'a new file; publish this one, since another run makes another')
  .action(async (from: string, { key, out, ...how }: TransformArguments) => {
    await warnOf(key)
    const onProgress = (entries: number) => {
      if (process.stderr.isTTY) process.stderr.write(`\r${entries} entries`)
    }
    const { entries, what } = await transform({ ...how, from, to: out, key, onProgress })
    if (process.stderr.isTTY) process.stderr.write('\r')
    const next = `${what} of ${entries} entries; ${what === 'list' ? 'build' : 'publish'} it with --value-encoding base64`
    process.stderr.write(`keyhush-confidential: ${entries === 0 ? 'no changes, and no file' : next}\n`)
  })

program
  .command('line')
  .description('say which line of a file became this line of what transform made of it, when a server refuses that')
  .argument('<number>', 'of the line that was refused', count)
  .argument('<file>', 'what transform had')
  .addOption(keyOption())
  .addOption(encodingOption())
  .addOption(sinceOption())
  .action(async (number: number, from: string, { key, since, valueEncoding }: Omit<TransformArguments, 'out'>) => {
    const line = await lineBefore(number, { from, since, key, valueEncoding })
    process.stdout.write(`${line === undefined ? `a key of ${since} that ${from} lacks` : `${from}:${line}`}\n`)
  })

program
  .command('reshare')
  .description('deal new shares of the same key; evaluators serve old and new ones until all have the new')
  .addOption(keyOption())
  .addOption(counted('--evaluators <n>', 'how many evaluators there are (default: as before)'))
  .addOption(counted('--at-least <n>', 'how many of them suffice (default: as before)'))
  .action(async ({ key, ...choices }: Partial<Choices> & { key: string }) => {
    for (const name of await reshare(key, choices)) process.stdout.write(`${name}\n`)
  })

program
  .command('recover <shares...>')
  .description("make a lost owner's key of enough shares, and deal new ones")
  .addOption(counted('--evaluators <n>', 'how many evaluators there are (default: as before)'))
  .addOption(counted('--at-least <n>', 'how many of them suffice (default: as before)'))
  .requiredOption('--out <file>', 'the key file to make; shares are written beside it')
  .action(async (shares: string[], { out, ...choices }: Partial<Choices> & { out: string }) => {
    await recoverOwnerKey(out, shares, choices)
    await say(out)
  })

interface ServeArguments {
  readonly share: readonly string[]
  readonly port: number
  readonly host: string
  readonly perClientDay: number
  readonly perNetworkDay?: number
  readonly totalDay: number
  readonly countIn: string
  readonly trustProxy?: string
  readonly allowOrigin?: readonly string[]
  readonly authorize?: string
  readonly authorizeUnlock?: string
  readonly metrics?: { readonly host: string; readonly port: number }
  readonly drainSeconds: number
  readonly logLevel: string
}

program
  .command('serve')
  .description('evaluate keys with a share, within limits')
  .addOption(
    new Option('--share <files...>', 'the share; also the old one, while shares are replaced').makeOptionMandatory(),
  )
  .addOption(counted('--per-client-day <n>', 'elements a day for one client; a lookup has two').makeOptionMandatory())
  .addOption(counted('--per-network-day <n>', `for a /24 or a /48 (default: ${CLIENTS_OF_NETWORK} clients')`))
  .addOption(counted('--total-day <n>', 'elements a day for all clients').makeOptionMandatory())
  .addOption(new Option('--count-in <file>', 'file that keeps what all have used today').makeOptionMandatory())
  .option(
    '--authorize <module>',
    'module whose default export says who may evaluate: (token, elements) => name or undefined',
  )
  .option('--authorize-unlock <module>', 'the same for a priced list: who has paid for one value')
  .addOption(counted('--port <n>', 'port; 0: a free one').default(8090))
  .option('--host <address>', 'address to listen on', '127.0.0.1')
  .option('--trust-proxy <addresses>', 'proxies whose X-Forwarded-For counts, such as loopback')
  .option('--allow-origin <origins...>', 'web origins whose pages may ask (default: any)')
  .option('--metrics <[host:]port>', 'port of its own for Prometheus (/metrics) and for health checks', address)
  .addOption(counted('--drain-seconds <n>', 'how long /readyz says no before it stops').default(5))
  .option('--log-level <level>', 'level of the log on standard error', 'warn')
  .action(async (options: ServeArguments) => {
    const { perClientDay, perNetworkDay = CLIENTS_OF_NETWORK * perClientDay, totalDay, countIn } = options
    let [app, figures]: (FastifyInstance | undefined)[] = []
    closeWhenAsked(
      () => app,
      async () => await figures?.close(),
      options.drainSeconds,
    )
    for (const file of options.share) await warnOf(file)
    const shares = await Promise.all(options.share.map(readShare))
    const meter = await Meter.open({ perClientDay, perNetworkDay, totalDay, countIn })
    const [authorize, authorizeUnlock] = await Promise.all(
      [options.authorize, options.authorizeUnlock].map(module =>
        module === undefined ? module : authorizedBy(module),
      ),
    )
    const metrics = options.metrics && new Metrics()
    app = await createEvaluator({
      ...{
        shares,
        meter,
        authorize,
        authorizeUnlock,
        metrics,
        trustProxy: options.trustProxy,
        allowOrigins: options.allowOrigin,
      },
      log: { level: options.logLevel, stream: process.stderr },
    })
    figures = await metrics?.server(app.getDecorator('readiness'))
    await figures?.listen(options.metrics)
    await app.listen({ host: options.host, port: options.port })
    if (figures) process.stderr.write(`keyhush-confidential: figures at ${addressOf(figures)}/metrics\n`)
    process.stdout.write(`listening on ${addressOf(app)}\n`)
  })

const urls = (text: string): string[] => text.split(',')

interface GetConfidentialArguments extends GetArguments {
  readonly evaluationKey: string
  readonly evaluators?: readonly string[]
  readonly atLeast?: number
  readonly token?: string
  readonly priced?: boolean
}

program
  .command('get [keys...]')
  .description('look keys up, as `keyhush get` does')
  .requiredOption('--servers <a,b>', 'base URLs of the servers', urls)
  .option('--evaluators <a,b>', 'base URLs of the evaluators (default: the servers)', urls)
  .requiredOption('--evaluation-key <key>', "the owner's public key: 64 hexadecimal digits")
  .addOption(counted('--at-least <n>', 'how many evaluators suffice (default: all)'))
  .option('--token <file>', 'file with a token (all its bytes), for evaluators that demand one')
  .option('--priced', 'the list is priced: say which keys are there, with an empty value')
  .option('--publisher-key <key>', 'accept only what this key signed: 64 hex digits or a file of them')
  .option('--witnesses <file>', 'with --publisher-key: policy; accept only what enough of its witnesses have seen')
  .option('--stdin', 'read keys from standard input, one a line')
  .option('--json', 'print lines of JSON, as `keyhush get`')
  .addOption(encodingOption('that values are printed in'))
  .action(async (keys: string[], options: GetConfidentialArguments) => {
    status.failed = 2
    const { servers, evaluators = servers, evaluationKey, atLeast, token, priced } = options
    const bytes = token === undefined ? undefined : new Uint8Array(await readFile(token))
    const authorize = bytes && (() => bytes)
    const unlock = priced ? { authorize: () => new Uint8Array() } : undefined // which is never called
    const wanted = { evaluationKey, evaluators, atLeast, authorize, unlock }
    status.done = await get(keys, options, map => confidential(map, wanted))
  })

program
  .command('dev <file>')
  .description('serve a list on this machine, with two evaluators, for app developers')
  .addOption(encodingOption())
  .addOption(counted('--value-bytes <n>', 'longest value of the list, in bytes').default(64))
  .action(dev)

async function say(file: string): Promise<void> {
  const { evaluationKey, unlockKey } = await readOwnerKey(file)
  const name = databaseNameOf(evaluationKey, unlockKey !== undefined)
  process.stdout.write(`evaluation key: ${evaluationKey}\ndatabase name:  ${name}\n`)
}

async function warnOf(file: string): Promise<void> {
  const warning = await readableByAll(file).catch(() => undefined)
  if (warning !== undefined) process.stderr.write(`keyhush-confidential: ${warning}\n`)
}

async function authorizedBy(module: string): Promise<Authorized> {
  const { default: authorize } = (await import(pathToFileURL(module).href)) as { default?: Authorized }
  if (typeof authorize === 'function') return authorize
  throw new BuildError('expected a module whose default export is a function, got none; see --authorize', module)
}

/** Of `run`. */
let status = { done: 0, failed: 1 }

/** Returns the exit status. */
export async function run(args: readonly string[]): Promise<number> {
  status = { done: 0, failed: 1 }
  try {
    await program.parseAsync(args, { from: 'user' })
    return status.done
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode // commander has printed it
    // An operator's mistake is one sentence. Anything else is a fault of ours, whose stack helps.
    const isExpected = error instanceof OperatorError || (error as NodeJS.ErrnoException).syscall !== undefined
    const { message, stack } = error as Error
    process.stderr.write(`keyhush-confidential: ${isExpected ? message : stack}\n`)
    return status.failed
  }
}
