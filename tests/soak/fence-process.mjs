// `fill DIR COUNT NEW` fills the fence of an LMDB store with many hints; `measure DIR COUNT NEW` measures it as a server uses it,
// and prints JSON. A process of its own, so that its memory is the fence's. Other stores use `measured` too.
// `flood URL PATH…` reads from a server until it is killed, over many connections at a time. It tells its parent when it has begun.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setPriority } from 'node:os'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { bucketKey, CONFIRMED, encodeEntry, StoredFence } from '../../server/dist/database/stored-fence.js'
import { openLmdb } from '../../server/dist/storage/lmdb.js'

export const DAYS = 400
const DAY_SECONDS = 86_400
const ZERO = new Uint8Array(32)

/** Bytes that follow from `text` and look random. */
const scattered = (text, length) => createHash('sha256').update(text).digest().subarray(0, length)

/** The id of hint `i` of `count`: ids ascend with i, as far apart as random ones. */
export function hintId(i, count) {
  const id = Buffer.from(scattered(`hint ${i}`, 16))
  id.writeUInt32BE(Math.floor((i * 2 ** 32) / count))
  return id
}

/** Fills it in passes over all ids, so that pages are as full as after random inserts. A share of the entries expires each day. */
async function fill(dir, count, fresh) {
  const storage = await openLmdb(dir)
  // Its own clock, so that the entries are of its days.
  const today = Math.floor(Date.now() / 1000 / DAY_SECONDS)
  const put = async (prefix, entries) =>
    storage.transact([], transaction => {
      for (const [id, entry] of entries) {
        const key = prefix + id.toString('hex')
        transaction.put(key, encodeEntry(key, entry))
      }
    })
  const PASSES = 4
  const TOGETHER = 20_000
  for (let pass = 0; pass < PASSES; pass++) {
    for (let i = pass; i < count; ) {
      const entries = []
      for (; i < count && entries.length < TOGETHER; i += PASSES) {
        entries.push([
          hintId(i, count),
          { version: 1, requestHash: scattered(`${i}`, 32), day: today - (i % (DAYS + 1)) },
        ])
      }
      await put(CONFIRMED, entries)
    }
  }
  // As full as a flood makes them.
  const BUCKETS = 8
  const seconds = Math.floor(Date.now() / 1000)
  for (let bucket = 0; bucket < BUCKETS; bucket++) {
    const end = Math.floor(((bucket + 1) * fresh) / BUCKETS)
    for (let i = Math.floor((bucket * fresh) / BUCKETS); i < end; ) {
      const entries = []
      for (; i < end && entries.length < TOGETHER; i++) {
        entries.push([scattered(`new ${i}`, 16), { version: 0, requestHash: ZERO, day: today }])
      }
      await put(bucketKey({ began: seconds - BUCKETS + bucket }), entries)
    }
  }
  await storage.close()
}

async function measure(dir, count, fresh) {
  const begun = performance.now()
  const storage = await openLmdb(dir)
  let passed = 0
  const elapsed = () => performance.now() / 1000 + passed
  const fence = await StoredFence.open(storage, { entries: Math.ceil(1.25 * count), days: DAYS, elapsed })
  const startSeconds = (performance.now() - begun) / 1000
  if (fence.hints !== count + fresh) throw new Error(`expected ${count + fresh} hints, got ${fence.hints}`)
  const figures = await measured(fence, count, days => {
    passed += days * DAY_SECONDS
  })
  await storage.close()
  return { startSeconds, ...figures }
}

/**
 * Milliseconds are of a request, but for `longestMs`: the event loop was held for so long at most. `gone`: hints that were removed.
 * @typedef {{ perSecond: number, p50: number, p99: number, processorMs: number, longestMs: number, gone?: number }} Phase
 * @typedef {{ phases: Record<string, Phase>, ownMiB: number, mappedMiB: number }} Measured
 */

/**
 * The costs of a fence with `count` hints; `pass` lets days pass.
 * @param {import('../../server/dist/database/fence.js').Fence} fence
 * @param {number} count
 * @param {(days: number) => void} pass
 * @returns {Promise<Measured>}
 */
export async function measured(fence, count, pass) {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  const version = new Map()
  const confirming = new Set()
  const confirm = async i => {
    const to = (version.get(i) ?? 1) + 1
    version.set(i, to)
    confirming.add(i)
    const request = { kind: 'confirm', databaseId: new Uint8Array(16), hintId: hintId(i, count), version: to }
    const verdict = await fence.judge({ ...request, requestHash: scattered(`${i} ${to}`, 32) })
    confirming.delete(i)
    if (verdict !== 'granted') throw new Error(`hint ${i} was ${verdict}`)
  }
  let registered = 0
  const register = async () => {
    const n = registered++
    const id = scattered(`flood ${n} ${process.pid}`, 16)
    const request = { kind: 'register', databaseId: new Uint8Array(16), hintId: id, version: 0, requestHash: ZERO }
    await fence.judge(request, `network ${n % 90_000}`)
  }
  let drawn = 1
  // Those of the last day expire below. A client confirms one step of a hint at a time: of two on their way the later may come first.
  const anyHint = () => {
    for (;;) {
      drawn = (Math.imul(drawn, 1_664_525) + 1_013_904_223) >>> 0
      const hint = Math.floor((drawn / 2 ** 32) * count)
      if (hint % (DAYS + 1) < DAYS - 5 && !confirming.has(hint)) return hint
    }
  }
  const phases = {}
  const phase = async (name, work, times, together) => {
    delay.reset()
    const cpu = process.cpuUsage()
    const milliseconds = []
    const begun = performance.now()
    let left = times
    const client = async () => {
      while (left-- > 0) {
        const start = performance.now()
        await work()
        milliseconds.push(performance.now() - start)
      }
    }
    await Promise.all(Array.from({ length: together }, client))
    const all = performance.now() - begun
    const { user, system } = process.cpuUsage(cpu)
    milliseconds.sort((a, b) => a - b)
    phases[name] = {
      perSecond: (1000 * times) / all,
      p50: milliseconds[Math.floor(times / 2)],
      p99: milliseconds[Math.floor(0.99 * times)],
      processorMs: (user + system) / 1000 / times,
      longestMs: delay.max / 1e6,
    }
  }
  const lookup = () => confirm(anyHint())
  await phase('warm-up', lookup, 500, 8) // and what is left of the round that a start begins
  const round = async name => {
    const before = fence.hints
    await phase(name, lookup, Math.ceil(count / 250) + 100, 64)
    phases[name].gone = before - fence.hints
  }
  await round('a round over all that finds nothing to remove')
  await phase('confirmations, one at a time', lookup, 2000, 1)
  await phase('confirmations, 64 at a time', lookup, 20_000, 64)
  await phase('registrations, 64 at a time', register, 20_000, 64)
  pass(1)
  await round('the day after')
  const old = { kind: 'confirm', databaseId: new Uint8Array(16), version: 1, requestHash: scattered('x', 32) }
  const [[rewound]] = version
  if ((await fence.judge({ ...old, hintId: hintId(rewound, count) })) !== 'refused')
    throw new Error('a step back was granted')
  const status = readFileSync('/proc/self/status', 'utf8')
  const mib = name => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)[1]) / 1024
  return { phases, ownMiB: mib('RssAnon'), mappedMiB: mib('RssFile') }
}

/** An attacker has processors of its own: the server, its store and the client that is measured come first here. */
const LOWEST_PRIORITY = 19
const CONNECTIONS = 64
const BEGUN = 1000

/** With sockets alone: a client of Node's takes more than the server. Paths are of replies with Content-Length. */
function flood(url, paths) {
  setPriority(LOWEST_PRIORITY)
  process.once('disconnect', () => process.exit())
  const { port, hostname } = new URL(url)
  let [sent, replies] = [0, 0]
  for (let i = 0; i < CONNECTIONS; i++) {
    const socket = connect({ port: Number(port), host: hostname, noDelay: true })
    const ask = () => socket.write(`GET ${paths[sent++ % paths.length]} HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`)
    let left = 0
    socket.on('connect', ask).on('data', bytes => {
      if (left === 0) {
        const end = bytes.indexOf('\r\n\r\n') + 4
        const [, length] = /^HTTP\/1.1 200 .*\ncontent-length: (\d+)/is.exec(bytes.toString('latin1', 0, end)) ?? []
        if (length === undefined) throw new Error('expected a whole head of a reply with 200, got another')
        left = Number(length) + end
      }
      left -= bytes.length
      if (left > 0) return
      if (++replies === BEGUN) process.send('begun')
      ask()
    })
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [what, where, ...rest] = process.argv.slice(2)
  const result = what === 'flood' ? flood(where, rest) : await { fill, measure }[what](where, ...rest.map(Number))
  if (result !== undefined) console.log(JSON.stringify(result))
}
