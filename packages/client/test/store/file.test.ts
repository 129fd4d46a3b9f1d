// The file store on disks that lose power, fill up and rot, and on a real one.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { NEEDS_POSIX, needs } from '../../../../tests/support/needs.js'
import { THOROUGH } from '../../../../tests/support/thorough.js'
import type { Disk, OpenFile } from '../../src/store/disk.js'
import { FileStore } from '../../src/store/file.js'
import { Folder, openFileStore } from '../../src/store/folder.js'
import { encodeFrame, type FrameKind } from '../../src/store/frames.js'
import { MemoryStore } from '../../src/store/memory.js'
import {
  type Advance,
  type StateStore,
  StateUnreadableError,
  StoreFullError,
  StoreUnavailableError,
} from '../../src/store/store.js'
import { show } from '../../src/testing/expect.js'
import { bytes, epochOf, observe, recordOf } from '../../src/testing/fixtures.js'
import { drawing } from '../support/random.js'
import { testConformance } from './conform.js'
import { KEEPS_ALL, LOSES_ALL, type Loss, losesSome, SimulatedDisk, ZEROS } from './power.js'

/** There can be no second store on one disk. */
async function benchOf(open: () => Promise<FileStore>, end: () => Promise<void>, remove: () => Promise<void>) {
  const store = await open()
  const crash = async () => {
    await end()
    bench.store = await open()
    bench.other = bench.store
  }
  const bench = { store, other: store, crash, remove }
  return bench
}

testConformance('file, losing whatever is not synced,', async () => {
  let disk = new SimulatedDisk()
  const end = async () => {
    disk = disk.after(LOSES_ALL)
  }
  return await benchOf(
    () => FileStore.open(disk),
    end,
    async () => {},
  )
})

testConformance(
  'file, on a real disk,',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'keyhush-store-'))
    let kill = async () => {}
    const open = () => {
      const killed = killable(new Folder(folder))
      kill = killed.kill
      return FileStore.open(killed.disk)
    }
    const remove = async () => {
      await kill()
      await rm(folder, { recursive: true })
    }
    return await benchOf(open, () => kill(), remove)
  },
  20,
)

/** A disk whose user can be killed: its files are closed, its lock is let go, and nothing it does has an effect any more. */
function killable(disk: Disk): { disk: Disk; kill(): Promise<void> } {
  const files: Pick<OpenFile, 'close'>[] = []
  let dead = false
  const handler = {
    get: (target: Disk, method: keyof Disk) => async (name: string, to: string) => {
      if (dead) throw new Error('this process is dead')
      const result = await target[method](name, to)
      if (method === 'lock') files.push({ close: result as () => Promise<void> })
      if (method !== 'create' && method !== 'append') return result
      const file = closedOnce(result as OpenFile)
      files.push(file)
      return file
    },
  }
  const kill = async () => {
    dead = true
    for (const file of files) await file.close()
  }
  return { disk: new Proxy(disk, handler), kill }
}

function closedOnce(file: OpenFile): OpenFile {
  let closed: Promise<void> | undefined
  return { ...file, close: () => (closed ??= file.close()) }
}

// A life, through every method that writes.
const A = recordOf(1)
const B = recordOf(2)
type Steps = readonly ((store: StateStore) => Promise<unknown>)[]
const halfMade: Steps = [
  store => store.begin(A, bytes('partial', 40), bytes('directory', 30), undefined),
  store => store.putPartial(A.hintId, 0, bytes('more', 50)),
  store => store.updatePartial(A.hintId, 0, { partial: bytes('in epoch 2', 55), ...epochOf(1, 2) }),
  store => store.putPartial(A.hintId, 1, bytes('still more', 60)),
  store => store.updatePartial(A.hintId, 1, { partial: bytes('in epoch 3', 65), ...epochOf(1, 3) }),
]
const justWhole: Steps = [...halfMade, store => store.complete(A.hintId, 2, bytes('checkpoint', 70))]
const inUse: Steps = [
  ...justWhole,
  ...[2, 3, 4].flatMap(lookUp),
  store => store.putPending(A.hintId, 5, bytes('pending 5', 50)),
]
const life: Steps = [
  ...inUse,
  store => store.putVerifier(A.hintId, bytes('what verifies', 80)),
  store => store.putCheckpoint(A.hintId, 4, checkpoint('at 4', 3)),
  store => store.putCheckpoint(A.hintId, 4, checkpoint('again at 4', 3)),
  store => store.advance(A.hintId, 5, advance(5, 4, bytes('pending 5, extended', 55))),
  store => store.putPending(A.hintId, 6, bytes('pending 5, extended', 55)),
  store => store.commit(A.hintId, 6, bytes('effect 6', 20)),
  store => store.advance(A.hintId, 7, advance(7, 5, undefined)),
  store => store.putVerifier(A.hintId, bytes('what verifies in epoch 5', 90)),
  store => store.putCheckpoint(A.hintId, 6, checkpoint('at 6', 4)),
  ...lookUp(8),
  store => store.putCheckpoint(A.hintId, 9, checkpoint('at 9', 5)),
  ...lookUp(9),
  store => store.putPending(A.hintId, 10, bytes('pending 10', 50)),
  store => store.advance(A.hintId, 10, advance(10, 6, bytes('pending 10, extended', 55))),
  store => store.condemn(A.hintId, 'https://a.example'),
  store => store.begin(B, bytes('partial', 40), bytes('directory', 30), A.hintId),
  store => store.discard(B.hintId),
]

const checkpoint = (seed: string, epoch: number) => ({ checkpoint: bytes(seed, 70), ...epochOf(1, epoch) })

function advance(version: number, epoch: number, pending: Uint8Array | undefined): Advance {
  return { entry: bytes(`update ${version}`, 25), manifest: epochOf(1, epoch).manifest, pending }
}

function lookUp(version: number): Steps {
  return [
    store => store.putPending(A.hintId, version, bytes(`pending ${version}`, 50)),
    store => store.commit(A.hintId, version, bytes(`effect ${version}`, 20)),
  ]
}

/** What is seen after so many steps of that life. */
const seenAfter: string[] = []
{
  const store = new MemoryStore({ durable: true })
  seenAfter.push(show(await observe(store)))
  for (const step of life) {
    await step(store)
    seenAfter.push(show(await observe(store)))
  }
}

/** A disk on which a store has taken these steps. */
async function disked(steps: Steps): Promise<{ disk: SimulatedDisk; store: FileStore }> {
  const disk = new SimulatedDisk()
  const store = await FileStore.open(disk)
  for (const step of steps) await step(store)
  return { disk, store }
}

/** Lives on until the power is cut; resolves to the number of steps that were acknowledged. */
async function live(disk: Disk, from: number): Promise<number> {
  let steps = from
  try {
    const store = await FileStore.open(disk)
    for (; steps < life.length; steps++) await life[steps]!(store)
  } catch (error) {
    expect(error).toBeInstanceOf(StoreUnavailableError)
  }
  return steps
}

/** Lives on to the end, with all that is not synced lost after every step. */
async function liveDangerously(disk: SimulatedDisk, from: number): Promise<void> {
  let now = disk
  for (const [i, step] of life.slice(from).entries()) {
    now = now.killed() // whoever looked at it
    await step(await FileStore.open(now))
    now = now.after(LOSES_ALL)
    expect(await remembered(now, from + i + 1)).toBe(from + i + 1)
  }
}

/** How many steps of the life a disk remembers, which is `acknowledged` or one more. */
async function remembered(disk: Disk, acknowledged: number): Promise<number> {
  const seen = show(await observe(await FileStore.open(disk)))
  for (const steps of [acknowledged, acknowledged + 1]) if (seen === seenAfter[steps]) return steps
  throw new Error(`after ${acknowledged} acknowledged steps, found ${seen}`)
}

/** That life, with the power cut before this call to the disk, and before each `step`th after it; how many steps were acknowledged. */
async function* cuts(step = THOROUGH ? 1 : 11) {
  for (let calls = 0; ; calls += step) {
    const disk = new SimulatedDisk(undefined, calls)
    const acknowledged = await live(disk, 0)
    if (acknowledged === life.length) return expect(calls).toBeGreaterThan(100)
    yield { disk, acknowledged }
  }
}

describe('the power cut before every call to the disk', () => {
  const some = Array.from({ length: THOROUGH ? 4 : 2 }, (_, seed): [string, Loss] => [
    `what is not synced is lost or kept at random, seed ${seed}`,
    losesSome(drawing(seed + 1)),
  ])
  const losses: [string, Loss][] = [
    ['all that is not synced is lost', LOSES_ALL],
    ['all of it is kept', KEEPS_ALL],
  ]
  test.each([...losses, ...some])('%s: the state is that before the call, or that after it', async (_, loss) => {
    for await (const { disk, acknowledged } of cuts()) {
      const found = disk.after(loss)
      await liveDangerously(found, await remembered(found, acknowledged))
    }
  })

  test('the process killed, and then the power cut: what the next process found, it keeps', async () => {
    for await (const { disk, acknowledged } of cuts()) {
      const found = disk.killed()
      const steps = await remembered(found, acknowledged)
      expect(await remembered(found.after(LOSES_ALL), acknowledged)).toBe(steps)
    }
  })

  test('again while the state is opened: still the same', async () => {
    const random = drawing(99)
    for await (const { disk: first, acknowledged } of cuts(THOROUGH ? 3 : 23)) {
      let disk = first
      for (let again = 0; again < 25; again++) {
        disk = disk.after(losesSome(random), again)
        await FileStore.open(disk).catch(() => {})
      }
      await remembered(disk.after(losesSome(random)), acknowledged)
    }
  })

  test('zeros where bytes were not synced: the state before, or unreadable, never an older one', async () => {
    for await (const { disk, acknowledged } of cuts()) {
      await remembered(disk.after(ZEROS), acknowledged).catch((error: unknown) => {
        expect(error).toBeInstanceOf(StateUnreadableError)
      })
    }
  })
})

describe('a journal that is not as it was written', () => {
  let disk: SimulatedDisk
  let journal: Uint8Array
  /** where each of the frames after the head ends, and what the state was there */
  const ends: { end: number; seen: string }[] = []
  /** from which on frames are appended to the head */
  const first = justWhole.length - 1

  beforeEach(async () => {
    disk = new SimulatedDisk()
    const store = await FileStore.open(disk)
    ends.length = 0
    for (const [i, step] of inUse.entries()) {
      await step(store)
      ends.push({ end: disk.peek('journal')!.length, seen: seenAfter[i + 1]! })
    }
    journal = disk.peek('journal')!
  })

  const seen = async (name: string, changed: Uint8Array | undefined) =>
    await observe(await FileStore.open(disk.with(name, changed))).then(show, (error: Error) => error.name)

  test('cut off anywhere: the last frame that is whole counts, and without a head none does', async () => {
    for (let length = 0; length <= journal.length; length++) {
      const last = ends.filter(({ end }) => end <= length && end >= ends[first]!.end).at(-1)
      expect(await seen('journal', journal.subarray(0, length))).toBe(last?.seen ?? 'StateUnreadableError')
    }
  })

  test('any bit flipped, in the last frame too: unreadable', async () => {
    for (let bit = 0; bit < journal.length * 8; bit += THOROUGH ? 1 : 17) {
      const changed = journal.slice()
      changed[bit >> 3]! ^= 1 << (bit & 7)
      expect(await seen('journal', changed)).toBe('StateUnreadableError')
    }
  })

  test('something behind it: unreadable', async () => {
    const tails = [new Uint8Array(64), bytes('foreign', 64), journal, journal.subarray(ends[first]!.end)]
    for (const tail of tails) expect(await seen('journal', Buffer.concat([journal, tail]))).toBe('StateUnreadableError')
  })

  test('a frame left out: unreadable', async () => {
    for (let i = first + 1; i < ends.length - 1; i++) {
      const without = Buffer.concat([journal.subarray(0, ends[i - 1]!.end), journal.subarray(ends[i]!.end)])
      expect(await seen('journal', without)).toBe('StateUnreadableError')
    }
  })

  test('of another kind, or empty: unreadable', async () => {
    for (const file of [new Uint8Array(), bytes('foreign', 300), new TextEncoder().encode('{"format":3}')]) {
      expect(await seen('journal', file)).toBe('StateUnreadableError')
    }
  })

  test('what verifies, missing, cut off, changed, or of another kind: as if nothing were kept', async () => {
    const { disk, store } = await disked(inUse)
    await store.putVerifier(A.hintId, bytes('what verifies', 80))
    const name = (await disk.list()).find(name => name.includes('.verifier.'))!
    const value = disk.peek(name)!
    const other = disk.peek((await disk.list()).find(name => name.includes('.checkpoint.'))!)!
    for (const changed of [
      undefined,
      other,
      value.subarray(0, -1),
      value.with(30, value[30]! ^ 1),
      Buffer.concat([value, value]),
    ]) {
      const found = await FileStore.open(disk.with(name, changed))
      expect(await found.readVerifier(A.hintId)).toBeUndefined()
      await found.putVerifier(A.hintId, bytes('anew', 60))
      expect(await found.readVerifier(A.hintId)).toEqual(bytes('anew', 60))
      await found.close()
    }
  })

  test.each(['rename', 'sync'] as const)('what verifies cannot be put in its place (%s): lookups go on', async call => {
    disk = new SimulatedDisk()
    let fails = false
    const failing = new Proxy(disk, {
      get(of, name) {
        const value = Reflect.get(of, name, of) as unknown
        if (typeof value !== 'function') return value
        return (...args: unknown[]) => {
          if (fails && name === call) throw Object.assign(new Error('an error of the disk'), { code: 'EIO' })
          return value.apply(of, args) as unknown
        }
      },
    })
    const store = await FileStore.open(failing)
    for (const step of inUse) await step(store)
    const head = (await store.read())!
    fails = true
    await expect(store.putVerifier(A.hintId, bytes('what verifies', 80))).rejects.toThrow()
    fails = false
    expect(await store.read()).toEqual(head)
    await store.condemn(A.hintId, undefined)
    expect((await disk.list()).filter(name => name.includes('verifier'))).toEqual([])
  })

  test.each([
    ['half-made', halfMade, ['partial.2', 'directory.2']],
    ['whole', inUse, ['checkpoint.2']],
  ])('values of a %s hint, missing, cut off, changed, or of another kind: unreadable', async (_, steps, kinds) => {
    disk = (await disked(steps)).disk
    const names = (await disk.list()).filter(name => name !== 'journal')
    expect(names.map(name => name.replace(/^[0-9a-f]{32}\./, '')).sort()).toEqual([...kinds].sort())
    for (const name of names) {
      const value = disk.peek(name)!
      const others = (await disk.list()).filter(other => other !== name).map(other => disk.peek(other)!)
      const changed = [undefined, ...others]
      for (let at = 0; at < value.length; at++) {
        const flipped = value.slice()
        flipped[at]! ^= 1
        changed.push(flipped, value.subarray(0, at), value.subarray(at + 1), Buffer.concat([value, value.subarray(at)]))
      }
      for (const each of changed) expect(await seen(name, each)).toBe('StateUnreadableError')
    }
  })

  test('a checkpoint whose parts are in another order, or of another version: unreadable', async () => {
    const name = (await disk.list()).find(name => name.endsWith('.checkpoint.2'))!
    const part = (kind: FrameKind, payload: Uint8Array, version = 2) =>
      encodeFrame({ kind, version, payload }, A.hintId)
    const { manifest, directory } = epochOf(1, 3)
    const parts = [part('chec', bytes('checkpoint', 70)), part('mani', manifest), part('dire', directory)] as const
    expect(Buffer.concat(parts)).toEqual(Buffer.from(disk.peek(name)!))
    const [chec, mani, dire] = parts
    const wrong = [
      [chec, dire, mani],
      [mani, chec, dire],
      [chec, mani],
      [chec, part('mani', manifest, 1), dire],
      [chec, mani, part('dire', directory, 1)],
    ]
    for (const each of wrong) expect(await seen(name, Buffer.concat(each))).toBe('StateUnreadableError')
  })

  test('an unreadable state is refused whatever is asked of it, until it is discarded or replaced', async () => {
    const rotten = disk.with('journal', journal.subarray(5))
    const store = await FileStore.open(rotten)
    for (const call of [
      () => store.read(),
      () => store.readHint(A.hintId),
      () => store.putPending(A.hintId, 3, bytes('pending', 5)),
      () => store.begin(B, bytes('', 0), bytes('', 0), A.hintId),
      () => store.discard(A.hintId),
      () => store.condemn(A.hintId, undefined),
    ]) {
      await expect(call()).rejects.toThrow(StateUnreadableError)
    }
    await store.discard(undefined)
    expect(await store.read()).toBeUndefined()
    expect(await rotten.list()).toEqual([])

    const again = await FileStore.open(disk.with('journal', journal.subarray(5)))
    await again.begin(B, bytes('partial', 4), bytes('', 0), undefined)
    expect((await again.read())?.record.hintId).toEqual(B.hintId)
  })
})

test('nothing of a condemned or replaced hint is left on the disk', async () => {
  const { disk, store } = await disked(justWhole)
  await store.condemn(A.hintId, undefined)
  expect(await disk.list()).toEqual(['journal'])
  await store.begin(B, bytes('partial', 4), bytes('', 0), A.hintId)
  for (const name of await disk.list()) expect(name).not.toContain(Buffer.from(A.hintId).toString('hex'))
})

describe('a full disk', () => {
  test.each<[string, Steps, Steps[number]]>([
    ['a new checkpoint', inUse, store => store.putCheckpoint(A.hintId, 5, checkpoint('new', 3))],
    ['the next epoch', inUse, store => store.advance(A.hintId, 5, advance(5, 4, bytes('extended', 55)))],
    [
      'the next epoch of a half-made hint',
      halfMade,
      store => store.updatePartial(A.hintId, 2, { partial: bytes('new', 70), ...epochOf(1, 4) }),
    ],
  ])('refuses %s, and the state stays in use as it was', async (_, steps, step) => {
    const { disk, store } = await disked(steps)
    const before = show(await observe(store))
    disk.fill()
    await expect(step(store)).rejects.toThrow(StoreFullError)
    expect(show(await observe(store))).toBe(before)
    disk.fill(false)
    await step(store)
    expect(show(await observe(store))).not.toBe(before)
  })

  test('refuses a frame; the store does no more, and opens anew as it was', async () => {
    const { disk, store } = await disked(inUse.slice(0, -1))
    const before = show(await observe(store))
    disk.fill()
    await expect(inUse.at(-1)!(store)).rejects.toThrow(StoreFullError)
    disk.fill(false)
    await expect(inUse.at(-1)!(store)).rejects.toThrow(StoreUnavailableError)
    await store.close()
    expect(show(await observe(await FileStore.open(disk)))).toBe(before)
  })
})

describe('in a real folder', () => {
  const servers = ['https://b.example', 'https://a.example'] as const
  let parent: string

  beforeEach(async () => {
    parent = await mkdtemp(join(tmpdir(), 'keyhush-store-'))
  })
  afterEach(() => rm(parent, { recursive: true }))

  test('a state outlives its store, and belongs to its pair of servers, in whichever order', async () => {
    const { store, durability, sealed } = await openFileStore(join(parent, 'made', 'for it'), servers)
    expect([durability, sealed]).toEqual([process.platform === 'win32' ? 'unconfirmed' : 'strict', false])
    for (const step of justWhole) await step(store)
    await store.close()
    await expect(store.read()).rejects.toThrow('closed')

    const again = await openFileStore(join(parent, 'made', 'for it'), [servers[1], servers[0]])
    expect(show(await observe(again.store))).toBe(seenAfter[justWhole.length])
    await again.store.close()
    const other = await openFileStore(join(parent, 'made', 'for it'), [servers[0], 'https://c.example'])
    expect(await other.store.read()).toBeUndefined()
    await other.store.close()
  })

  test('nobody else may read it', NEEDS_POSIX, async () => {
    const { store } = await openFileStore(parent, servers)
    for (const step of halfMade) await step(store)
    const [name] = await readdir(parent)
    const folder = join(parent, name!)
    expect((await stat(folder)).mode & 0o777).toBe(0o700)
    const files = await readdir(folder)
    expect(files.length).toBe(4)
    for (const file of files) expect((await stat(join(folder, file))).mode & 0o777).toBe(0o600)
    await store.close()
  })

  test('a folder that cannot be used is said to be', async () => {
    await writeFile(join(parent, 'file'), '')
    await expect(openFileStore(join(parent, 'file'), servers)).rejects.toThrow(StoreUnavailableError)
  })

  test('a server set that has changed: what is stored for the old one goes, unless it is condemned', async () => {
    const pairs = [
      ['https://a.example', 'https://c.example'],
      ['https://c.example', 'https://b.example'],
      ['https://c.example', 'https://d.example'],
    ] as const
    for (const pair of pairs) {
      const { store } = await openFileStore(parent, pair)
      await store.begin(A, bytes('partial', 4), bytes('', 0), undefined)
      if (pair === pairs[1]) await store.condemn(A.hintId, undefined)
      await store.close()
    }
    const { store, discardOthers } = await openFileStore(parent, servers)
    expect([await discardOthers(), await discardOthers()]).toEqual([true, false])
    const left = pairs.map(async pair => {
      const { store } = await openFileStore(parent, pair)
      const head = await store.read()
      await store.close()
      return head && (head.condemned ? 'condemned' : 'there')
    })
    expect(await Promise.all(left)).toEqual([undefined, 'condemned', 'there'])
    await store.close()
  })

  test('of many that open it at the same moment one succeeds; the errors of the others say what to do', async () => {
    for (let round = 0; round < 20; round++) {
      const openings = Array.from({ length: 5 }, () => openFileStore(parent, servers))
      const outcomes = await Promise.allSettled(openings)
      const opened = outcomes.flatMap(outcome => (outcome.status === 'fulfilled' ? [outcome.value.store] : []))
      expect(opened).toHaveLength(1)
      for (const outcome of outcomes) {
        if (outcome.status === 'fulfilled') continue
        expect(outcome.reason).toBeInstanceOf(StoreUnavailableError)
        expect(outcome.reason.message).toContain(
          'open already, here or in another process or container; close it there',
        )
      }
      await opened[0]!.close()
    }
  })

  test('without locks of the operating system it is refused, and says what to do', async () => {
    const cause = Object.assign(new Error('not supported'), { code: 'ENOTSUP' })
    vi.doMock('fs-native-extensions', () => ({
      tryLock() {
        throw cause
      },
    }))
    try {
      const opening = openFileStore(parent, servers)
      await expect(opening).rejects.toThrow(StoreUnavailableError)
      await expect(opening).rejects.toMatchObject({ cause, message: expect.stringContaining("storage: 'memory'") })
    } finally {
      vi.doUnmock('fs-native-extensions')
    }
    await (await openFileStore(parent, servers)).store.close()
  })

  const unshare = ['--pid', '--fork', '--mount-proc'] // a container's own process numbers, under the same host name
  const refusal = spawnSync('unshare', [...unshare, 'true'], { encoding: 'utf8' })
  const namespaces = needs(refusal.status === 0, `unshare: ${refusal.error?.message ?? refusal.stderr.trim()}`)

  test('a process in another process namespace has it until it is killed', namespaces, async () => {
    const holder = run(`${BEGUN}; await store.putPartial(hintId, 0, hintId); ${STAYS}`, ['unshare', ...unshare])
    expect(await said(holder)).toBe('has it')
    await expect(openFileStore(parent, servers)).rejects.toThrow('open already')
    const third = run(`await opened().catch(error => console.log(error.message))`, ['unshare', ...unshare])
    expect(await said(third)).toContain('open already')
    await once(third, 'exit')
    // Its number out here; unshare ends when it is gone.
    const children = await readFile(`/proc/${holder.pid}/task/${holder.pid}/children`, 'latin1')
    process.kill(Number(children), 'SIGKILL')
    await once(holder, 'exit')
    const { store } = await openFileStore(parent, servers)
    expect((await store.read())?.stage).toBe('partial')
    await store.close()
  })

  test('a process that drops its reference to the store still has it after garbage collection', async () => {
    const holder = run(`
      const { setFlagsFromString } = await import('node:v8')
      const { runInNewContext } = await import('node:vm')
      setFlagsFromString('--expose-gc')
      const collect = runInNewContext('gc')
      const lose = async () => void (await opened())
      await lose()
      for (let i = 0; i < 20; i++) {
        collect()
        await new Promise(done => setImmediate(done))
      }
      ${STAYS}`)
    expect(await said(holder)).toBe('has it')
    await expect(openFileStore(parent, servers)).rejects.toThrow('open already')
    holder.kill('SIGKILL')
    await once(holder, 'exit')
  })

  test.each([
    [
      "Yarn's Plug'n'Play, which does not find the package for locks",
      "await import('../../../../tests/support/plug-and-play.mjs')",
      'UsageError fileStore: expected the package fs-native-extensions, which locks its folder, got none: npm install',
    ],
    [
      'Deno, which that package ends',
      'globalThis.Deno = {}',
      "UnsupportedError fileStore: expected Node, which can lock its folder, got Deno; open the map with storage: 'memory'",
    ],
  ])('in %s, the error says what to do', async (_what, platform, words) => {
    const child = run(`${platform}; await opened().catch(error => console.log(error.name, error.message))`)
    expect(await said(child)).toContain(words)
  })

  test("does without FileHandle.sync, which Plug'n'Play lacks", async () => {
    const child = run(`
      const { open } = await import('node:fs/promises')
      const file = await open('.')
      Object.getPrototypeOf(file).sync = () => Promise.reject(new Error('Method not implemented.'))
      await file.close()
      ${BEGUN}; ${STAYS}`)
    expect(await said(child)).toBe('has it')
  })

  /** In a process's program: a hint is begun in the store; it says `has it`, and stays. */
  const BEGUN = `
    const { store } = await opened()
    const hintId = new Uint8Array(16)
    const parties = ${JSON.stringify(servers)}
    await store.begin({ hintId, scheme: 'full', parties, fenced: [], manifest: hintId }, hintId, hintId, undefined)`
  const STAYS = `console.log('has it'); setInterval(() => {}, 1_000_000)`

  /** A process with a program that may open the store. */
  function run(then: string, command: readonly string[] = []): ChildProcess {
    const program = `
      import { openFileStore } from '@keyhush/client/node'
      const opened = () => openFileStore(${JSON.stringify(parent)}, ${JSON.stringify(servers)})
      ${then}`
    const [name, ...args] = [...command, process.execPath, '--input-type=module', '--eval', program]
    // Not its stderr: unshare complains of a child that was killed.
    const child = spawn(name!, args, { cwd: import.meta.dirname, stdio: ['ignore', 'pipe', 'ignore'], detached: true })
    onTestFinished(() => {
      // unshare does not hand a signal on, and leads a group of its own
      if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, 'SIGKILL')
    })
    return child
  }

  async function said(child: ChildProcess): Promise<string> {
    for await (const line of createInterface(child.stdout!)) return line
    return ''
  }

  test('after a process is killed, everything reported as stored is there, and its lock does not block', async () => {
    const child = run(`${BEGUN}
      await store.complete(hintId, 0, hintId)
      for (let version = 0; ; version++) {
        await store.putPending(hintId, version, new Uint8Array(500))
        console.log(version)
        await store.commit(hintId, version, new Uint8Array(500))
      }`)
    const ended = once(child, 'exit')
    let told = -1
    for await (const line of createInterface(child.stdout!)) {
      told = Number(line)
      if (told === 3) await expect(openFileStore(parent, servers)).rejects.toThrow('open already')
      if (told === 20) child.kill('SIGKILL')
    }
    await ended
    const { store } = await openFileStore(parent, servers)
    const head = (await store.read())!
    expect(head.version + (head.pending === undefined ? 0 : 1)).toBeGreaterThanOrEqual(told + 1)
    expect((await store.readHint(head.record.hintId)).entries.length).toBe(head.version)
    await store.close()
    const [name] = await readdir(parent)
    expect((await readFile(join(parent, name!, 'journal'))).length).toBeGreaterThan(1000)
  })
})
