// `keyhush dev`: servers, two if not told otherwise, and a publisher on this machine, for app developers. As in production each server is
// a process with a store of its own, and accepts only what the publisher signed. A proxy in front of each misbehaves when a key is pressed.

import { fork, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { isIPv6 } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { createInterface, emitKeypressEvents, type Key } from 'node:readline'
import { type Manifest, toHex } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import closeWithGrace from 'close-with-grace'
import { OperatorError } from '../base/errors.js'
import { buildDataset, hasKeys } from '../dataset/build.js'
import { formatOf, type KeyedFormat } from '../dataset/ingest/index.js'
import { encodeShape, planShape } from '../dataset/shape-file.js'
import { splitSource } from '../dataset/split.js'
import { createKeyFile, readKeyFile } from '../publisher/files.js'
import { publish } from '../publisher/publish.js'
import { PublisherRecord } from '../publisher/record.js'
import { PublishedServer } from '../publisher/server.js'
import { MISBEHAVIOURS, MisbehavingProxy, type Misbehaviour } from '../testing/misbehaving.js'
import type { BuildArguments } from './build.js'
import { withProgress } from './progress.js'
import { openOwnCopy } from './publish.js'
import { ENDS_BY_ITSELF } from './stopping.js'
import { differingOptions } from './store.js'

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'] as const

/** The options of `dev` as commander gives them. */
export type DevArguments = Pick<
  BuildArguments,
  'format' | 'recordBytes' | 'valueEncoding' | 'maxValueBytes' | 'name'
> & {
  readonly folder?: string
  readonly servers?: number
  readonly shards?: number
  readonly ports?: readonly number[]
  readonly host: string
  readonly allowOrigin?: string[]
  readonly misbehave: Partial<Record<(typeof NAMES)[number], Misbehaviour>>
  readonly logLevel: string
}

/** Of one server: how long what is published is valid. */
const DAYS = 30

/** Longer than a server takes to stop. */
const STOP_MILLISECONDS = 30_000

/** What is printed for a list of another command. `changing`: options of `publish`. */
export type DevText = (servers: readonly string[], publisherKey: string, changing: string) => string

/** `withheld`: the servers withhold downloads, and this is printed. */
export async function dev(data: string, options: DevArguments, withheld?: DevText): Promise<void> {
  const { folder: kept, servers: count, shards, host, allowOrigin, misbehave, logLevel, ...others } = options
  const { ports = Array.from({ length: count ?? 2 }, () => 0), ...choices } = others
  if (count === undefined && ports.length === 1) {
    const expected = 'expected a port for each server, such as 8801,8802'
    throw new OperatorError(`--ports: ${expected}, got one; give two, or pass --servers 1`)
  }
  if (count !== undefined && ports.length !== count) {
    throw new OperatorError(`--ports: expected ${count}, one a server, got ${ports.length}; give as many, or none`)
  }
  const missing = Object.keys(misbehave).find(name => !NAMES.slice(0, ports.length).includes(name as 'a'))
  if (missing !== undefined)
    throw new OperatorError(`--misbehave: expected one of ${ports.length} servers, got ${missing}; name another`)
  if (shards !== undefined && (kept !== undefined || count === 1 || !hasKeys({ ...choices, data })))
    throw new OperatorError(
      '--shards: expected a list with keys, two servers and no --folder, got others; leave it out',
    )
  const isOpen = !/^(127\.|::1$)/.test(host)
  const origins = allowOrigin ?? [isOpen ? '*' : 'localhost']
  const running: { close(): Promise<unknown> }[] = []
  const close = () => Promise.all(running.splice(0).map(each => each.close()))
  closeWithGrace({ delay: STOP_MILLISECONDS, logger: false, skip: [...ENDS_BY_ITSELF] }, async ({ err }) => {
    if (err !== undefined) process.stderr.write(`keyhush: ${err instanceof OperatorError ? err.message : err.stack}\n`)
    await close()
  })
  const temporary = mkdtempSync(join(tmpdir(), 'keyhush-dev-'))
  process.once('exit', () => rmSync(temporary, { recursive: true, force: true }))
  const folder = kept ?? temporary
  mkdirSync(folder, { recursive: true })

  const keyFile = join(folder, 'publisher.key')
  const key = existsSync(keyFile) ? await readKeyFile(keyFile) : await createKeyFile(keyFile)
  const record = await PublisherRecord.open(`${keyFile}.record`)
  const built = join(temporary, 'built', basename(data)) // messages name it
  const alone = ports.length === 1 && { oneServer: true, expires: Math.floor(Date.now() / 1000) + DAYS * 24 * 60 * 60 }
  const filter = !withheld && shards === undefined && hasKeys({ ...choices, data })
  const { databaseId, manifest, manifestHash } = await withProgress(onProgress =>
    buildDataset({ ...choices, ...alone, filter, data, out: built, onProgress }),
  )
  const names = NAMES.slice(0, ports.length)
  // The stores go on with the list that they were begun with; the app's developer publishes what the file changes.
  const stores = (alone ? [...names, 'own'] : names).map(name => join(folder, name))
  // With one server each run has another expiry, and so another manifest.
  const isKnown = alone ? record.newestEpoch(databaseId) > 0 : record.hasManifest(databaseId, manifestHash)
  const differs = !isKnown && stores.every(existsSync)
  const dataset = differs ? undefined : built
  const sharded = shards && (await buildShards(data, choices, manifest, shards, temporary))
  if (!differs && !sharded) await record.addManifest({ databaseId, epoch: manifest.epoch, hash: manifestHash })

  const publisherKey = toHex(key.publicKey)
  const servers: string[] = []
  const proxies: MisbehavingProxy[] = []
  try {
    for (const [i, name] of names.entries()) {
      const log = ['--log-level', logLevel]
      const from = dataset === undefined ? [] : ['--dataset', dataset]
      const before = sharded && (await startShards(name, folder, sharded, log))
      if (before) running.push(before)
      const stores = before ? before.stores : [...from, '--store', join(folder, name)]
      const access = ['--allow-origin', ...origins, ...(withheld ? ['--no-blobs'] : [])]
      const server = await startServer(name, [...stores, '--publisher-key', publisherKey, ...access, ...log])
      running.push(server)
      if (before && servers.length === 0) await record.addManifest(await manifestAt(server.url))
      if (differs && servers.length === 0) await checkOptions(manifest, server.url, folder)
      servers.push(server.url)
      const proxy = await MisbehavingProxy.start(server.url, host, ports[i])
      running.push(proxy)
      proxies.push(proxy)
    }
    const own = alone ? await openOwnCopy(servers, join(folder, 'own'), dataset, [key]) : undefined
    const all = own ? [...servers, own.url] : servers
    await publish({ servers: all, own: own !== undefined, key, record }).finally(() => own?.close())
  } catch (error) {
    await close()
    throw error
  }
  const reached = reachedAt(host)
  const urls = proxies.map(({ port }) => urlOf(reached[0].address, port))
  const changing = alone
    ? `--servers ${urls.join()} --store ${join(folder, 'own')} --valid-days ${DAYS}`
    : `--servers ${urls.join()}`
  const { format, valueEncoding } = choices
  const read = [format && ` --format ${format}`, valueEncoding && ` --value-encoding ${valueEncoding}`]
  const list = manifest.keyed && !sharded ? `--list ${data}${read.map(option => option ?? '').join('')}` : undefined
  const changes = `${changing} --key ${keyFile}`
  const printed = withheld
    ? [withheld(urls, publisherKey, changes)]
    : [
        paste(urls, isOpen, publisherKey),
        differs ? goesOn(folder, data) : '',
        howToChange(data, list, changes),
        sharded ? NO_GENERATION : '',
        isOpen ? warning(reached) : '',
        kept ? '' : notKept(ports, sharded === undefined),
      ]
  process.stdout.write(printed.join(''))
  takeKeys(proxies, misbehave)
}

/** The shards of a list, and the operators' key for them. */
interface BuiltShards {
  readonly datasets: readonly string[]
  readonly keyFile: string
  readonly publicKey: string
}

/** `whole`: of the list as one database. */
async function buildShards(
  data: string,
  { format = formatOf(data), valueEncoding = 'utf8' }: Pick<DevArguments, 'format' | 'valueEncoding'>,
  { records, valueBytes, variable }: Manifest,
  shards: number,
  folder: string,
): Promise<BuiltShards> {
  const core = await loadCore()
  const shape = planShape(core, { records, valueBytes, variable, shards })
  const [file, parts] = [join(folder, 'shape.json'), join(folder, 'parts')]
  await writeFile(file, encodeShape(shape))
  await splitSource(core, data, { shape, out: parts, format: format as KeyedFormat, valueEncoding })
  const datasets: string[] = []
  for (let shard = 0; shard < shards; shard++) {
    const own = join(parts, `${shard}`)
    if (!existsSync(own))
      throw new OperatorError(
        `--shards: expected keys in all shards, got none in shard ${shard}; take a longer list or fewer shards`,
      )
    const files = readdirSync(own).map(name => join(own, name))
    datasets.push(join(folder, `shard${shard}`))
    await buildDataset({ data: files, valueEncoding, shape: file, shard, out: datasets[shard]! })
  }
  const keyFile = join(folder, 'shards.key')
  return { datasets, keyFile, publicKey: toHex((await createKeyFile(keyFile)).publicKey) }
}

/** One process with all shards of an operator. `stores`: options of its coordinator. */
async function startShards(
  name: string,
  folder: string,
  { datasets, keyFile, publicKey }: BuiltShards,
  log: readonly string[],
) {
  const named = (dirs: readonly string[]) => dirs.map((dir, shard) => `s${shard}=${dir}`)
  const stores = datasets.map((_, shard) => join(folder, `${name}-${shard}`))
  const options = ['--dataset', ...named(datasets), '--store', ...named(stores), '--publisher-key', publicKey, ...log]
  const server = await startServer(`${name}, its shards`, options)
  const shards = ['--shards', `${datasets.length}`, `${server.url}/s{shard}`, '--shard-key', keyFile]
  return { close: server.close, stores: [...shards, '--store', join(folder, name)] }
}

async function manifestAt(server: string) {
  const { manifest, bytes } = await new PublishedServer(server).newest()
  const { databaseId, epoch } = manifest
  return { databaseId: toHex(databaseId), epoch, hash: toHex((await loadCore()).blake3(bytes)) }
}

/** Throws OperatorError if the store of this server was begun with other options of `build`, which no change brings about. */
async function checkOptions(given: Manifest, server: string, folder: string): Promise<void> {
  const options = differingOptions(given, (await new PublishedServer(server).newest()).manifest)
  if (options === undefined) return
  const ways = 'give the options that it was begun with. To begin anew, with another key, delete it or name another'
  throw new OperatorError(`--folder ${folder}: expected the same options, but ${options}; ${ways}`)
}

const COMMAND = new URL('../../bin/keyhush.js', import.meta.url)
const ENDS_WITH_ITS_PARENT =
  'data:text/javascript,process.once("disconnect",()=>process.kill(process.pid,"SIGTERM")).channel.unref()'

/** `keyhush serve` on a free port. */
async function startServer(name: string, options: readonly string[]) {
  const child = fork(COMMAND, ['serve', '--port', '0', '--drain-seconds', '0', ...options], {
    execArgv: [...process.execArgv, '--import', ENDS_WITH_ITS_PARENT],
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    detached: true, // a Ctrl-C of the terminal is for this process alone
  })
  const exited = once(child, 'exit')
  const { value: line } = await createInterface({ input: child.stdout! })[Symbol.asyncIterator]().next()
  const [, url] = /^listening on (http:\S+)$/.exec(line ?? '') ?? []
  if (url === undefined) throw new OperatorError(`server ${name} did not start; the lines above say why`)
  const ended = (code: number | null, signal: string | null) => {
    throw new OperatorError(`server ${name} has ended (${signal ?? `code ${code}`}); run dev again`)
  }
  child.once('exit', ended)
  const close = async () => {
    child.off('exit', ended).kill('SIGTERM')
    await exited
  }
  return { url, close }
}

interface Reached {
  /** of the network interface */
  readonly name: string
  readonly address: string
}

/** The addresses at which apps reach what listens on `host`. */
export function reachedAt(host: string, interfaces = networkInterfaces()): [Reached, ...Reached[]] {
  const all = Object.entries(interfaces).flatMap(([name, list]) => (list ?? []).map(one => ({ ...one, name })))
  const loopback = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host]
  const [first, ...others] = all.filter(({ address, family, internal }) => {
    if (loopback === undefined) return address === host
    return !internal && (host === '::' || family === 'IPv4') && !/^fe80:/i.test(address) // which only one link knows
  })
  return [first ?? { name: 'this machine', address: loopback ?? host }, ...others]
}

const urlOf = (address: string, port: number) => `http://${isIPv6(address) ? `[${address}]` : address}:${port}`

function paste(servers: readonly string[], isOpen: boolean, publisherKey: string): string {
  const run = ['One server runs', 'Two servers run'][servers.length - 1] ?? `${servers.length} servers run`
  const oneServer = servers.length === 1 ? "\n  mode: 'instant',\n  experimental: true, // docs/guide/modes.md" : ''
  return `${run} on this machine until Ctrl-C. Paste into an app:

import { open } from '@keyhush/client'

const map = await open({
  servers: [${servers.map(url => `'${url}'`).join(', ')}],
  publisherKey: '${publisherKey}',${oneServer}${isOpen ? '\n  development: true, // allows plain http, and servers on one machine' : ''}
})
`
}

/** `list`, `changing`: options of `publish`. A list without keys is changed by batches alone. */
function howToChange(data: string, list: string | undefined, changing: string): string {
  const ofFile = `To change the data, edit ${data} and run

npx keyhush publish ${changing} ${list}

or`
  return `
${list === undefined ? 'To change the data,' : ofFile} write a batch to changes.jsonl (docs/operations/publish.md) and run

npx keyhush publish ${changing} changes.jsonl
`
}

const NO_GENERATION = `
The shards have room for some more keys, and for values of their length. For many more keys or longer values run dev again: here no generation begins.
`

function goesOn(folder: string, data: string): string {
  return `
${data} is not the list that ${folder} was begun with. The servers still have that list, and what was published since: publish yours as
follows. To begin anew, with another key, delete ${folder}.
`
}

function notKept(ports: readonly number[], canBe: boolean): string {
  const free = ports.includes(0)
  const other = `another key${free ? ', other ports' : ''} and none of your changes`
  const stale = free ? '' : ' Pages that have stored a state must then call discardState({ servers }).'
  const remedy = canBe ? ` To keep them, add --folder DIR${free ? ' --ports 8801,8802' : ''}.` : ''
  return `
Nothing is kept: the next run has ${other}.${stale}${remedy}
`
}

function warning(reached: readonly Reached[]): string {
  const interfaces = reached.map(({ name, address }) => `${address} (${name})`).join(', ')
  return `
Warning: anyone who reaches these addresses can use the servers, and anyone on the way can read keys (plain http): ${interfaces}
Browsers treat a page at such an address as insecure: it has no crypto.subtle, locks or service workers. Lookups and stored state
work. The SDK checks signatures in JavaScript and stores state unencrypted.
`
}

/** The system stops a job in the background that takes a terminal's keys. Where `ps` does not tell, this is none. */
function isInBackground(): boolean {
  const { status, stdout } = spawnSync('ps', ['-o', 'stat=', '-p', `${process.pid}`], { encoding: 'utf8' })
  return status === 0 && !stdout.includes('+')
}

/** Does what `--misbehave` says, and then what a person presses. */
function takeKeys(proxies: readonly MisbehavingProxy[], from: DevArguments['misbehave']): void {
  const { stdin, stdout } = process
  const misbehave = (i: number, how: Misbehaviour | undefined) => {
    proxies[i]!.misbehave(how)
    stdout.write(`Server ${NAMES[i]} ${how === undefined ? 'behaves' : `(${how}) ${MISBEHAVIOURS[how]}`}.\n`)
  }
  for (const [i, name] of NAMES.entries()) if (from[name] !== undefined) misbehave(i, from[name])
  if (!stdin.isTTY || isInBackground()) return
  const kinds = Object.keys(MISBEHAVIOURS) as Misbehaviour[]
  let chosen = Math.min(1, proxies.length - 1)
  const keys = kinds.map((kind, i) => `${i + 1} ${kind}`).join(', ')
  stdout.write(`\nKeys: ${keys}, 0 behave; Tab: next server (now ${NAMES[chosen]}); Ctrl-C: stop\n`)
  emitKeypressEvents(stdin.setRawMode(true))
  stdin.on('keypress', (text: string | undefined, { name, ctrl }: Key) => {
    if (ctrl && name === 'c') process.kill(process.pid, 'SIGINT')
    else if (name === 'tab') {
      chosen = (chosen + 1) % proxies.length
      stdout.write(`Keys now control server ${NAMES[chosen]}.\n`)
    } else if (/^\d$/.test(text ?? '')) misbehave(chosen, kinds[Number(text) - 1])
  })
}
