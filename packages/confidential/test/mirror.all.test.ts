// What a break-in finds on a mirror's disk and in its memory, and in an evaluator's: real processes of one list, after lookups. The same
// list without `transform` shows that the search finds what is there.

import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open as openFile, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { open } from '@keyhush/client/instant'
import { confidential } from '@keyhush/confidential'
import { createOwnerKey, transform } from '@keyhush/confidential/server'
import { loadCore } from '@keyhush/wasm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runKeyhush } from '../../../server/test/command.js'
import { NEEDS_LINUX } from '../../../tests/support/needs.js'
import { type ServerProcess, startListening, startServerProcess } from '../../../tests/support/processes.js'
import { temporaryFolder } from '../../../tests/support/servers.js'

const BIN = fileURLToPath(new URL('../bin/keyhush-confidential.js', import.meta.url))
const LIMITS = ['--per-client-day', '1000', '--total-day', '1000']

/** Read at a time, and how much of it is read again: no canary is cut in two. */
const [PIECE, OVERLAP] = [1 << 24, 64]

const canary = { key: `key-${randomBytes(12).toString('hex')}`, value: `value-${randomBytes(12).toString('hex')}` }

let folder: Awaited<ReturnType<typeof temporaryFolder>>
/** by what each is called */
let canaries: Readonly<Record<string, Buffer>>
const processes: ServerProcess[] = []
const at = (name: string) => join(folder.path, name)

beforeAll(async () => {
  folder = await temporaryFolder()
  const { fingerprint } = await loadCore()
  const [key, value] = [Buffer.from(canary.key), Buffer.from(canary.value)]
  // A list that is not transformed has this hash in the place of the key: whoever guesses the key computes it.
  canaries = { key, value, fingerprint: Buffer.from(fingerprint(key)) }
  const others = Array.from({ length: 500 }, (_, i) => `other-${i},value-${randomBytes(12).toString('hex')}\n`)
  // The key's own text too, as a value: else no list would have it.
  await writeFile(at('list.csv'), `key,value\n${canary.key},${canary.value}\nname,${canary.key}\n${others.join('')}`)
})
afterAll(async () => {
  for (const each of processes) await each.stop()
  await folder.remove()
})

/** Two servers of a list, as operators run them. */
async function serve(name: string, list: string, ...options: string[]): Promise<ServerProcess[]> {
  await runKeyhush('build', list, '--out', at(`${name}-dataset`), ...options)
  const servers = [1, 2].map(i => {
    const args = ['--dataset', at(`${name}-dataset`), '--store', at(`${name}-store-${i}`), '--no-blobs']
    return startServerProcess(...args)
  })
  const started = await Promise.all(servers)
  processes.push(...started)
  return started
}

const urlsOf = (all: readonly ServerProcess[]) => all.map(({ url }) => url)

/** What a piece of a file or of a memory has of the canaries. */
const namesIn = (piece: Buffer) => Object.keys(canaries).filter(name => piece.includes(canaries[name]!))

/** In all files of these servers. */
async function inFiles(name: string): Promise<string[]> {
  const found = new Set<string>()
  for (const folderName of (await readdir(folder.path)).filter(each => each.startsWith(`${name}-`))) {
    const files = (await readdir(at(folderName), { recursive: true, withFileTypes: true })).filter(file =>
      file.isFile(),
    )
    expect(files.length).toBeGreaterThan(0)
    for (const { parentPath, name } of files) {
      let before = Buffer.alloc(0)
      for await (const chunk of createReadStream(join(parentPath, name), { highWaterMark: PIECE })) {
        const piece = Buffer.concat([before, chunk as Buffer])
        for (const each of namesIn(piece)) found.add(each)
        before = piece.subarray(-OVERLAP)
      }
    }
  }
  return [...found].sort()
}

/** In all memory that a process can read. It stands still meanwhile. */
async function inMemory({ pid }: ServerProcess): Promise<string[]> {
  const found = new Set<string>()
  process.kill(pid, 'SIGSTOP')
  const memory = await openFile(`/proc/${pid}/mem`)
  try {
    let bytes = 0
    for (const line of (await readFile(`/proc/${pid}/maps`, 'utf8')).split('\n')) {
      const [, from, to] = /^([0-9a-f]+)-([0-9a-f]+) r/.exec(line) ?? []
      if (from === undefined || /\[v|anon_inode/.test(line)) continue // the kernel's own
      const [start, end] = [Number.parseInt(from, 16), Number.parseInt(to!, 16)]
      for (let position = start; position < end; position += PIECE - OVERLAP) {
        const piece = Buffer.alloc(Math.min(PIECE, end - position))
        const { bytesRead } = await memory.read(piece, 0, piece.length, position)
        bytes += bytesRead
        for (const each of namesIn(piece.subarray(0, bytesRead))) found.add(each)
      }
    }
    expect(bytes).toBeGreaterThan(1e7)
  } finally {
    await memory.close()
    process.kill(pid, 'SIGCONT')
  }
  return [...found].sort()
}

test(
  'no key and no value of a confidential list is on a mirror’s disk, in its memory or in an evaluator’s',
  NEEDS_LINUX,
  async () => {
    const evaluationKey = await createOwnerKey(at('owner.key'), { valueBytes: 32, evaluators: 2, atLeast: 2 })
    await transform({ from: at('list.csv'), to: at('blind.csv'), key: at('owner.key') })
    const options = ['--value-encoding', 'base64', '--name', `confidential-${evaluationKey}`]
    const servers = await serve('sealed', at('blind.csv'), ...options)
    const evaluators = await Promise.all(
      [1, 2].map(i => {
        const files = ['--share', at(`share-${i}`), '--count-in', at(`count-${i}`)]
        return startListening(BIN, 'serve', '--port', '0', '--drain-seconds', '0', ...files, ...LIMITS)
      }),
    )
    processes.push(...evaluators)
    const map = confidential(await open({ servers: urlsOf(servers) }), {
      evaluationKey,
      evaluators: urlsOf(evaluators),
    })
    expect(await map.getText(canary.key)).toBe(canary.value)
    expect(await inFiles('sealed')).toEqual([])
    for (const each of [...servers, ...evaluators]) expect(await inMemory(each)).toEqual([])
    expect(await map.getText(canary.key)).toBe(canary.value) // they still answer
    await map.close()
  },
)

test('the same list is found where it was not transformed, on the disk and in the memory', NEEDS_LINUX, async () => {
  const servers = await serve('plain', at('list.csv'))
  const map = await open({ servers: urlsOf(servers) })
  expect(await map.getText(canary.key)).toBe(canary.value)
  const all = ['fingerprint', 'key', 'value']
  expect(await inFiles('plain')).toEqual(all)
  for (const each of servers) expect(await inMemory(each)).toEqual(all)
  await map.close()
})
