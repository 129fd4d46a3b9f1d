// What every storage must do, for each that there is.

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { NEEDS_POSIX } from '../../tests/support/needs.js'
import { StoredFence } from '../dist/database/stored-fence.js'
import { DatasetError } from '../dist/index.js'
import { openStorage, STORAGE_KINDS, storageKind } from '../dist/storage/kinds.js'
import { causeOf, openLmdb } from '../dist/storage/lmdb.js'
import { MemoryStorage } from '../dist/storage/memory.js'
import type { Storage } from '../dist/storage/storage.js'
import { conformance } from '../dist/testing/storage.js'
import { FENCE_LAWS } from './fence-laws.js'
import { listed, pseudoRandom, temporaryDirectory } from './helpers.js'

async function put(storage: Storage, key: string, value: Uint8Array): Promise<void> {
  await storage.transact([], transaction => transaction.put(key, value))
}

/** Opens an empty one of each kind that is in a directory. The others, such as PostgreSQL, have a test file of their own. */
const inDirectories = Object.values(STORAGE_KINDS).filter(({ form }) => form.includes('DIR'))

describe.each<[string, () => Promise<Storage>]>([
  ['memory', async () => new MemoryStorage()],
  ...inDirectories.map(({ name, form }): [string, () => Promise<Storage>] => [
    name,
    async () => openStorage(form.replace('DIR', await temporaryDirectory())),
  ]),
])('a storage in %s', (_, open) => {
  test.each(conformance)('$name', async ({ run }) => {
    const storage = await open()
    onTestFinished(() => storage.close())
    await run(storage)
  })

  test.each(FENCE_LAWS.filter(({ shared }) => !shared))('its fence: $name', async ({ run }) => {
    const storage = await open()
    onTestFinished(() => storage.close())
    await run(options => StoredFence.open(storage, options))
  })
})

test('every storage has a row in STORAGE_KINDS, and the suite runs on it', async () => {
  const sources = new URL('../src/storage/', import.meta.url)
  const found: string[] = []
  for (const name of await readdir(sources)) {
    const source = await readFile(new URL(name, sources), 'utf8')
    if (/class \w+ (extends \w+ )?implements \w*Storage\b/.test(source)) found.push(name.slice(0, -'.ts'.length))
  }
  const advice = 'give a new storage its row in server/src/storage/kinds.ts, named as its file: serve takes no other'
  expect(found.filter(name => name !== 'memory').sort(), advice).toEqual(Object.keys(STORAGE_KINDS).sort())
  for (const [name, kind] of Object.entries(STORAGE_KINDS)) {
    if (inDirectories.includes(kind)) continue
    const file = new URL(`${name}.all.test.ts`, import.meta.url)
    expect(
      await readFile(file, 'utf8').catch(() => ''),
      `run conformance in server/test/${name}.all.test.ts`,
    ).toContain('test.each(conformance)')
  }
})

test('each store is of the kind whose form it has', () => {
  for (const kind of Object.values(STORAGE_KINDS)) expect(storageKind(kind.form)).toBe(kind)
})

// The suite itself: a storage that does not keep a law is found out.
const mutants: Record<string, (storage: Storage) => Partial<Storage>> = {
  'gives back what was put, of every size, and nothing else': storage => ({
    get: async key => (await storage.get(key))?.subarray(0, 4096),
  }),
  'lists a prefix in order, and counts it': storage => ({
    async *entries(prefix) {
      yield* (await listed(storage, prefix)).reverse()
    },
  }),
  'a transaction reads what was there, and then what it wrote': storage => ({
    transact: async (keys, work) => {
      const before = new Map(await Promise.all(keys.map(async key => [key, await storage.get(key)] as const)))
      return storage.transact(keys, transaction =>
        work({
          get: key => before.get(key),
          put: (key, value) => transaction.put(key, value),
          remove: key => transaction.remove(key),
        }),
      )
    },
  }),
  'a transaction reads no key that was not named for it': storage => ({
    transact: (keys, work) => storage.transact([...keys, 'a'], work),
  }),
  'transactions begun at once happen one after the other': storage => ({
    transact: async (keys, work) => {
      const changes: [string, Uint8Array | undefined][] = []
      const before = new Map(await Promise.all(keys.map(async key => [key, await storage.get(key)] as const)))
      const get = (key: string) => before.get(key)
      const result = work({ get, put: (key, value) => void changes.push([key, value]), remove: () => {} })
      await null
      await storage.transact([], transaction => {
        for (const [key, value] of changes) transaction.put(key, value!)
      })
      return result
    },
  }),
}

test.each(Object.entries(mutants))('%s: a storage that does not is found out', async (name, change) => {
  const storage = new MemoryStorage()
  const mutant = new Proxy(storage as Storage, {
    get: (_, method: keyof Storage) => change(storage)[method] ?? bound(storage, method),
  })
  await expect(conformance.find(each => each.name === name)!.run(mutant)).rejects.toMatchObject({
    name: 'AssertionError',
  })
})

function bound(storage: Storage, method: keyof Storage): unknown {
  const member = storage[method]
  return typeof member === 'function' ? member.bind(storage) : member
}

describe('LMDB', () => {
  async function closedStore(): Promise<string> {
    const dir = await temporaryDirectory()
    const storage = await openLmdb(dir)
    for (let i = 0; i < 20; i++) await put(storage, `key/${i}`, pseudoRandom(10_000, i))
    await storage.close()
    return dir
  }

  test('a file that was cut off anywhere, or is something else, is refused by name', async () => {
    const dir = await closedStore()
    const file = join(dir, 'data.mdb')
    const whole = readFileSync(file)
    const lengths = [1, 4096, 8191, 8192, whole.length >> 1, whole.length - 4096]
    for (const bytes of [...lengths.map(length => whole.subarray(0, length)), pseudoRandom(20_000)]) {
      writeFileSync(file, bytes)
      await expect(openLmdb(dir), `${bytes.length} bytes`).rejects.toThrow(DatasetError)
      await expect(openLmdb(dir)).rejects.toThrow(file)
    }
    writeFileSync(file, whole)
    await (await openLmdb(dir)).close()
  })

  test(
    'nobody else on the machine may read what it made: a folder, or files in one that was there',
    NEEDS_POSIX,
    async () => {
      const modeOf = (path: string) => statSync(path).mode & 0o777
      const [there, made] = [await temporaryDirectory(), join(await temporaryDirectory(), 'store')]
      chmodSync(there, 0o755)
      for (const dir of [there, made]) {
        const storage = await openLmdb(dir)
        await put(storage, 'key', pseudoRandom(10))
        const files = await readdir(dir)
        expect(files.sort()).toEqual(['data.mdb', 'lock', 'lock.mdb'])
        expect(files.map(file => modeOf(join(dir, file)))).toEqual([0o600, 0o600, 0o600])
        await storage.close()
      }
      expect([modeOf(there), modeOf(made)]).toEqual([0o755, 0o700])
    },
  )

  test('one process has a store at a time; a second one learns which, and gets the store when the first ends', async () => {
    const dir = await closedStore()
    const module = new URL('../dist/storage/lmdb.js', import.meta.url)
    const held = `const { openLmdb } = await import(${JSON.stringify(module.href)})
      await openLmdb(process.argv[1])
      console.log('open')
      setInterval(() => {}, 1000)`
    const other = spawn(process.execPath, ['--input-type=module', '-e', held, dir], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    onTestFinished(() => void other.kill('SIGKILL'))
    await once(other.stdout, 'data')
    await expect(openLmdb(dir)).rejects.toThrow(DatasetError)
    await expect(openLmdb(dir)).rejects.toThrow(`process ${other.pid} on `)
    const gone = once(other, 'exit')
    other.kill('SIGKILL')
    await gone
    const storage = await openLmdb(dir)
    await expect(openLmdb(dir)).rejects.toThrow(`process ${process.pid} on `) // nor twice by one process
    await storage.close()
    await storage.close() // does no harm
    await (await openLmdb(dir)).close()
  })

  test('is found in a folder whose name has #, ? and % in it', NEEDS_POSIX, async () => {
    const dir = join(await temporaryDirectory(), 'C# 100%41?')
    const [there, packages] = [join(dir, 'node_modules'), fileURLToPath(new URL('../../node_modules', import.meta.url))]
    await mkdir(there, { recursive: true })
    for (const name of await readdir(packages))
      if (name === 'lmdb') await cp(join(packages, name), join(there, name), { recursive: true })
      else await symlink(join(packages, name), join(there, name))
    await cp(fileURLToPath(new URL('../dist', import.meta.url)), join(dir, 'dist'), { recursive: true })
    await writeFile(join(dir, 'package.json'), '{ "type": "module" }')
    const opens = `import { openLmdb } from './dist/storage/lmdb.js'
      await (await openLmdb('store')).close()`
    await promisify(execFile)(process.execPath, ['--input-type=module', '-e', opens], { cwd: dir })
    expect(await readdir(join(dir, 'store'))).toContain('data.mdb')
  })

  test('what a lock file says of its holder is not repeated unless it is a line of text', async () => {
    const dir = await closedStore()
    const storage = await openLmdb(dir)
    onTestFinished(() => storage.close())
    writeFileSync(join(dir, 'lock'), '\x1b[2J')
    await expect(openLmdb(dir)).rejects.toThrow('by another process')
  })
})

test('why a commit failed is waited for, but not for ever', async () => {
  const failed = (commitError: Promise<unknown>) => causeOf(Object.assign(new Error('commit failed'), { commitError }))
  expect(await failed(Promise.reject(Object.assign(new Error(), { code: 28 })))).toBe('ENOSPC')
  expect(await failed(Promise.resolve())).toBe('unknown')
  expect(await failed(new Promise(() => {}))).toBe('unknown')
})
