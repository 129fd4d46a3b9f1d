// docs/benchmarks.md, and its plots. Nobody writes numbers there by hand.

import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { fig9, firstVisits, table1, table2 } from './comparisons.js'
import { type Comparison, heading, markdown, picture, table, writePlot } from './document.js'
import { ONE_SERVER_COMPUTING, ONE_SERVER_MORE } from './one-server.js'
import { ONE_SERVER_PEERS } from './one-server-peers.js'
import { type Options, readOptions } from './options.js'
import { report, type Section } from './report.js'
import type { SizeFigures } from './sweep.js'
import { LINE, VISITS, type VisitFigures } from './visits.js'

const DOCS = new URL('../../docs/', import.meta.url)

/** The papers' tables as a terminal shows them. */
export function printed(sizes: readonly SizeFigures[]): string {
  const parts = [tables([...table1(sizes), ...fig9(sizes)])]
  const singlePass = table2(sizes)
  if (singlePass !== undefined) parts.push(`## SinglePass, Table 2\n\n${singlePass}\n`)
  return parts.join('\n')
}

/** Comparisons as a terminal shows them. */
export function tables(comparisons: readonly Comparison[]): string {
  return comparisons.map(({ plot }) => `## ${heading(plot)}\n\n${table(plot)}\n`).join('\n')
}

export interface Findings {
  readonly options: Options
  readonly sections: readonly Section[]
  readonly visited: readonly VisitFigures[]
  readonly sizes: readonly SizeFigures[]
  /** the browser's own name for itself */
  readonly browser: string
}

/** Writes the document and its plots. */
export async function writeDocument(findings: Findings): Promise<void> {
  const plots = new URL('plots/', DOCS)
  await rm(new URL('bench/', plots), { recursive: true, force: true })
  await mkdir(new URL('bench/', plots), { recursive: true })
  const { sizes, visited } = findings
  for (const comparison of [...firstVisits(visited), ...table1(sizes), ...fig9(sizes)])
    await writePlot(plots, comparison)
  await writeFile(new URL('benchmarks.md', DOCS), documentOf(findings))
}

/** Writes these sections anew into the document as it is. The first says where they were measured. */
export async function writeSections(sections: readonly Section[]): Promise<void> {
  const file = new URL('benchmarks.md', DOCS)
  let document = await readFile(file, 'utf8')
  for (const [i, section] of sections.filter(isShown).entries()) {
    const [head, ...rest] = sectionPart(section, []).split('\n\n')
    const measured = i === 0 ? [`Measured on ${machine()}.`] : []
    const part = [head, ...measured, ...rest].join('\n\n')
    const begin = document.indexOf(`${head}\n`)
    const after = begin < 0 ? document.indexOf('\n## TAPIR') + 1 : document.slice(begin + 3).search(/^##/m) + begin + 3
    document = `${document.slice(0, begin < 0 ? after : begin)}${part}\n${document.slice(after)}`
  }
  await writeFile(file, document)
}

function machine(): string {
  return `${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB`
}

function isShown({ title }: Section): boolean {
  return title !== ONE_SERVER_MORE
}

export function documentOf({ options, sections, visited, sizes, browser }: Findings): string {
  const { shape, repeats, lookups } = options
  const command = `npm run bench -- --write${commandLine(options)}`
  const singlePass = table2(sizes)
  const parts = [
    `# Benchmarks

\`${command}\` made this page and its plots.

Measured with ${browser} and Node ${process.versions.node} on ${machine()}.
Servers, browser and clients share the machine and talk over loopback. Every looked-up value was compared with the data.

A cell is a median, with the least and the most, then the target: ✓ if the median meets it, else ✗. In the papers' tables
and plots the spread is from the 10th to the 90th percentile. Bytes are those of bodies.

## Against the targets

A keyless database of N = ${shape.records} records of ${shape.recordBytes} bytes, at the planned Q, if a table names no other. Runs: ${repeats}, each
with ${lookups} lookups of every kind of map.
`,
    ...sections.filter(isShown).map(section => sectionPart(section, visited)),
    `## TAPIR, Table 1

Records of 32 bytes, both kinds of proof, the planned Q and the paper's Q = M = √N. The paper's figures (Falzon, Hetz,
O'Toole, Table 1: two Intel Xeon Gold 6258R at 2.7 GHz, Go) have broken lines; times rounded to 0.00 s are left out. The
paper measures computing without a network; ours beside it is the core in WebAssembly. Bytes are in [Costs](costs.md#beside-the-papers).
`,
    ...table1(sizes).map(markdown),
    `## TAPIR, Fig. 9

Batches of 500 changes of distinct records: edits, additions, or both in turn; figures are for each change. Where N = Q·M
before the batch, additions open new partitions, whose digests the server makes. The paper's text gives at most 0.005 ms for a
client. Its server takes 0.005 ms (Merkle, N = 2^10) to 370.5 ms (Pointproofs, N = 2^14). It has at most 86.01 B; ours
follow from [Costs](costs.md).
`,
    ...fig9(sizes).map(markdown),
  ]
  if (singlePass !== undefined) {
    parts.push(`## SinglePass, Table 2

3 000 000 records of 32 bytes, batches of 500. The paper (Lazzaretti, Papamanthou) has SinglePass at Q = 10, and Checklist, in
C and Go on one thread of an EC2 machine. Neither verifies answers. Our offsets have 16 bits, so Q is at least 46. A query
is the computing of a client and both servers.

${singlePass}
`)
  }
  return parts.join('\n')
}

/** How the figures of sections were measured, by how their titles begin. */
const NOTES: Readonly<Record<string, string>> = {
  Computing: `The core alone, in WebAssembly under Node, as servers run it: processor time of one process. A client's lookup is the query,
its pending batch, verification of both answers, recovery and the effect. Batch and effect are in their stored forms.`,
  'Lookups in Chromium': `The SDK as an app ships it, in a fresh page each time, with two \`keyhush serve\` processes. Times run until \`open()\` or
\`at()\` resolves. A durable map keeps its state in
IndexedDB, sealed. It flushes a row before anything leaves; a flush alone is a strict transaction with such a row. Bare requests
are two, with the bodies of a lookup. Without privacy, a Fastify server learns which record. The longest task is Chromium's
(\`longtask\`, from 50 ms), or else the longest time between two turns of the event loop.`,
  'Many clients': `A client is a connection that sends queries of real clients, one after the other, to one server process. The sender takes a
processor of its own.`,
  'One server: computing': `The paper is Mughees, Sun, Ren, Table 3: B = 40·√N lookups a download (ours 16 384), a search that stops at a hit, AES
instructions.`,
  'One server: in Chromium': `Durable maps with a fence, each opened with nothing stored, and again in the end. Edits are published in between.`,
  'Instant lookups': `Servers have one worker thread. Eight in flight are clients that each send one lookup after the other; a lookup's share is the
time divided by the lookups. Processor time is of all threads. The queue is full when the server refuses lookups. A client
makes requests and verifies answers. For memory, all threads have worked.`,
  [ONE_SERVER_COMPUTING]: `The core alone, in WebAssembly under Node: processor time, one thread. Sizes are in [Costs](costs.md).`,
  'One server, no download: first visits': `As [first visits](#first-visits): the script is there. Or an app comes in parts, in brotli.`,
  'Instant lookups without WebAssembly': `What a client computes for a lookup of a key, both steps, without network: in JavaScript beside WebAssembly, in turn. The first
lookup of a fresh page includes compiling. Sizes are of each core alone, with all that it imports.`,
  'Phones: Hermes': `The package in Hermes 0.12, an interpreter, beside Node in one run: what a lookup of a key computes, and whole lookups with two
\`keyhush serve\` processes on this machine. Memory is what the process has more than with an app without the package.`,
  'Phones: Chromium': `The app is one page with \`@keyhush/client/instant\`, its processor slowed six times, its line shaped as for first visits.`,
  'Phones: memory': `The most of a page's process, keyless, in a browser that saves memory as on a small phone
(\`--enable-low-end-device-mode\`).`,
  'A database that changes': `Stores are on disk (LMDB). A batch takes from the request to the reply, which comes when it is on disk. An open page follows
from the start of \`publish\`, to both servers, until the map has turned.`,
  'A batch as large': `Another thread sends lookups one after the other, 2 ms apart; the longest wait counts.`,
  'The demo’s page': `\`npm start -- --large\` over the line of first visits: from navigation until the answer to the first example, asked as soon as
possible, is on the screen. Scripts, styles, WebAssembly, manifests and signatures count.`,
  'The main thread': `An app, bundled in parts, in Chromium slowed six times (\`Emulation.setCPUThrottlingRate\`). Its keyed database has 9.6 MB and
a signed newest manifest. Tasks are those of Chromium's trace, in processor time, slowing included. A task counts for the phase
in which it ends; \`import and open\` begins with the app's first script.`,
  'Pointproofs, planned': `The planned Q is 16. TAPIR-PP is from the paper, where it has this N (Table 1, computing without a network; Fig. 9). Lookups
are verified. Lookups and edits at a client are whole: the SDK with two server processes. A build proves all records; a record
is in processor time. Folding lags right after 500 edits that
no opening has yet. Edits at a server are timed until they are published. The bytes of an edit count manifests.`,
  [VISITS]: `A page with nothing stored, from the call of \`open({ mode })\` to the first record, and the bytes moved by then. Chromium shapes
its line to ${LINE.megabits} Mbit/s and ${LINE.roundTripMs} ms for each request (\`Network.emulateNetworkConditions\`); a blob checks that for each database.
Connection setup (DNS, TCP, TLS) is not delayed. The script is there already; its WebAssembly compiles within the time.
Values have 32 bytes, keyed records 16 more.`,
}

/** A heading, how it was measured, the table; and of first visits the plots. Readers do not know the design's figures. */
function sectionPart({ title, figures }: Section, visited: readonly VisitFigures[]): string {
  const shown = figures.map(figure => (figure.target?.[0] === 'design' ? { ...figure, target: undefined } : figure))
  const notes = Object.entries(NOTES).filter(([begin]) => title.startsWith(begin))
  const beside = title === ONE_SERVER_COMPUTING ? [ONE_SERVER_PEERS] : []
  const plots = title === VISITS ? firstVisits(visited).map(picture) : []
  return `${[`### ${title}`, ...notes.map(([, note]) => note), report(shown), ...plots, ...beside].join('\n\n')}\n`
}

/** Options other than the defaults. */
function commandLine({ shape, repeats, lookups, sizes, visits, proved }: Options): string {
  const defaults = readOptions([])
  const given = {
    records: [shape.records, defaults.shape.records],
    'record-bytes': [shape.recordBytes, defaults.shape.recordBytes],
    repeats: [repeats, defaults.repeats],
    lookups: [lookups, defaults.lookups],
    sizes: [sizes.join(), defaults.sizes.join()],
    visits: [visits.join(), defaults.visits.join()],
    proved: [proved.join(), defaults.proved.join()],
  }
  return Object.entries(given)
    .map(([name, [value, usual]]) => (value === usual ? '' : ` --${name} ${value}`))
    .join('')
}
