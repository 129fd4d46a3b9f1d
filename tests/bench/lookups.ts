// Whole maps in Chromium on two real servers, beside what fetching costs there by itself and what no privacy would cost;
// then a server under the requests of many clients at once.

import { join } from 'node:path'
import { decodeAnswer, decodeQuery, type Manifest, type Proofs } from '@keyhush/protocol'
import { shipped } from '../support/shipped.js'
import { type Load, type LoadResult, putUnderLoad, type RecordedLookup, recordLookups } from './load.js'
import { type Options, target } from './options.js'
import { type Measured, measureFlushes, measureMaps, measurePlain, type Plain, type Subject } from './page.js'
import { type Figure, median, quantile, type Section } from './report.js'
import { check, newestManifest, type Pair, partitionUrls, peakBytes, pseudorandomBytes, Stage, under } from './stage.js'

const WARM_UP_LOOKUPS = 30
const CLIENTS = [1, 8, 64]
const LOAD_SECONDS = 2

/** The maps of a run. One state has one kind of proof, so that each kind has a database of its own name. */
function subjectsOn(servers: Pair) {
  const [merkle, tags, living] = [under(servers, 'merkle'), under(servers, 'tags'), under(servers, 'living')]
  return {
    merkle: { servers: merkle, proofs: 'merkle', storage: 'memory', watched: true },
    tags: { servers: tags, proofs: 'tags', storage: 'memory', watched: true },
    merkleDurable: { servers: merkle, proofs: 'merkle', storage: 'required', reopened: true },
    tagsDurable: { servers: tags, proofs: 'tags', storage: 'required', reopened: true, bare: true },
    tagsFenced: { servers: living, proofs: 'tags', storage: 'required' },
  } satisfies Record<string, Subject>
}
type Name = keyof ReturnType<typeof subjectsOn>
type Run = Record<Name, Measured> & {
  readonly flushMs: readonly number[]
  /** and then the bare requests of a lookup with tags */
  readonly flushedThenBareMs: readonly number[]
  readonly plain: Plain
  readonly tabBytes: number | undefined
}

export async function lookups(options: Options): Promise<Section[]> {
  const { shape, repeats } = options
  const { records, recordBytes } = shape
  const data = pseudorandomBytes(records * recordBytes)
  return await Stage.with(async stage => {
    const dataset = await stage.dataset(data, shape)
    const datasets = ['merkle', 'tags', 'living'].flatMap(name => ['--dataset', `${name}=${dataset}`])
    const servers = await stage.pair(s => [...datasets, '--store', `living=${join(stage.folder, `store-${s}`)}`])
    const plainServer = await stage.servePlain(data, recordBytes)
    const [merkle, tags] = [under(servers, 'merkle'), under(servers, 'tags')]
    const manifest = await newestManifest(tags[0])
    const blobs = partitionUrls(tags[0], manifest)
    const recorded = {
      merkle: await recordLookups({ servers: merkle, mode: 'full', proofs: 'merkle', storage: 'memory' }, 200),
      tags: await recordLookups({ servers: tags, mode: 'full', proofs: 'tags', storage: 'memory' }, 200),
    }

    const runs: Run[] = []
    for (let run = 1; run <= repeats; run++) {
      process.stdout.write(`lookups: run ${run} of ${repeats} … `)
      const page = await stage.page([...servers, plainServer])
      const subjects = subjectsOn(servers)
      const results = await page.evaluate(measureMaps, Object.values(subjects), WARM_UP_LOOKUPS, options.lookups)
      const flushMs = await page.evaluate(measureFlushes, options.lookups)
      const bare = recorded.tags.map(requests => requests.map(({ url, body }) => ({ url, body: Array.from(body) })))
      const flushedThenBareMs = await page.evaluate(measureFlushes, options.lookups, bare)
      const plain = await page.evaluate(measurePlain, `${plainServer.url}/`, records, options.lookups, blobs)
      const tabBytes = await stage.peakTabBytes()
      await page.close()
      for (const { samples } of [...results, plain]) check(data, recordBytes, samples)
      if (plain.everythingBytes < data.length) throw new Error('the download of everything is too short')
      const byName = Object.fromEntries(Object.keys(subjects).map((name, i) => [name, results[i]!]))
      runs.push({ ...(byName as Record<Name, Measured>), flushMs, flushedThenBareMs, plain, tabBytes })
      console.log(`offline phase ${results[0]!.offlineMs.toFixed(0)} ms`)
    }

    const sections = [
      { title: 'Lookups in Chromium', figures: figuresOf(options, runs, data.length, await shippedBytes()) },
    ]
    const loads = {
      merkle: queryLoad(recorded.merkle, merkle[0], manifest, 'merkle', data),
      tags: queryLoad(recorded.tags, tags[0], manifest, 'tags', data),
      'without privacy': plainLoad(plainServer.url, data, recordBytes),
    }
    const underLoad: Figure[] = []
    for (const clients of CLIENTS) {
      for (const [name, load] of Object.entries(loads)) {
        underLoad.push(...loadFigures(name, clients, await putUnderLoad(load, clients, LOAD_SECONDS)))
      }
    }
    const memory = (await Promise.all(servers.map(({ pid }) => peakBytes(pid)))).filter(bytes => bytes !== undefined)
    underLoad.push({
      name: 'memory of the server, three databases',
      unit: 'MiB',
      samples: memory.map(bytes => bytes / 2 ** 20),
    })
    return [...sections, { title: 'Many clients', figures: underLoad }]
  })
}

function figuresOf(options: Options, runs: readonly Run[], databaseBytes: number, scriptBytes: number): Figure[] {
  const each = (read: (run: Run) => number) => runs.map(read)
  const all = (read: (run: Run) => readonly number[]) => runs.flatMap(read)
  const within = (...limit: NonNullable<Figure['target']>) => target(options, ...limit)
  const more = (of: Name, than: Name) => each(run => median(run[of].lookupMs) - median(run[than].lookupMs))
  const perProofs = (
    name: string,
    unit: string,
    limit: NonNullable<Figure['target']>,
    kinds: readonly Name[],
    read: (of: Name) => readonly number[],
  ): Figure[] =>
    kinds.map(of => ({
      ...{ name, unit, target: within(...limit) },
      column: of.startsWith('merkle') ? 'merkle' : 'tags',
      samples: read(of),
    }))
  const [memory, durable] = [['merkle', 'tags'] as const, ['merkleDurable', 'tagsDurable'] as const]
  const offline = (of: Name) => each(run => run[of].offlineMs / 1000)
  const lookup = (of: Name) => all(run => run[of].lookupMs)
  const tags = { column: 'tags', unit: 'ms' }
  return [
    ...perProofs('lookup, in memory', 'ms', ['<', 10], memory, lookup),
    ...perProofs('lookup, durable', 'ms', ['≤', 5], durable, lookup),
    ...perProofs('– more than in memory', 'ms', ['<', 3], durable, of =>
      more(of, of === 'merkleDurable' ? 'merkle' : 'tags'),
    ),
    ...perProofs('lookup, durable, with a fence', 'ms', ['≤', 5], ['tagsFenced'], lookup),
    { name: '– more than without', ...tags, samples: more('tagsFenced', 'tagsDurable') },
    { name: 'lookup, durable, until requests leave', ...tags, samples: all(run => run.tagsDurable.leaveMs) },
    { name: 'a flush alone', ...tags, samples: all(run => run.flushMs) },
    { name: 'bare requests', ...tags, samples: all(run => run.tagsDurable.bareMs) },
    {
      ...{ name: 'lookup, durable, to bare requests', column: 'tags', unit: '×' },
      target: within('≤', 1.5),
      samples: each(run => median(run.tagsDurable.lookupMs) / median(run.tagsDurable.bareMs)),
    },
    {
      ...{ name: 'a flush, then bare requests, to bare requests', column: 'tags', unit: '×' },
      samples: each(run => median(run.flushedThenBareMs) / median(run.tagsDurable.bareMs)),
    },
    ...perProofs('offline phase, in memory', 's', ['≤', 1.2], memory, offline),
    ...perProofs('offline phase, durable', 's', ['≤', 1.2], durable, offline),
    ...perProofs('– to downloading everything', '×', ['≤', 2], durable, of =>
      each(run => run[of].offlineMs / run.plain.everythingMs),
    ),
    ...perProofs('reopening a stored map', 'ms', ['<', 300], durable, of => each(run => run[of].reopenMs!)),
    { name: 'downloading everything', unit: 's', samples: each(run => run.plain.everythingMs / 1000) },
    {
      ...{ name: 'longest task of an offline phase', unit: 'ms' },
      target: within('<', 100),
      samples: all(run => [run.merkle.longestTaskMs, run.tags.longestTaskMs]),
    },
    {
      ...{ name: 'offline phase, bodies', unit: '× the database' },
      target: within('<', 1.02),
      samples: each(run => run.merkle.offlineBytes / databaseBytes),
    },
    { name: 'a record without privacy', unit: 'ms', samples: all(run => run.plain.recordMs) },
    {
      ...{ name: 'memory of the tab, five maps open', unit: 'MiB' },
      samples: runs.flatMap(({ tabBytes }) => (tabBytes === undefined ? [] : [tabBytes / 2 ** 20])),
    },
    { name: 'scripts, brotli', unit: 'kB', samples: [scriptBytes / 1000] },
  ]
}

function loadFigures(column: string, clients: number, { perSecond, latencyMs }: LoadResult): Figure[] {
  const who = `${clients} ${clients === 1 ? 'client' : 'clients'}`
  return [
    { name: `${who}: answers a second`, column, unit: '', samples: [perSecond] },
    { name: `${who}: p50`, column, unit: 'ms', samples: [quantile(latencyMs, 0.5)] },
    { name: `${who}: p99`, column, unit: 'ms', samples: [quantile(latencyMs, 0.99)] },
  ]
}

/** The part of recorded lookups that went to one server; every record in every answer is compared with the data. */
function queryLoad(
  recorded: readonly RecordedLookup[],
  server: string,
  manifest: Manifest,
  proofs: Proofs,
  data: Buffer,
): Load {
  const { recordBytes, partitionRecords } = manifest
  const requests = recorded.flat().filter(({ url }) => url.startsWith(`${server}/`))
  const vectors = requests.map(({ body }) => {
    const { vectors } = decodeQuery(body)
    return Array.from({ length: vectors.length / 2 }, (_, q) => vectors[2 * q]! + 256 * vectors[2 * q + 1]!)
  })
  return {
    requests,
    check(i, reply) {
      const entries = decodeAnswer(manifest, 1, reply, proofs)
      const entryBytes = entries.length / manifest.partitions
      for (const [q, offset] of vectors[i]!.entries()) {
        const at = (q * partitionRecords + offset) * recordBytes
        const entry = entries.subarray(q * entryBytes, q * entryBytes + recordBytes)
        if (at < data.length && !data.subarray(at, at + recordBytes).equals(entry)) {
          throw new Error(`an answer under load is wrong in partition ${q}`)
        }
      }
    },
  }
}

function plainLoad(url: string, data: Buffer, recordBytes: number): Load {
  const indices = Array.from({ length: 1000 }, () => Math.floor((Math.random() * data.length) / recordBytes))
  return {
    requests: indices.map(index => ({ url: `${url}/${index}` })),
    check: (i, value) => check(data, recordBytes, [{ index: indices[i]!, value: Array.from(value) }]),
  }
}

/** What an app loads that looks up through a hint: the SDK, and its WebAssembly; the check of signatures comes when it is asked for. */
async function shippedBytes(): Promise<number> {
  const { parts, bytesOf } = await shipped()
  return bytesOf(parts.keeping)
}
