// A disk becomes read-only under a server, as Linux does after an error. Writes are refused and reported, lookups go on, and after the
// disk is checked and mounted again the server continues.

import { execFileSync } from 'node:child_process'
import { truncateSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { needs } from '../../tests/support/needs.js'
import { openLmdb, UpdatableDatabase } from '../dist/index.js'
import { builtDirectory, createIn, queryAt, temporaryDirectory } from './helpers.js'
import { storeServer } from './spawned.js'
import { batchOn } from './updatable-helpers.js'

/** A file system in a file, which stops writing when it finds an error; mounted for one process and its children alone. */
class Disk {
  readonly #image: string
  readonly #at: string

  constructor(dir: string) {
    this.#image = join(dir, 'image')
    this.#at = join(dir, 'disk')
    writeFileSync(this.#image, '')
    truncateSync(this.#image, 64 * 1024 * 1024)
    execFileSync('mkfs.ext4', ['-q', this.#image])
  }

  /** A command line for what is to see it. */
  with(...args: string[]): [string, string[]] {
    const script = 'mount -o loop,errors=remount-ro "$1" "$2" && shift 2 && exec "$@"'
    return [
      'unshare',
      ['--mount', '--propagation', 'private', 'sh', '-c', script, 'sh', this.#image, this.#at, ...args],
    ]
  }

  get #device(): string {
    const name = execFileSync('losetup', ['--associated', this.#image, '--noheadings', '--output', 'NAME'])
    return String(name).trim().replace('/dev/', '')
  }

  /** The system finds an error. */
  fail(): void {
    writeFileSync(`/sys/fs/ext4/${this.#device}/trigger_fs_error`, '1')
  }

  /** When nobody has it mounted. */
  check(): void {
    try {
      execFileSync('e2fsck', ['-f', '-p', this.#image], { stdio: 'pipe' })
    } catch (error) {
      if ((error as { status?: number }).status !== 1) throw error // 1: errors were corrected
    }
  }
}

/** Why there can be no such disk; undefined: there can. */
async function missing(): Promise<string | undefined> {
  const dir = await mkdtemp(join(tmpdir(), 'keyhush-test-'))
  await mkdir(join(dir, 'disk'))
  try {
    execFileSync(
      ...new Disk(dir).with(
        'sh',
        '-c',
        'test -w /sys/fs/ext4/$(basename $(df --output=source "$0" | tail -1))/trigger_fs_error',
        join(dir, 'disk'),
      ),
      { stdio: 'pipe' },
    )
    return undefined
  } catch (error) {
    return String((error as Error).message).split('\n')[0]
  } finally {
    await rm(dir, { recursive: true })
  }
}

const why = await missing()
const disk = needs(why === undefined, `a file system of its own: ${why}`)

test(
  'a server whose disk becomes read-only goes on answering and says so, and goes on writing when it is mounted again',
  disk,
  async () => {
    const dir = await temporaryDirectory()
    const at = join(dir, 'disk')
    await mkdir(at)
    const lines = Array.from({ length: 500 }, (_, i) => `key ${i},value ${i}\n`).join('')
    const dataset = await builtDirectory('a.csv', `key,value\n${lines}`)
    const storage = await createIn(await openLmdb(join(dir, 'store')), dataset)
    const updatable = await UpdatableDatabase.open(storage)
    const { manifest } = updatable.newest
    const batch = batchOn(updatable, [{ op: 'edit', key: 'key 3', value: 'new' }])
    await updatable.close()

    const disk = new Disk(dir)
    execFileSync(...disk.with('cp', '-r', join(dir, 'store'), at))
    const first = await storeServer(join(at, 'store'), disk)
    const hash = new Uint8Array(32).fill(7)
    expect(await first.fence(manifest, 'register', 1)).toBe('granted')
    expect(await first.fence(manifest, 'confirm', 1, 5, hash)).toBe('granted')

    disk.fail()
    for (let i = 0; i < 3; i++) {
      expect(await first.fence(manifest, 'confirm', 1, 6 + i, hash)).toEqual([503, 'not_ready'])
      expect(await first.fence(manifest, 'register', 2 + i)).toEqual([503, 'not_ready'])
      expect(await first.publish(batch)).toEqual([503, 'not_ready'])
    }
    const ready = await first.ask('/readyz')
    const problems = ['the store cannot be written']
    expect([ready.status, await ready.json()]).toEqual([200, { status: 'ready', problems }])
    const answer = await first.ask('/v1/answer', { method: 'POST', body: queryAt(manifest, 0) })
    expect(answer.status).toBe(200)
    expect(first.log()).toContain('StorageError EROFS')
    await first.stop()

    disk.check()
    const second = await storeServer(join(at, 'store'), disk)
    expect(await (await second.ask('/readyz')).json()).toEqual({ status: 'ready' })
    // What was granted is kept, and what was refused was not.
    expect(await second.fence(manifest, 'confirm', 1, 4, hash)).toBe('refused')
    expect(await second.fence(manifest, 'confirm', 1, 6, hash)).toBe('granted')
    expect(await second.fence(manifest, 'register', 2)).toBe('granted')
    expect(await second.publish(batch)).toBe('published')
    await second.stop()
  },
)

test('a store on a full disk is refused with a message', disk, async () => {
  const dir = await temporaryDirectory()
  const at = join(dir, 'disk')
  await mkdir(at)
  const module = new URL('../dist/storage/lmdb.js', import.meta.url)
  const begin = `const { openLmdb } = await import(${JSON.stringify(module.href)})
    try { await openLmdb(process.argv[1]) } catch (error) { console.log(error.name, error.message) }`
  const script = 'dd if=/dev/zero of="$1/all" bs=64k 2>/dev/null; "$2" --input-type=module -e "$3" "$1/store"'
  const full = new Disk(dir).with('sh', '-c', script, 'sh', at, process.execPath, begin)
  expect(String(execFileSync(...full))).toMatch(/^DatasetError .*is the disk full/)
})
