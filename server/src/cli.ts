// The `keyhush` command: its options, and how errors are printed. Each command is a file in commands/, loaded when it runs.

import { isIP } from 'node:net'
import { getSystemErrorMap } from 'node:util'
import { type EntryProofs, MAX_SERVERS, PACKAGED, PROOF_KINDS, PROOFS } from '@keyhush/protocol'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { ContradictionError, OperatorError, PublishError } from './base/errors.js'
import { VERSION } from './base/version.js'
import { address, portNumber, ranged, wholeNumber } from './commands/numbers.js'
import { FORMATS } from './dataset/ingest/index.js'
import { VALUE_ENCODINGS } from './dataset/ingest/values.js'
import { proofsPackage } from './dataset/proof-kinds.js'
import { STORAGE_KINDS } from './storage/kinds.js'
import { MISBEHAVIOURS } from './testing/misbehaving.js'

const days = ranged(1, 36_500)
/** Until the year 10000. Most clocks give milliseconds, which would be a time that never comes. */
const seconds = ranged(0, 253_402_300_799, 'It must be in seconds; this seems to be milliseconds.')

const PROOFS_HELP: Readonly<Record<EntryProofs, string>> = {
  merkle: 'hash trees, so that clients choose between proofs and their own tags (default)',
  tags: 'no commitments; clients keep tags',
}
const PACKAGED_HELP = PACKAGED.map(proofs => [proofs, `as merkle, with the proofs of ${PROOF_KINDS[proofs].package}`])

const STORES = Object.values(STORAGE_KINDS).map(({ form, name }) => `${form} (${name})`)

const PUBLISH_EXITS = `
Exit status:
  0  published; or published before, and no record has changed since
  1  a wrong call, key or batch
  3  run it again: a server is away, or another publisher was first
  4  look: servers, epochs or clocks are not as they should be
  5  published before, and others since; or expired since
  6  standard output is closed or full
  75 run it again: with --log, it is published, and too few witnesses have signed`

const AUDIT_EXITS = `
Exit status (without --once, it ends with 0, 1 or 2; with 3 or 4 for --log-files alone):
  0  all servers show the newest epoch, and all is right
  1  a contradiction; the evidence is in a folder of the store, and a further run says so again
  2  a wrong call, or the store fails
  3  run it again: a server is away, or an epoch is not signed yet
  4  look: a server or log is not as it should be, the newest epoch has expired, the key is another, or you were away for too long
  6  standard output is closed or full`

const program = new Command('keyhush')
  .description('Private lookups: build a dataset from a file, serve it, and publish changes.')
  .version(VERSION)
  .exitOverride() // run() sets the exit code

/** An option that is a whole number. */
const counted = (flags: string, help: string, parse = wholeNumber) => new Option(flags, help).argParser(parse)

const formatOption = () =>
  new Option('--format <format>', 'format of the data file (default: from its extension)').choices(FORMATS)

const encodingOption = (help: string) => new Option('--value-encoding <encoding>', help).choices(VALUE_ENCODINGS)

/** Options of `build` and `dev`. */
const dataOptions = () => [
  formatOption(),
  counted('--record-bytes <n>', 'bin: bytes of one record'),
  encodingOption('csv, tsv, jsonl: encoding of the values (default: utf8)'),
  counted(
    '--max-value-bytes <n>',
    'longest value that a change may bring, in bytes (default: the longest in the file)',
  ),
]

/** Option of `build` and `plan`, which have to pack alike. */
const packOption = () =>
  counted('--pack <g>', 'records in a block; more make hints smaller and answers longer (default: chosen)')

/** Option of `build` and `dev`. */
const nameOption = () => new Option('--name <name>', 'name that the database id is derived from (default: the data)')

const layoutOptions = () => [
  counted('--partitions <q>', 'number of partitions (default: chosen from the size)'),
  packOption(),
  counted('--headroom <n>', 'records that can be added before the database needs more partitions (default: 0)'),
  new Option('--proofs <kind>', descriptions({ ...PROOFS_HELP, ...Object.fromEntries(PACKAGED_HELP) })).choices(PROOFS),
  new Option('--ceremony <transcript>', 'pointproofs: transcript of the ceremony that made the key'),
  new Option(
    '--receipt <file>',
    'pointproofs: receipt of your contribution (default: the transcript file with .receipt appended)',
  ),
  new Option(
    '--prover <command>',
    'pointproofs: native program that makes the proofs, compiled from packages/pointproofs/rust (default: worker threads)',
  ),
  counted('--expires <seconds>', 'when the manifest expires, in seconds since 1970 (default: never)', seconds),
  new Option(
    '--one-server',
    'experimental: make the public hint for lookups with one server, without a download; needs --expires (docs/operations/one-server.md)',
  ),
  new Option(
    '--filter',
    'make slot marks: a client that downloads them with the key directory knows of most absent keys by itself (lists with keys)',
  ),
  new Option('--succeeds <file>', 'manifest that this generation follows, as GET /v1/manifest returns it'),
  nameOption(),
]

const buildCommand = program
  .command('build')
  .description('Build a dataset directory from a data file. All operators must get the same manifest hash.')
  .argument('<data...>', 'csv, tsv (header: key,value), jsonl, txt (one key a line) or bin; several files are one list')
  .requiredOption('--out <dir>', 'directory to create')
  .option('--force', 'replace another dataset in that directory')
  .option('--record <folder>', "publisher's record to note the manifest in, for `publish --record`")
const shapeOption = (help: string) => new Option('--shape <file>', help)
buildCommand.addOption(
  shapeOption(
    'build a shard: shape of the sharded database, as `keyhush plan --shards` writes it (docs/operations/sharded.md)',
  ),
)
buildCommand.addOption(counted('--shard <n>', 'with --shape: number of the shard, from 0', ranged(0, 255)))
for (const option of [...dataOptions(), ...layoutOptions()]) buildCommand.addOption(option)
buildCommand.action(async (data, options) => (await import('./commands/build.js')).build({ data, ...options }))

program
  .command('split [files...]')
  .description(
    'Split a list by the shards of its keys, for `build --shard`: <out>/17/ gets the records of shard 17. Without files it reads standard input, as csv unless --format says otherwise. Several processes may write to one folder at once.',
  )
  .addOption(shapeOption('shape of the sharded database, as `keyhush plan --shards` writes it').makeOptionMandatory())
  .requiredOption('--out <dir>', 'directory of the parts')
  .addOption(formatOption())
  .addOption(encodingOption('encoding of the values, also in the parts (default: utf8)'))
  .action(async (files, options) => (await import('./commands/split.js')).split(files, options))

program
  .command('serve')
  .description('Answer queries for one or more databases.')
  .option('--dataset <[name=]dir...>', 'dataset directory, served under /v1; with a name, under /name/v1')
  .option(
    '--store <[name=]dir...>',
    `updatable database: ${STORES.join(' or ')}; created from the --dataset of that name if empty`,
  )
  .option(
    '--shards <n url...>',
    'be the coordinator of so many shards, at URLs with {shard}, such as 64 http://a-{shard}.shards:8080; another URL: of their replicas (docs/operations/sharded.md)',
  )
  .option(
    '--next <n url...>',
    'with --shards: the same, of shards that were built for the next generation; a batch of the publisher puts them in the place of --shards',
  )
  .option('--shard-key <file>', 'with --shards: key file that signs what shards are sent; they know its public half')
  .option(
    '--catch-up <file...>',
    "with --shards: batches of the publisher's record, for shards that were built anew or put back; with an empty --store: the manifest to begin it with",
  )
  .option('--replica', 'with --store postgres://…: only answer; another process takes the batches')
  .requiredOption('--port <port>', 'port to listen on; 0: any free one', portNumber)
  .option('--host <address>', 'address to listen on', '127.0.0.1')
  .option(
    '--metrics <[host:]port>',
    'port of its own for Prometheus (/metrics) and for health checks (host: 127.0.0.1 by default)',
    address,
  )
  .option(
    '--drain-seconds <n>',
    'seconds to keep answering after SIGTERM while /readyz returns 503, so that a balancer sees it',
    wholeNumber,
    5,
  )
  .option(
    '--allow-origin <origin...>',
    'web origins whose pages may use the server, such as https://example.com; localhost: pages of this machine, on any port (default: *, any)',
    origins,
  )
  .option(
    '--trust-proxy [addresses]',
    'proxies whose X-Forwarded-For the server believes, as addresses or CIDR blocks (without a value: all private addresses)',
    proxies,
  )
  .option(
    '--rate-limit <n>',
    'queries that one client address may send in a minute; an instant query counts as 20, in a sharded database for each shard; 0: no limit',
    wholeNumber,
    0,
  )
  .option(
    '--instant <workers>',
    'worker threads for instant lookups; off: none, not with one server either (default: one less than processors, 1 to 4)',
    workers,
  )
  .option(
    '--no-blobs',
    'withhold downloads: partitions, directories and update lists; clients use mode instant alone (docs/operations/serve.md)',
  )
  .option(
    '--publisher-key <[name=]key...>',
    'accept batches signed with this key only: 64 hex digits or a file of them; with a name, into that store',
  )
  .option(
    '--history <n>',
    'with --store: epochs before the newest that clients can catch up from (default: 64)',
    wholeNumber,
  )
  .addOption(
    new Option('--log-level <level>', 'least severe lines to log on stderr')
      .choices(['trace', 'debug', 'info', 'warn', 'error', 'silent'])
      .default('info'),
  )
  .action(async options => (await import('./commands/serve.js')).serve(options))

const devCommand = program
  .command('dev <data>')
  .description('For development: run all servers on this machine, and print the code to paste into an app.')
  .option(
    '--servers <n>',
    `number of servers, 1 to ${MAX_SERVERS} (default: 2); 1: for the experimental lookups with one server`,
    ranged(1, MAX_SERVERS),
  )
  .option('--shards <n>', 'make it a sharded database, each server a coordinator (docs/operations/sharded.md)', shards)
  .option('--ports <a,b>', 'ports to listen on, one a server (default: any free ones)', ports)
  .option(
    '--host <address>',
    'address to listen on; 0.0.0.0: all, so that a phone reaches them',
    ownAddress,
    '127.0.0.1',
  )
  .option('--folder <dir>', 'directory to keep the stores and the key in (default: a temporary one)')
  .addOption(
    new Option(
      '--misbehave <[a=]how>',
      `fault that a server starts with (default server: b; given again: of another): ${descriptions(MISBEHAVIOURS)}`,
    )
      .argParser(misbehaviours)
      .default({}, 'nothing'),
  )
  .option('--allow-origin <origin>', 'as for serve (default: localhost; with --host, *); given again: another', origins)
  .option('--log-level <level>', 'as for serve', 'warn')
for (const option of [...dataOptions(), nameOption()]) devCommand.addOption(option)
devCommand.action(async (data, options) => (await import('./commands/dev.js')).dev(data, options))

program
  .command('plan')
  .description('Compute what a database will cost its clients and servers, before you build it.')
  .requiredOption('--records <n>', 'number of records', wholeNumber)
  .requiredOption('--value-bytes <n>', 'bytes of the longest value', wholeNumber)
  .option('--keyed', 'clients look up by key (default: by index)')
  .option('--variable', 'values differ in length (default: all have the same)')
  .option('--partitions <q>', 'number of partitions (default: chosen)', wholeNumber)
  .addOption(packOption())
  .option('--queries <n>', 'queries of a lookup (default: 1)', wholeNumber)
  .option('--servers <n>', `operators that run a server, 1 to ${MAX_SERVERS}`, ranged(1, MAX_SERVERS), 2)
  .option('--lookups-per-day <n>', 'lookups of one client (default: 20)', wholeNumber)
  .option('--changes-per-day <n>', 'records that change, in one epoch a day (default: 0)', wholeNumber)
  .option('--memory <MB>', 'memory that a client may use (default: 64)', wholeNumber)
  .option('--uplink <kbit/s>', "a client's upload rate (default: 5000)", wholeNumber)
  .option('--downlink <kbit/s>', "a client's download rate (default: 20000)", wholeNumber)
  .option('--filter', 'show what a filter costs and saves in mode `instant`, for keys that are not listed')
  .option('--calls-per-day <n>', 'with --filter: calls of one client (default: 20)', wholeNumber)
  .option('--keys-per-call <n>', 'with --filter: keys of a call (default: 1)', wholeNumber)
  .option('--cover <share>', 'with --filter: share of excluded calls that ask, 0 to 1 (default: 0)', share)
  .option('--shards <n>', 'shards of a sharded database, 2 to 256, a power of two (docs/operations/sharded.md)', shards)
  .option('--out <file>', 'with --shards: file to create with the shape, for `split` and `build`')
  .option('--json', 'print JSON, in bytes and microseconds')
  .action(async options => (await import('./commands/plan.js')).plan(options))

program
  .command('export')
  .description('Download the newest epoch of a server as a dataset directory, to begin a lost store from.')
  .requiredOption('--server <url>', 'base URL of a running server')
  .requiredOption('--publisher-key <key>', 'accept only what this key signed: 64 hex digits or a file of them')
  .requiredOption('--out <dir>', 'directory to create')
  .option('--force', 'replace another dataset in that directory')
  .action(async options => (await import('./commands/export.js')).exportEpoch(options))

program
  .command('publish [batch]')
  .description(
    'Publish a batch of changes (jsonl), or a new file of the whole list (--list), to all servers: it makes the next epoch. Run it again after a failure: it continues.',
  )
  .option('--servers <a,b>', 'base URLs of all servers; or of one, with --store')
  .option(
    '--folder <dir>',
    'instead of servers: folder to write for a static host, with --store (docs/operations/static.md)',
  )
  .option(
    '--url <url>',
    'with --folder: where your host serves it; nothing is published if that is further than your own copy',
  )
  .option(
    '--store <dir>',
    'one server, or a folder: directory of your own copy, which checks what the server makes of a batch',
  )
  .option('--dataset <dir>', 'with --store: dataset to create that copy from')
  .requiredOption(
    '--key <file>',
    'key that signs the batch and the new manifest; without a batch, it signs the newest manifest. Given again: another key that signs manifests',
    severalOf,
  )
  .option('--record <folder>', 'record of what you published (default: the first --key with .record appended)')
  .option(
    '--trust-base <hash>',
    'accept the manifest with this hash, which build printed, though the record does not have it',
    hash,
  )
  .addOption(encodingOption('encoding of the values (default: utf8)'))
  .option(
    '--log <folder>',
    'log that gets each epoch, so that apps can demand witnesses (docs/operations/witnesses.md); `keyhush log` makes it',
  )
  .option('--list <file>', 'new file of the list: publishes what turns the newest epoch into it')
  .addOption(formatOption())
  .option(
    '--allow-deletes <n>',
    'with --list: delete up to n keys, even if they are over a tenth of the list',
    wholeNumber,
  )
  .option('--dry-run', 'with --list: print what would change, and send, sign and write nothing')
  .option('--valid-days <n>', 'days from now until the manifest expires (default: never)', days)
  .option('--no-expiry', 'with --folder: publish without --valid-days')
  .option('--again', 'publish the batch also if it was published before')
  .option(
    '--no-generation',
    'begin no new generation; report when one pays, and what to run when a batch needs one (docs/operations/growth.md)',
  )
  .addHelpText('after', PUBLISH_EXITS)
  .action(async (batch, options) => {
    try {
      await (await import('./commands/publish.js')).publish(batch, options)
    } catch (error) {
      if (error instanceof PublishError) status.failed = error.exit
      throw error
    }
  })

program
  .command('audit')
  .description(
    'Audit a database: make every epoch anew in a store of your own, and compare it with what all servers show and the publisher signed. Prints a line of JSON for each epoch (docs/operations/audit.md).',
  )
  .requiredOption('--servers <a,b>', `base URLs of all servers, at most ${MAX_SERVERS}`, commaSeparated)
  .requiredOption('--publisher-key <key>', 'key that has to sign the epochs: 64 hex digits or a file of them')
  .requiredOption('--store <dir>', 'directory of your own; downloads the newest epoch first if empty')
  .option('--once', 'check what there is, and end (default: follow)')
  .option('--every <seconds>', 'how often to look for an epoch', ranged(1, 86_400), 10)
  .option('--metrics <[host:]port>', 'as for serve', address)
  .option(
    '--cosign <name=key>',
    'be a witness of that name: sign a log if its entries are the epochs that were checked (docs/operations/witnesses.md); `keyhush keygen` makes the key',
  )
  .option('--log <key>', 'with --cosign: key of the log, as `keyhush log` prints it')
  .option(
    '--listen <[host:]port>',
    'with --cosign: where the publisher asks for signatures (host: 127.0.0.1 by default)',
    address,
  )
  .option(
    '--log-files <place>',
    'with --cosign: folder `public` of the log, or its URL, for the entries before the first epoch that was checked',
  )
  .addHelpText('after', AUDIT_EXITS)
  .exitOverride(wrongCall) // 1 says that there is a contradiction
  .action(async options => {
    status.failed = 2
    try {
      await (await import('./commands/audit.js')).audit(options)
    } catch (error) {
      if (error instanceof ContradictionError) status.failed = 1
      if (error instanceof PublishError && error.exit !== 1) status.failed = error.exit
      throw error
    }
  })

program
  .command('get [keys...]')
  .description(
    'Look keys up, privately. Prints a line for each key: the key and "absent", or the key, "found" and its value. Keys and values are JSON strings.',
  )
  .requiredOption('--servers <a,b>', `base URLs of 2 to ${MAX_SERVERS} servers`, commaSeparated)
  .option('--publisher-key <key>', 'accept only what this key signed: 64 hex digits or a file of them')
  .option('--witnesses <file>', 'with --publisher-key: policy; accept only what enough of its witnesses have seen')
  .option(
    '--stdin',
    'read keys from standard input as build reads txt, one a line; eight are looked up at once, fewer are padded',
  )
  .option('--json', 'print lines of JSON: {"key", "value"}; value is null if absent; base64 instead if not UTF-8')
  .addOption(encodingOption('encoding that values are printed in (default: utf8)'))
  .addHelpText(
    'after',
    '\nExit status: 0 if a key was found, 1 if none was, 2 if a lookup failed, 6 if standard output is closed or full.',
  )
  .exitOverride(wrongCall) // 1 says that nothing was found
  .action(async (keys, options) => {
    status.failed = 2
    status.done = await (await import('./commands/get.js')).get(keys, options)
  })

program
  .command('keygen')
  .description('Make a key that signs batches and manifests.')
  .requiredOption('--out <file>', 'file to create; keep it secret')
  .action(async options => (await import('./commands/publish.js')).keygen(options))

program
  .command('log <name>')
  .description(
    'Make the log of a database, which witnesses sign, and print its line of a policy. The name is yours for ever: example.com/keys.',
  )
  .requiredOption('--dataset <dir>', 'dataset of the database')
  .requiredOption('--out <folder>', 'folder to create; keep its key secret')
  .action(async (name, options) => (await import('./commands/log.js')).log(name, options))

const ceremony = program
  .command('ceremony')
  .description('Make the key of Pointproofs: each operator contributes in turn.')
ceremony
  .command('init')
  .description('Begin a ceremony: create a transcript without contributions.')
  .requiredOption('--out <file>', 'file to create')
  .option('--development', 'for tests: clients refuse its key unless they open with development: true')
  .action(async options => (await ceremonies()).init(options))
ceremony
  .command('contribute <transcript>')
  .description('Verify a transcript and add a contribution. Its secret is never stored.')
  .requiredOption('--name <name>', 'public name of the contributor: 1 to 64 bytes')
  .requiredOption('--out <file>', 'transcript to create; the receipt gets this name with .receipt appended')
  .action(async (file, options) => (await ceremonies()).contribute(file, options))
ceremony
  .command('verify <transcript>')
  .description('Verify a transcript, list its contributions, and check that yours is among them.')
  .option('--receipt <file>', 'receipt that `contribute` wrote for you; given again: another', severalOf)
  .action(async (file, options) => (await ceremonies()).verify(file, options))

async function ceremonies() {
  return (await proofsPackage('pointproofs')).ceremony
}

/** Exit codes of the command under way. */
let status = { done: 0, failed: 1 }

/** Runs a command. Returns the exit code: 0, for servers as soon as they listen; 1 after an error on stderr, of `get` 2. */
export async function run(args: readonly string[]): Promise<number> {
  status = { done: 0, failed: 1 }
  try {
    await program.parseAsync(args, { from: 'user' })
    return status.done
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode // commander has printed it
    process.stderr.write(`keyhush: ${described(error)}\n`)
    return status.failed
  }
}

/** An operator's mistake is one sentence. Anything else is a fault of ours, whose stack helps. */
function described(error: unknown): unknown {
  if (error instanceof OperatorError) return error.message
  if (isSystemError(error)) return systemMessage(error)
  if (error instanceof RangeError && error.message.startsWith('WebAssembly'))
    return `${NO_ADDRESSES}, got: ${error.message}`
  return (error as Error).stack ?? error
}

const NO_ADDRESSES =
  'expected 10 GB of address space for each WebAssembly memory; raise `ulimit -v`, or set NODE_OPTIONS=--disable-wasm-trap-handler'

function share(text: string): number {
  const number = Number(text)
  if (text.trim() === '' || !(number >= 0 && number <= 1))
    throw new InvalidArgumentError('It must be a number from 0 to 1.')
  return number
}

function shards(text: string): number {
  const number = wholeNumber(text)
  if (number < 2 || number > 256 || !Number.isInteger(Math.log2(number)))
    throw new InvalidArgumentError('It must be a power of two from 2 to 256.')
  return number
}

function descriptions(choices: Readonly<Record<string, string>>): string {
  return Object.entries(choices)
    .map(([name, meaning]) => `${name}: ${meaning}`)
    .join('; ')
}

function hash(text: string): string {
  if (!/^[0-9a-f]{64}$/.test(text)) throw new InvalidArgumentError('It must be 64 lower-case hex digits.')
  return text
}

function workers(text: string): number | false {
  return text !== 'off' && ranged(1, 64, 'It must be off, or from 1 to 64.')(text)
}

/** Origins as browsers send them: another form would never match. */
function origins(text: string, before: string[] = []): string[] {
  if (text !== '*' && text !== 'localhost' && originOf(text) !== text) {
    if (text === 'null') {
      throw new InvalidArgumentError(
        'It must be an origin, and file:// pages have none; allow *, or give the pages a scheme of their own (app://name).',
      )
    }
    const like = originOf(text) ?? originOf(`https://${text}`)
    throw new InvalidArgumentError(
      `It must be an origin, scheme://host or scheme://host:port, without a path${like === undefined ? '' : `; perhaps ${like}`}; or *, or localhost.`,
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
        'It must be addresses or CIDR blocks, separated by commas (127.0.0.1,10.0.0.0/8), or loopback, linklocal or uniquelocal.',
      )
    }
  }
  return text
}

/** URL knows no origin for the schemes of apps' web views, such as capacitor://localhost. */
function originOf(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || url.protocol === 'file:' || url.host === '') return undefined
  return url.origin === 'null' ? `${url.protocol}//${url.host}` : url.origin
}

/** For an option that may be given again. */
function severalOf(text: string, before: string[] = []): string[] {
  return [...before, text]
}

/** Has a wrong call end with 2. */
function wrongCall({ exitCode, code, message }: CommanderError): never {
  throw new CommanderError(exitCode && 2, code, message)
}

function commaSeparated(text: string): string[] {
  return text.split(',')
}

function ports(text: string): number[] {
  const all = text.split(',').map(portNumber)
  const given = all.filter(port => port !== 0)
  if (all.length > MAX_SERVERS || new Set(given).size < given.length) {
    throw new InvalidArgumentError('It must be a port for each server, separated by commas: 8801,8802.')
  }
  return all
}

function ownAddress(text: string): string {
  if (isIP(text) === 0) throw new InvalidArgumentError('It must be an address of this machine, or 0.0.0.0 for all.')
  return text
}

function misbehaviours(text: string, before: object): object {
  const [, server = 'b', how = ''] = /^(?:([a-h])=)?(\w+)$/.exec(text) ?? []
  if (!Object.hasOwn(MISBEHAVIOURS, how)) {
    const kinds = Object.keys(MISBEHAVIOURS).join(', ')
    throw new InvalidArgumentError(`It must be one of ${kinds}. Begin with a= for server a.`)
  }
  return { ...before, [server]: how }
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
  EADDRINUSE: '; stop what listens there, or choose another port (0: any free one)',
  EADDRNOTAVAIL: '; choose an address of this machine, or 0.0.0.0 for all',
  EIO: '; is the disk full?',
  EMFILE: '; raise the limit: `ulimit -n`, or LimitNOFILE of a systemd unit',
}

/** The file or address, what the system says of it, its code, and what to do. */
function systemMessage(error: SystemError): string {
  const { message, path, address, port, errno = 0, code } = error
  const [, reason] = getSystemErrorMap().get(errno) ?? []
  const about = path ?? (port === undefined ? address : `${address}:${port}`)
  if (reason === undefined || about === undefined) return message
  if (code === 'ENOENT') {
    const pattern = /[*?]/.test(about) ? ': no file fits this pattern' : ''
    return `${about}: expected a file or directory, got none (ENOENT); check the name${pattern}`
  }
  return `${about}: ${reason} (${code})${HINTS[code ?? ''] ?? ''}`
}
