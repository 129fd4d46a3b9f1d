// What the bench measures on: datasets, server processes, pages in a browser, clients under Node. All of it is gone when
// the stage closes.

import { createCipheriv } from 'node:crypto'
import { rmSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { contentHash, decodeManifest, type Manifest, toHex } from '@keyhush/protocol'
import type { Browser, Page } from 'puppeteer-core'
import { launchBrowser } from '../../tools/browsers.mjs'
import { runKeyhushProcess, type ServerProcess, startListening, startServerProcess } from '../support/processes.js'
import { temporaryFolder } from '../support/servers.js'
import { startPage } from '../support/web.js'
import type { Measured } from './page.js'

/** Records and how they are laid out. */
export interface Shape {
  readonly records: number
  readonly recordBytes: number
  /** undefined: as planned */
  readonly partitions?: number | undefined
}

export type Pair = readonly [ServerProcess, ServerProcess]

export class Stage {
  readonly folder: string
  readonly #closers: (() => Promise<unknown>)[]
  #browser: Browser | undefined
  #built = 0

  private constructor(folder: { path: string; remove(): Promise<void> }) {
    this.folder = folder.path
    const interrupted = () => rmSync(folder.path, { recursive: true, force: true })
    process.once('exit', interrupted)
    this.#closers = [folder.remove, async () => void process.off('exit', interrupted)]
  }

  /** Runs `work` on a new stage. */
  static async with<T>(work: (stage: Stage) => Promise<T>): Promise<T> {
    const stage = new Stage(await temporaryFolder())
    try {
      return await work(stage)
    } finally {
      for (const close of stage.#closers) await close()
    }
  }

  /** Builds a keyless dataset of these records, with further options of `build`; returns its path. */
  async dataset(data: Uint8Array, { recordBytes, partitions }: Shape, ...more: string[]): Promise<string> {
    const layout = partitions === undefined ? [] : ['--partitions', `${partitions}`]
    return await this.build('bin', data, '--record-bytes', `${recordBytes}`, ...layout, ...more)
  }

  /** Builds a dataset of a file of this kind, with options of `build`; returns its path. */
  async build(kind: 'bin' | 'csv', data: Uint8Array | string, ...options: string[]): Promise<string> {
    const out = join(this.folder, `dataset-${this.#built++}`)
    const file = `${out}.${kind}`
    await writeFile(file, data)
    await runKeyhushProcess('build', file, ...options, '--out', out)
    return out
  }

  /** A server process, which may be stopped before the stage closes. */
  async serve(...args: string[]): Promise<ServerProcess> {
    const server = await startServerProcess(...args)
    let stopping: Promise<void> | undefined
    const stop = () => {
      stopping ??= server.stop()
      return stopping
    }
    this.closeLast(stop)
    return { ...server, stop }
  }

  /** A server that gives records away: `GET /<index>`. */
  async servePlain(data: Uint8Array, recordBytes: number): Promise<ServerProcess> {
    const file = join(this.folder, 'plain.bin')
    await writeFile(file, data)
    const script = fileURLToPath(new URL('plain-server.mjs', import.meta.url))
    const server = await startListening(script, file, `${recordBytes}`)
    this.closeLast(server.stop)
    return server
  }

  /** Two servers, with the arguments of each. */
  async pair(args: (server: 0 | 1) => readonly string[]): Promise<Pair> {
    return await Promise.all([this.serve(...args(0)), this.serve(...args(1))])
  }

  /** A new page with the SDK, that may talk to these servers, in a browser of the stage's own. */
  async page(servers: readonly { readonly url: string }[]): Promise<Page> {
    const site = await startPage(servers.map(({ url }) => url))
    this.closeLast(site.close)
    const page = await (await this.browser()).newPage()
    await page.goto(site.url)
    return page
  }

  /** One for the whole stage. `small`: it saves memory as on a small phone. */
  async browser({ small = false } = {}): Promise<Browser> {
    if (this.#browser === undefined) {
      this.#browser = await launchBrowser('chromium', { protocolTimeout: 0, small, unwatched: true })
      this.closeLast(() => this.#browser!.close())
    }
    return this.#browser
  }

  /** The most memory that any page's process has had so far, bytes; undefined where the system does not tell. */
  async peakTabBytes(): Promise<number | undefined> {
    const session = await (await this.browser()).target().createCDPSession()
    const { processInfo } = await session.send('SystemInfo.getProcessInfo')
    await session.detach()
    const peaks = processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => peakBytes(id))
    const known = (await Promise.all(peaks)).filter(bytes => bytes !== undefined)
    return known.length === 0 ? undefined : Math.max(...known)
  }

  /** What is opened last is closed first. */
  closeLast(close: () => Promise<unknown>): void {
    this.#closers.unshift(close)
  }
}

/** The most memory a process has had so far, bytes: its own and what it shares with others. Linux tells. */
export async function peakBytes(pid: number): Promise<number | undefined> {
  return bytesIn(pid, 'VmHWM')
}

/** The memory that a process has now, without the files that it maps. */
export async function residentBytes(pid: number): Promise<number | undefined> {
  const [own, shared] = await Promise.all([bytesIn(pid, 'RssAnon'), bytesIn(pid, 'RssShmem')])
  return own === undefined ? undefined : own + (shared ?? 0)
}

async function bytesIn(pid: number, name: string): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const kibibytes = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024
}

/** The processor time of a process so far, all threads of it. Linux tells, in hundredths of a second. */
export async function processorMs(pid: number): Promise<number | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // After its name, which may have anything in it: state is the 3rd field, utime the 14th.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [user, system] = fields.slice(11, 13)
  return user === undefined || system === undefined ? undefined : 10 * (Number(user) + Number(system))
}

/** The key stream of ChaCha20 under a zero key: the same bytes on every machine. */
export function pseudorandomBytes(count: number): Buffer {
  return createCipheriv('chacha20', Buffer.alloc(32), Buffer.alloc(16)).update(Buffer.alloc(count))
}

/** Throws unless every value found is the data's. */
export function check(data: Buffer, recordBytes: number, samples: Measured['samples']): void {
  for (const { index, value } of samples) {
    const expected = data.subarray(index * recordBytes, (index + 1) * recordBytes)
    if (!expected.equals(Uint8Array.from(value))) throw new Error(`the value at ${index} is wrong`)
  }
}

/** Base URLs of a database served under a name. */
export function under([a, b]: Pair, name?: string): [string, string] {
  const path = name === undefined ? '' : `/${name}`
  return [a.url + path, b.url + path]
}

/** Options of `keyhush build` for lookups with one server, which have to expire. */
export function forOneServer(): string[] {
  return ['--one-server', '--expires', `${Math.floor(Date.now() / 1000) + 24 * 60 * 60}`]
}

/** Resolves when the server has prepared its lookups. */
export async function untilReady(url: string): Promise<void> {
  while (!(await fetch(`${url}/readyz`)).ok) await sleep(100)
}

export async function newestManifest(url: string): Promise<Manifest> {
  return decodeManifest(new Uint8Array(await (await fetch(`${url}/v1/manifest`)).arrayBuffer()))
}

/** Where the partitions of a database are. */
export function partitionUrls(url: string, manifest: Manifest): string[] {
  return Array.from({ length: manifest.partitions }, (_, q) => `${url}/v1/blobs/${toHex(contentHash(manifest, q))}`)
}
