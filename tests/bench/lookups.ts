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
      { title: 'Lookups, in Chromium', figures: figuresOf(options, runs, data.length, await shippedBytes()) },
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
      name: 'Memory of that process (three such databases)',
      unit: 'MiB',
      samples: memory.map(bytes => bytes / 2 ** 20),
    })
    return [...sections, { title: 'One server under many clients', figures: underLoad }]
  })
}

function figuresOf(options: Options, runs: readonly Run[], databaseBytes: number, scriptBytes: number): Figure[] {
  const each = (read: (run: Run) => number) => runs.map(read)
  const all = (read: (run: Run) => readonly number[]) => runs.flatMap(read)
  const within = (...limit: NonNullable<Figure['target']>) => target(options, ...limit)
  const more = (of: Name, than: Name) => each(run => median(run[of].lookupMs) - median(run[than].lookupMs))
  return [
    {
      name: 'Lookup, in memory, merkle',
      unit: 'ms',
      target: within('<', 10),
      samples: all(run => run.merkle.lookupMs),
    },
    { name: 'Lookup, in memory, tags', unit: 'ms', target: within('<', 10), samples: all(run => run.tags.lookupMs) },
    {
      name: 'Lookup, durable, merkle',
      unit: 'ms',
      target: within('≤', 5),
      samples: all(run => run.merkleDurable.lookupMs),
    },
    {
      name: 'Lookup, durable, tags',
      unit: 'ms',
      target: within('≤', 5),
      samples: all(run => run.tagsDurable.lookupMs),
    },
    {
      name: 'Lookup, durable, tags, with a fence',
      unit: 'ms',
      target: within('≤', 5),
      samples: all(run => run.tagsFenced.lookupMs),
    },
    {
      name: 'Durable state, more a lookup, merkle',
      unit: 'ms',
      target: within('<', 3),
      samples: more('merkleDurable', 'merkle'),
    },
    {
      name: 'Durable state, more a lookup, tags',
      unit: 'ms',
      target: within('<', 3),
      samples: more('tagsDurable', 'tags'),
    },
    { name: 'The fence, more a lookup', unit: 'ms', samples: more('tagsFenced', 'tagsDurable') },
    {
      name: 'Lookup, durable, tags, of it until its requests leave',
      unit: 'ms',
      samples: all(run => run.tagsDurable.leaveMs),
    },
    { name: 'A strict transaction by itself, of as long a row', unit: 'ms', samples: all(run => run.flushMs) },
    { name: 'Two bare requests of the same bodies, tags', unit: 'ms', samples: all(run => run.tagsDurable.bareMs) },
    {
      name: 'Lookup, durable, tags, to two bare requests in the same run',
      unit: '×',
      target: within('≤', 1.5),
      samples: each(run => median(run.tagsDurable.lookupMs) / median(run.tagsDurable.bareMs)),
    },
    {
      name: 'A strict transaction and then these requests, without the SDK, to the requests alone',
      unit: '×',
      samples: each(run => median(run.flushedThenBareMs) / median(run.tagsDurable.bareMs)),
    },
    { name: 'A record without privacy', unit: 'ms', samples: all(run => run.plain.recordMs) },
    {
      name: 'Offline phase, merkle',
      unit: 's',
      target: within('≤', 1.2),
      samples: each(run => run.merkle.offlineMs / 1000),
    },
    {
      name: 'Offline phase, tags',
      unit: 's',
      target: within('≤', 1.2),
      samples: each(run => run.tags.offlineMs / 1000),
    },
    {
      name: 'Offline phase, durable, merkle',
      unit: 's',
      target: within('≤', 1.2),
      samples: each(run => run.merkleDurable.offlineMs / 1000),
    },
    {
      name: 'Offline phase, durable, tags',
      unit: 's',
      target: within('≤', 1.2),
      samples: each(run => run.tagsDurable.offlineMs / 1000),
    },
    { name: 'Downloading everything', unit: 's', samples: each(run => run.plain.everythingMs / 1000) },
    ...(['merkleDurable', 'tagsDurable'] as const).map(
      (of): Figure => ({
        name: `Offline phase, durable, ${of === 'merkleDurable' ? 'merkle' : 'tags'}, to downloading everything in the same run`,
        unit: '×',
        target: within('≤', 2),
        samples: each(run => run[of].offlineMs / run.plain.everythingMs),
      }),
    ),
    {
      name: 'Longest task of an offline phase',
      unit: 'ms',
      target: within('<', 100),
      samples: all(run => [run.merkle.longestTaskMs, run.tags.longestTaskMs]),
    },
    {
      name: 'Reopening a stored map, merkle',
      unit: 'ms',
      target: within('<', 300),
      samples: each(run => run.merkleDurable.reopenMs!),
    },
    {
      name: 'Reopening a stored map, tags',
      unit: 'ms',
      target: within('<', 300),
      samples: each(run => run.tagsDurable.reopenMs!),
    },
    {
      name: 'Permutations and hint',
      unit: 'MiB',
      target: within('<', 6),
      samples: each(run => run.merkle.stateBytes / 2 ** 20),
    },
    { name: 'and tags', unit: 'MiB', samples: each(run => run.tags.stateBytes / 2 ** 20) },
    {
      name: 'Bodies of a lookup, merkle',
      unit: 'KiB',
      target: within('≤', 18),
      samples: each(run => run.merkle.lookupBytes / 2 ** 10),
    },
    {
      name: 'Bodies of a lookup, tags',
      unit: 'KiB',
      target: within('≤', 1.3),
      samples: each(run => run.tags.lookupBytes / 2 ** 10),
    },
    {
      name: 'Offline bodies',
      unit: 'databases',
      target: within('<', 1.02),
      samples: each(run => run.merkle.offlineBytes / databaseBytes),
    },
    {
      name: "Memory of the tab's process, five maps open",
      unit: 'MiB',
      samples: runs.flatMap(({ tabBytes }) => (tabBytes === undefined ? [] : [tabBytes / 2 ** 20])),
    },
    { name: 'JavaScript and WebAssembly, brotli', unit: 'kB', samples: [scriptBytes / 1000] },
  ]
}

function loadFigures(name: string, clients: number, { perSecond, latencyMs }: LoadResult): Figure[] {
  const who = `${clients} ${clients === 1 ? 'client' : 'clients'}, ${name}`
  return [
    { name: `${who}: answers a second`, unit: '/s', samples: [perSecond] },
    { name: `${who}: p50`, unit: 'ms', samples: [quantile(latencyMs, 0.5)] },
    { name: `${who}: p99`, unit: 'ms', samples: [quantile(latencyMs, 0.99)] },
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
