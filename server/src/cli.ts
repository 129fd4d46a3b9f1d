// The `keyhush` command: what it understands. What it does is in commands/, each loaded when it is called.

import { isIP } from 'node:net'
import { getSystemErrorMap } from 'node:util'
import { PROOF_KINDS } from '@keyhush/protocol'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { OperatorError } from './base/errors.js'
import { VERSION } from './base/version.js'
import { FORMATS } from './dataset/ingest/index.js'
import { VALUE_ENCODINGS } from './dataset/ingest/values.js'
import { proofsPackage } from './dataset/proof-kinds.js'

const program = new Command('keyhush')
  .description('Private lookups: build a dataset from a file, and be one of the two servers that answer for it.')
  .version(VERSION)
  .exitOverride() // how it ended is for run() to say

/** What a data file is, and how its values are laid out. */
const dataOptions = () => [
  new Option('--format <format>', 'format of the data file (default: by its extension)').choices(FORMATS),
  new Option('--record-bytes <n>', 'bin: bytes of one record').argParser(wholeNumber),
  new Option('--value-encoding <encoding>', 'csv, tsv, jsonl: how values are written (default: utf8)').choices(
    VALUE_ENCODINGS,
  ),
  new Option('--max-value-bytes <n>', 'leave room for values up to this length (default: the longest)').argParser(
    wholeNumber,
  ),
]

const layoutOptions = () => [
  new Option('--partitions <q>', 'number of partitions (default: chosen from the size)').argParser(wholeNumber),
  new Option('--pack <g>', 'records a block: hints of less memory, longer answers (default: 1)').argParser(wholeNumber),
  new Option('--headroom <n>', 'plan for this many records more, for updates to fill (default: 0)').argParser(
    wholeNumber,
  ),
  new Option(
    '--proofs <kind>',
    'merkle: commit to partitions, so that clients choose between proofs and tags of their own (default); tags: commit to nothing; pointproofs: as merkle, and one short proof an answer (about two milliseconds a record and core, once)',
  ).choices(Object.keys(PROOF_KINDS)),
  new Option('--ceremony <transcript>', 'pointproofs: the ceremony that the key comes from'),
  new Option(
    '--receipt <file>',
    'pointproofs: the receipt of your contribution (default: the transcript and .receipt)',
  ),
  new Option(
    '--prover <command>',
    'pointproofs: a program that proves natively, compiled from packages/pointproofs/rust (default: prove in threads)',
  ),
  new Option('--expires <seconds>', "the manifest's expiry, in seconds since 1970 (default: none)").argParser(seconds),
  new Option('--succeeds <file>', 'begin a new generation after this manifest (as /v1/manifest gives it)'),
  new Option('--name <name>', 'what the database id is derived from (default: the data)'),
]

const buildCommand = program
  .command('build')
  .description('Turn a data file into a dataset directory. Two operators with one file get the same manifest hash.')
  .argument('<data>', 'csv, tsv (header: key,value), jsonl, txt (a key a line) or bin')
  .requiredOption('--out <dir>', 'directory to make')
  .option('--force', 'replace another dataset in that directory')
  .option('--record <file>', "note it in this publisher's record, for `publish --record` to build upon")
for (const option of [...dataOptions(), ...layoutOptions()]) buildCommand.addOption(option)
buildCommand.action(async (data, options) => (await import('./commands/build.js')).build({ data, ...options }))

program
  .command('serve')
  .description('Answer queries for one or more datasets.')
  .option('--dataset <[name=]dir...>', 'a dataset; with a name it is served under /name/v1, otherwise under /v1')
  .option(
    '--store <[name=]dir...>',
    'a database that changes: its store (or postgres://…), begun from the dataset of that name',
  )
  .option('--replica', 'with --store postgres://…: answer from what another process publishes there')
  .requiredOption('--port <port>', 'port to listen on; 0: any free one', portNumber)
  .option('--host <address>', 'address to listen on', '127.0.0.1')
  .option(
    '--metrics <[host:]port>',
    'figures for Prometheus at /metrics, and health, on a port of their own (host: 127.0.0.1 by default)',
    address,
  )
  .option(
    '--drain-seconds <n>',
    'after SIGTERM, how long to go on answering while /readyz says no, so that a balancer sees it',
    wholeNumber,
    5,
  )
  .option(
    '--allow-origin <origin...>',
    'web origins whose pages may read replies, https://example.com say; localhost: pages of this machine, on any port (default: *, any)',
    origins,
  )
  .option(
    '--trust-proxy [addresses]',
    'believe X-Forwarded-For of these proxies (without a value: of private addresses)',
    proxies,
  )
  .option(
    '--rate-limit <n>',
    'what one client address may ask for in a minute, in queries to hints (an instant one counts as 20); 0: any number',
    wholeNumber,
    0,
  )
  .option(
    '--instant <workers>',
    'worker threads for instant lookups; off: they are not offered (default: one less than processors, 1 to 4)',
    workers,
  )
  .option(
    '--publisher-key <[name=]key...>',
    'take batches signed with this key, and no others: 64 hex digits or a file of them; with a name, into that store',
  )
  .option('--history <n>', 'stores: epochs before the newest that clients can catch up from (default: 64)', wholeNumber)
  .addOption(
    new Option('--log-level <level>', 'what to log, on stderr')
      .choices(['trace', 'debug', 'info', 'warn', 'error', 'silent'])
      .default('info'),
  )
  .action(async options => (await import('./commands/serve.js')).serve(options))

const devCommand = program
  .command('dev <data>')
  .description('Both servers on this machine, for whoever writes an app: prints what to paste into it.')
  .addOption(
    new Option('--ports <a,b>', 'ports to listen on; 0: any free one').argParser(twoPorts).default([0, 0], '0,0'),
  )
  .option('--folder <dir>', 'keep stores and key there (default: a temporary folder)')
  .option('--allow-origin <origin...>', 'as for serve (default: localhost)', origins)
  .option('--log-level <level>', 'as for serve', 'warn')
for (const option of dataOptions()) devCommand.addOption(option)
devCommand.action(async (data, options) => (await import('./commands/dev.js')).dev(data, options))

program
  .command('plan')
  .description('What a database will cost its clients and servers, before there is one.')
  .requiredOption('--records <n>', 'number of records', wholeNumber)
  .requiredOption('--value-bytes <n>', 'bytes of a value; of the longest, if they vary', wholeNumber)
  .option('--keyed', 'records are looked up by key (default: by index)')
  .option('--variable', 'values have lengths of their own (default: all have one)')
  .option('--partitions <q...>', 'this number of partitions (default: chosen); several: a table of them', wholeNumbers)
  .option('--pack <g>', 'records a block (default: 1)', wholeNumber)
  .option('--modes', 'only the ways to look up, as a Markdown table')
  .option('--batch <n>', 'records asked for in one lookup (default: 1)', wholeNumber)
  .option('--lookups-per-day <n>', 'lookups of one client (default: 20)', wholeNumber)
  .option('--changes-per-day <n>', 'records that change, in one epoch a day (default: 0)', wholeNumber)
  .option('--memory <MB>', 'what a client may keep in memory (default: 64)', wholeNumber)
  .option('--uplink <kbit/s>', "a client's connection, up (default: 5000)", wholeNumber)
  .option('--downlink <kbit/s>', "a client's connection, down (default: 20000)", wholeNumber)
  .option('--json', 'print JSON, in bytes and microseconds')
  .action(async options => (await import('./commands/plan.js')).plan(options))

program
  .command('export')
  .description('The newest epoch of a server as a dataset directory, for one that has lost its own to begin from.')
  .requiredOption('--server <url>', 'base URL of a server that runs')
  .requiredOption('--publisher-key <key>', 'take only what is signed with this key: 64 hex digits or a file of them')
  .requiredOption('--out <dir>', 'directory to make')
  .option('--force', 'replace another dataset in that directory')
  .action(async options => (await import('./commands/export.js')).exportEpoch(options))

program
  .command('publish [batch]')
  .description('Make the next epoch of a batch (jsonl), the same at both servers, or at one. Running it again is safe.')
  .requiredOption('--servers <a,b>', 'base URLs of the two servers; or of one, and --store')
  .option('--store <dir>', 'one server: a copy of your own, which says what it has to make of a batch')
  .option('--dataset <dir>', 'one server: the dataset to begin that copy from')
  .requiredOption(
    '--key <file>',
    'sign the batch and its manifest with this key; without a batch, that of the newest epoch',
  )
  .option('--record <file>', 'what was published so far (default: the file of --key with .record behind)')
  .option(
    '--trust-base <hash>',
    'begin on this manifest (its hash, as build prints it), though it is not in the record',
    hash,
  )
  .addOption(
    new Option('--value-encoding <encoding>', 'how values are written (default: utf8)').choices(VALUE_ENCODINGS),
  )
  .option('--valid-days <n>', "the manifest's expiry, in days from now (default: none)", days)
  .option(
    '--catch-up <batch...>',
    'no new batch: send those that made the epochs one server lacks to it, again, whichever these are',
  )
  .option('--no-generation', 'begin no new generation when one pays (docs/operations.md, Growth); only say so')
  .action(async (batch, options) => (await import('./commands/publish.js')).publish(batch, options))

program
  .command('keygen')
  .description('Make a key for signing batches and manifests.')
  .requiredOption('--out <file>', 'a new file; keep it secret')
  .action(async options => (await import('./commands/publish.js')).keygen(options))

const ceremony = program.command('ceremony').description('Make the key of Pointproofs, one operator after the other.')
ceremony
  .command('init')
  .description('Begin a ceremony: a transcript nobody has contributed to.')
  .requiredOption('--out <file>', 'a new file')
  .option('--development', 'to try things out: clients refuse its key unless told')
  .action(async options => (await ceremonies()).init(options))
ceremony
  .command('contribute <transcript>')
  .description('Verify a transcript, and add a contribution whose secret is forgotten at once.')
  .requiredOption('--name <name>', 'whose contribution it is, for all to read: 1 to 64 bytes')
  .requiredOption('--out <file>', 'a new file for the transcript; its receipt gets the same name and .receipt')
  .action(async (file, options) => (await ceremonies()).contribute(file, options))
ceremony
  .command('verify <transcript>')
  .description('Say whether a transcript holds, whose contributions are in it, and whether yours is.')
  .option('--receipt <file...>', 'what `contribute` wrote for you')
  .action(async (file, options) => (await ceremonies()).verify(file, options))

async function ceremonies() {
  return (await proofsPackage('pointproofs')).ceremony
}

/** Does what arguments say. The exit code: 0, and for servers as soon as they listen; 1 once stderr says what is wrong. */
export async function run(args: readonly string[]): Promise<number> {
  try {
    await program.parseAsync(args, { from: 'user' })
    return 0
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode // it has been said
    // What an operator did wrong is said in a sentence; for anything else the stack is what helps.
    const expected = error instanceof OperatorError || isSystemError(error)
    const said = isSystemError(error) ? systemMessage(error) : (error as Error).message
    process.stderr.write(`keyhush: ${expected ? said : ((error as Error).stack ?? error)}\n`)
    return 1
  }
}

function wholeNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.')
  return Number(text)
}

function days(text: string): number {
  const count = wholeNumber(text)
  if (count < 1 || count > MOST_DAYS) throw new InvalidArgumentError(`It must be from 1 to ${MOST_DAYS}.`)
  return count
}

const MOST_DAYS = 36_500

/** The last one before the year 10000: milliseconds, which most clocks give, would be a time that never comes. */
const LAST_SECOND = 253_402_300_799

function seconds(text: string): number {
  const since = wholeNumber(text)
  if (since > LAST_SECOND) throw new InvalidArgumentError('It must be in seconds; this seems to be milliseconds.')
  return since
}

function hash(text: string): string {
  if (!/^[0-9a-f]{64}$/.test(text)) throw new InvalidArgumentError('It must be 64 lower-case hex digits.')
  return text
}

function workers(text: string): number | false {
  if (text === 'off') return false
  const count = wholeNumber(text)
  if (count < 1 || count > 64) throw new InvalidArgumentError('It must be off, or from 1 to 64.')
  return count
}

/** As browsers send them: anything else would be taken, and never match. */
function origins(text: string, before: string[] = []): string[] {
  if (text !== '*' && text !== 'localhost' && originOf(text) !== text) {
    const like = originOf(text) ?? originOf(`https://${text}`)
    throw new InvalidArgumentError(
      `It must be an origin, scheme://host with the port if it is not the usual one, and nothing behind${like === undefined ? '' : `: ${like}, perhaps`}; or *, or localhost.`,
    )
  }
  return [...before, text]
}

function proxies(text: string): string {
  for (const part of text.split(',').map(part => part.trim())) {
    const [, address = '', bits] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(part) ?? []
    const most = { 0: 0, 4: 32, 6: 128 }[isIP(address)]!
    const isBlock = most > 0 && (bits === undefined || (Number(bits) >= 1 && Number(bits) <= most))
    if (!isBlock && !['loopback', 'linklocal', 'uniquelocal'].includes(part)) {
      throw new InvalidArgumentError(
        'It must be addresses or CIDR blocks with commas between them, 127.0.0.1,10.0.0.0/8 say, or loopback, linklocal or uniquelocal.',
      )
    }
  }
  return text
}

function originOf(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url === undefined || url.origin === 'null' ? undefined : url.origin
}

function wholeNumbers(text: string, before: number[] = []): number[] {
  return [...before, wholeNumber(text)]
}

function portNumber(text: string): number {
  const port = wholeNumber(text)
  if (port > 65_535) throw new InvalidArgumentError('It must be at most 65535.')
  return port
}

/** `9090`, `10.0.0.1:9090`, `[::1]:9090`. */
function address(text: string): { host: string; port: number } {
  const [, bracketed, host = bracketed ?? '127.0.0.1', port] = /^(?:(?:\[([^\]]*)\]|([^:]*)):)?(\d+)$/.exec(text) ?? []
  if (port === undefined || host === '') throw new InvalidArgumentError('It must be a port, or host:port.')
  return { host, port: portNumber(port) }
}

const TWO_PORTS = 'It must be two ports with a comma between them: 8801,8802 say.'

function twoPorts(text: string): [number, number] {
  const [a, b, ...more] = text.split(',').map(portNumber)
  if (a === undefined || b === undefined || more.length > 0) throw new InvalidArgumentError(TWO_PORTS)
  if (a === b && a !== 0) throw new InvalidArgumentError(TWO_PORTS)
  return [a, b]
}

interface SystemError extends NodeJS.ErrnoException {
  readonly address?: string
  readonly port?: number
}

/** A port in use, a directory without permission, a full disk. */
function isSystemError(error: unknown): error is SystemError {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).syscall === 'string'
}

/** What to do, by the system's code. */
const HINTS: Readonly<Record<string, string>> = {
  EADDRINUSE: '; end what listens there, or choose another port (0: any free one; of dev, --ports 0,0)',
  EIO: '; a full disk can be the reason',
  EMFILE: '; let the process open more of them: `ulimit -n`, or LimitNOFILE of a systemd unit',
}

/** What it was about first, then what the system says of it, and the code, which searches find. */
function systemMessage(error: SystemError): string {
  const { message, path, address, port, errno = 0, code } = error
  const [, reason] = getSystemErrorMap().get(errno) ?? []
  const about = path ?? (port === undefined ? undefined : `${address}:${port}`)
  if (reason === undefined || about === undefined) return message
  return `${about}: ${reason} (${code})${HINTS[code ?? ''] ?? ''}`
}
