// docs/benchmarks.md, and its plots. Nobody writes numbers there by hand.

import { mkdir, rm, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { fig9, firstVisits, table1, table2 } from './comparisons.js'
import { type Comparison, markdown, table, writePlot } from './document.js'
import { type Options, readOptions } from './options.js'
import { report, type Section } from './report.js'
import type { SizeFigures } from './sweep.js'
import { LINE, type VisitFigures } from './visits.js'

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
  return comparisons.map(({ plot }) => `## ${plot.title}: ${plot.y}\n\n${table(plot)}\n`).join('\n')
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

export function documentOf({ options, sections, visited, sizes, browser }: Findings): string {
  const { shape, repeats, lookups } = options
  const command = `npm run bench -- --write${commandLine(options)}`
  const singlePass = table2(sizes)
  const parts = [
    `# Benchmarks

\`${command}\` made this page and its plots. \`npm run bench\` prints the first part in a few minutes,
\`npm run bench -- --all\` the whole.

Measured with ${browser} and Node ${process.versions.node} on ${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB.
Servers, browser and clients share the machine, and talk over loopback. Every value that a lookup brought was compared with
the data.

A figure is the median of what was measured; it passes if the median meets the target. Beside it stand the least and the
most, in the papers' tables and plots the 10th and the 90th percentile. Bytes are those of bodies.

## Against the targets

A keyless database of ${shape.records} records of ${shape.recordBytes} bytes, at the planned Q. Runs: ${repeats}, each with ${lookups} lookups of every kind
of map.

- **Computing** is the core alone, the same WebAssembly as servers run, in one Node process, in processor time. A lookup at
  the client is the query, the pending batch in its stored form, the verification of both answers, recovery and the effect
  in its stored form.
- **In Chromium** runs the SDK as an app ships it, in a fresh page each time, on two \`keyhush serve\` processes: \`open()\`
  until it resolves, then lookups of random records, of all maps in turn and with a pause after each, as \`at()\` takes
  until it resolves. A durable map's state is in IndexedDB, sealed. With a fence: the servers keep a store, and the
  rollback fence in it. Beside them, in the same page, what a browser takes for two bare requests with the same bodies, each
  pair a pause after the lookup that it repeats, so that both meet the same machine; for a record from a Fastify that is told which, and for all partitions; and for a row of a lookup's length until it is
  flushed, which a durable lookup has to wait for before anything leaves. The driver is not told of requests, as no user has
  one: that would make each half as long again.
- **Many clients** are connections that each send one query after the other, those of real clients, to one server process;
  the sender takes a processor of its own.
- **One server** has durable maps with a fence, each opened with nothing stored, and again in the end; edits are published in
  between. Figures of the paper (Mughees, Sun, Ren, Table 3: B = 40·√N lookups a download, ours 16 384; a search that stops at
  a hit; AES instructions) stand beside ours.
- **Instant lookups** have one worker thread, and the queue is full when a server refuses some. One at a time and eight in
  flight are clients that each send one lookup after the other; what each takes of the server is the time divided by the
  lookups. The most memory of a server with four threads to one with one is of processes whose threads have all worked.
- **A first visit** is a page that nothing is stored for: from the call of \`open({ mode })\` to the first record, with all
  bodies until then. Chromium shapes its line to ${LINE.megabits} Mbit/s and a round trip of ${LINE.roundTripMs} ms for each request
  (\`Network.emulateNetworkConditions\`), which is checked with a blob before each database is measured; what sets a connection
  up (DNS, TCP, TLS) is not delayed. The script is there already, and its WebAssembly is compiled within the time. What
  would download for more than half a minute is measured with \`--all\` alone. Values have 32 bytes, and keyed records 16
  more.
- **The demo’s page** is \`npm start -- --large\`, over the same line: from the navigation, with nothing cached in the browser,
  until the answer to the first example is on the screen, which is asked as soon as that can be. Scripts, styles,
  WebAssembly, manifests and signatures come within the time. With the page’s files cached, it is the second visit.
- **The main thread** runs an app, bundled in parts as apps are, in Chromium slowed six times (\`Emulation.setCPUThrottlingRate\`),
  on a keyed database of 9.6 MB whose newest manifest is signed. Its tasks are those of Chromium's trace, by the processor's time,
  the slowing included. A task counts for the phase in which it ends; \`import and open\` begins with the app's first script. The first answer is timed from when the script with
  the WebAssembly was there.
- **Pointproofs**: at the planned Q and at the paper's Q = √N, beside TAPIR-PP where the paper has figures at this N (Table 1,
  computing without a network; Fig. 9). Lookups, verified, are whole ones, of the SDK from two servers in processes of their own, and so
  is following a batch. An answer takes from the request to its last byte, one at a time; lagging, right after 500 edits
  that no opening has yet.
- **A database that changes** has its servers' stores on disk (LMDB). A batch takes from the request to the reply, which
  comes when it is on disk. An open page follows from the start of \`publish\`, to both servers, until the map has turned. With a batch
  as large as a request may carry, another thread sends one lookup after the other, 2 ms apart, and the longest wait counts.
`,
    ...sections.map(({ title, figures }) => `### ${title}\n\n${report(figures)}\n`),
    `The longest task is the longest that Chromium reports (\`longtask\`, from 50 ms), or, where it reports none, the longest
time between two turns of the page's event loop.

${visitsPart(visited)}## TAPIR, Table 1

Records of 32 bytes, against N, ours with both kinds of proof, at the planned Q and at the paper's Q = M = √N. The paper's
figures (Falzon, Hetz, O'Toole, Table 1: two Intel Xeon Gold 6258R at 2.7 GHz, Go) are drawn with broken lines; times that
it rounds to 0.00 s are left out. What the paper measures is computing without a network: ours beside it is the core in
WebAssembly. Whole offline phases and lookups, from the SDK on two server processes, have their own tables.
`,
    ...table1(sizes).map(comparison => `### ${heading(comparison.plot)}\n\n${markdown(comparison)}`),
    `## TAPIR, Fig. 9

Batches of 500 changes of distinct records: edits, additions, or both in turn; for each change. Where N = Q·M before the batch, additions open new partitions, whose digests the server
makes. Of the paper's figure only the numbers in its text are known: at most 86.01 B (83.48 B at N = 2^10), a client at
most 0.005 ms, the server 0.005 ms (Merkle, N = 2^10) to 370.5 ms (Pointproofs, N = 2^14).
`,
    ...fig9(sizes).map(comparison => `### ${heading(comparison.plot)}\n\n${markdown(comparison)}`),
  ]
  if (singlePass !== undefined) {
    parts.push(`## SinglePass, Table 2

3 000 000 records of 32 bytes, batches of 500 (Lazzaretti, Papamanthou: SinglePass at Q = 10, and Checklist; C and Go on
one thread of an EC2 machine). Neither checks what servers say. Offsets of ours have 16 bits, so that Q is at least 46.
A query is the computing of a client and both servers.

${singlePass}
`)
  }
  return parts.join('\n')
}

/** Their tables and plots; nothing if none was measured. */
function visitsPart(visited: readonly VisitFigures[]): string {
  const comparisons = firstVisits(visited)
  if (comparisons.length === 0) return ''
  const parts = comparisons.map(comparison => `### ${heading(comparison.plot)}\n\n${markdown(comparison)}\n`)
  return `## First visits\n\n${parts.join('')}`
}

function heading({ title, y }: { readonly title: string; readonly y: string }): string {
  return `${title}: ${y}`
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
