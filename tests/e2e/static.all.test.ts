// No server at all (docs/operations/static.md): real static hosts serve what `keyhush publish --folder` wrote, whole, in part, or as it was at
// different times. A map has right answers, or the error that is documented; never a wrong value.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type KeyhushMap, open } from '@keyhush/client'
import { fileStore } from '@keyhush/client/node'
import { createServer, openLmdb, UpdatableDatabase } from '@keyhush/server'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { runKeyhush } from '../../server/test/command.js'
import { freePort } from '../../server/test/helpers.js'
import { findProgram } from '../../tools/programs.mjs'
import { needs } from '../support/needs.js'
import { temporaryFolder } from '../support/servers.js'
import { type Files, filesIn, type StaticHost, startStaticHost } from '../support/static-host.js'
import { sampled } from '../support/thorough.js'

const EPOCHS = 5
const folder = await temporaryFolder()
const path = (...names: string[]) => join(folder.path, ...names)
/** by epoch: what the list has then */
const contents: Map<string, string>[] = []
let publisherKey = ''
const hosts: StaticHost[] = []

/** Values by key of an epoch: each edits, adds and deletes. */
function listOf(epoch: number): Map<string, string> {
  const keys = Array.from({ length: 40 }, (_, i) => i).filter(i => i >= epoch && i < 30 + epoch)
  return new Map(keys.map(i => [`key ${i}`, `value ${i % 7 === epoch ? epoch : i}`]))
}

function changes(before: Map<string, string>, after: Map<string, string>): object[] {
  const put = [...after].flatMap(([key, value]) =>
    before.get(key) === value ? [] : [{ op: before.has(key) ? 'edit' : 'add', key, value }],
  )
  return [...put, ...[...before.keys()].filter(key => !after.has(key)).map(key => ({ op: 'delete', key }))]
}

beforeAll(async () => {
  const [, key = ''] = /public key: (\w+)/.exec(await runKeyhush('keygen', '--out', path('publisher.key'))) ?? []
  publisherKey = key
  const first = listOf(1)
  await writeFile(path('list.csv'), `key,value\n${[...first].map(line => `${line.join()}\n`).join('')}`)
  const record = ['--record', path('publisher.key.record')]
  await runKeyhush('build', path('list.csv'), '--out', path('dataset'), '--headroom', '20', ...record)
  const where = ['--folder', path('www'), '--store', path('own'), '--dataset', path('dataset')]
  const publish = ['publish', ...where, '--key', path('publisher.key'), '--no-expiry']
  await runKeyhush(...publish)
  contents[1] = first
  for (let epoch = 1; ; epoch++) {
    await cp(path('www'), path(`www ${epoch}`), { recursive: true })
    if (epoch === EPOCHS) break
    contents[epoch + 1] = listOf(epoch + 1)
    const lines = changes(contents[epoch]!, contents[epoch + 1]!).map(each => `${JSON.stringify(each)}\n`)
    await writeFile(path('batch.jsonl'), lines.join(''))
    await runKeyhush(...publish, path('batch.jsonl'))
  }
})
afterAll(async () => {
  await Promise.all(hosts.map(host => host.close()))
  await folder.remove()
})

async function hosting(files: Files, how?: Parameters<typeof startStaticHost>[1]): Promise<StaticHost> {
  const host = await startStaticHost(files, how)
  hosts.push(host)
  return host
}

/** A map in memory, or in a store of this name. */
async function opened(servers: readonly string[], store?: string): Promise<KeyhushMap> {
  const kept = store === undefined ? {} : { store: fileStore(path(store)) }
  const map = await open({ servers, publisherKey, storage: store === undefined ? 'memory' : 'required', ...kept })
  onTestFinished(() => map.close())
  return map
}

/** Every key of any epoch has the value of the epoch that the map is at. */
async function check(map: KeyhushMap, epoch = map.epoch!): Promise<void> {
  expect(map.epoch).toBe(epoch)
  const keys = Array.from({ length: 40 }, (_, i) => `key ${i}`)
  const found = new Map<string, string>()
  for (const key of keys) {
    const value = await map.getText(key)
    if (value !== undefined) found.set(key, value)
  }
  expect(found).toEqual(new Map([...contents[epoch]!].sort(([a], [b]) => keys.indexOf(a) - keys.indexOf(b))))
}

/** A host's process, which ends with the test. */
function started(program: string, args: readonly string[]) {
  const process = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'], env: { HOME: path('home') } })
  onTestFinished(async () => {
    process.kill('SIGKILL')
    if (process.exitCode === null && process.signalCode === null) await once(process, 'exit')
  })
  return process
}

/** Python's own. */
async function startPython(): Promise<string> {
  const args = ['-u', '-m', 'http.server', '0', '--bind', '127.0.0.1', '--directory', path('www')]
  for await (const line of createInterface(started('python3', args).stdout)) {
    const [, port] = /port (\d+)/.exec(line) ?? []
    if (port !== undefined) return `http://127.0.0.1:${port}`
  }
  throw new Error('expected the port of python3 -m http.server, got none')
}

const programs = { nginx: await findProgram('nginx'), caddy: await findProgram('caddy') }

/** nginx or Caddy with the lines of docs/operations/static.md, for the files in `root`/list. Resolves to the folder's URL. */
async function startDocumented(name: keyof typeof programs, root: string, more: string): Promise<string> {
  const document = await readFile(new URL('../../docs/operations/static.md', import.meta.url), 'utf8')
  const [, lines = ''] = new RegExp(`\`\`\`${name}\n([^]*?)\`\`\``).exec(document) ?? []
  expect(lines).toContain('/srv')
  const [port, file] = [await freePort(), join(root, name)]
  const here = lines.replace('/srv', root).replace('cdn.example {', `http://127.0.0.1:${port} {\n${more}`)
  const ofNginx = `daemon off; master_process off; pid ${root}/pid; error_log ${root}/error.log; events {} http {
    access_log off; ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(of => `${of}_temp_path ${root}/${of};`).join(' ')}
    server { listen 127.0.0.1:${port}; ${more} ${here} } }`
  await writeFile(file, name === 'nginx' ? ofNginx : `{\n\tadmin off\n}\n${here}`)
  const args = { nginx: ['-c', file, '-p', root], caddy: ['run', '--adapter', 'caddyfile', '--config', file] }
  started(programs[name]!, args[name])
  const url = `http://127.0.0.1:${port}/list`
  await expect.poll(() => fetch(`${url}/v1/info`).then(({ status }) => status, String)).toBe(200)
  return url
}

const hasPython = await new Promise<boolean>(resolve => {
  spawn('python3', ['--version'], { stdio: 'ignore' })
    .on('error', () => resolve(false))
    .on('exit', code => resolve(code === 0))
})

describe('a host', () => {
  const kinds = ['plain', 'everything', 'forbidding', 'gzip'] as const
  test.each(kinds)('that is %s: a map opens, follows by lists, and answers without it after a restart', async how => {
    const host = await hosting(filesIn(path('www 2')), how)
    const first = await opened([host.url], how)
    expect(first.mode).toBe('local')
    await check(first, 2)
    const before = host.asked.length
    host.files = filesIn(path('www'))
    await first.sync()
    await check(first, EPOCHS)
    const [partitions] = [await readdir(path('www', 'v1', 'blobs'))]
    expect(host.asked.slice(before).filter(url => url.startsWith('/v1/blobs/'))).toHaveLength(EPOCHS - 2)
    expect(partitions.length).toBeGreaterThan(EPOCHS)
    await first.close()
    host.files = () => undefined
    const second = await opened([host.url], how)
    await check(second, EPOCHS)
  })

  test('of Python', needs(hasPython, 'python3'), async () => {
    const map = await opened([await startPython()])
    await check(map, EPOCHS)
    await map.sync()
  })

  describe.each(['nginx', 'caddy'] as const)('%s, with the lines of the document', name => {
    const ways = [
      ['as they are', { nginx: '', caddy: '' }],
      [
        'compressing',
        {
          nginx: 'gzip on; gzip_types *; gzip_min_length 1;',
          caddy: 'encode zstd gzip {\nminimum_length 1\nmatch status 200\n}',
        },
      ],
      [
        'with a page for every path',
        { nginx: 'error_page 404 =200 /list/404.html;', caddy: 'try_files {path} /list/404.html' },
      ],
    ] as const
    test.each(ways)('%s', needs(programs[name] !== undefined, name), async (way, { [name]: more }) => {
      const root = path(`${name}-${way.replaceAll(' ', '-')}`)
      await mkdir(root)
      await cp(path('www 3'), join(root, 'list'), { recursive: true })
      const url = await startDocumented(name, root, more)
      const map = await opened([url], `${root} kept`)
      await check(map, 3)
      await rename(join(root, 'list'), join(root, 'before'))
      await cp(path('www'), join(root, 'list'), { recursive: true })
      await map.sync()
      await check(map, EPOCHS)
      await map.close()

      const [blob] = await readdir(path('www', 'v1', 'blobs'))
      for (const [file, age] of [
        [`v1/blobs/${blob}`, 31_536_000],
        ['v1/info', 60],
        ['v1/events', 60],
      ] as const) {
        const encoding = { 'accept-encoding': 'gzip' }
        const { headers } = await fetch(`${url}/${file}`, { headers: { ...encoding, origin: 'https://app.example' } })
        expect([file, headers.get('access-control-allow-origin')]).toEqual([file, '*'])
        expect(headers.get('cache-control')).toContain(`max-age=${age}`)
        expect(headers.has('content-encoding')).toBe(way === 'compressing')
        // What the host can do beside, and nobody needs.
        const [part, etag] = [await fetch(`${url}/${file}`, { headers: { range: 'bytes=0-9' } }), headers.get('etag')]
        expect([200, 206]).toContain(part.status)
        const same = await fetch(`${url}/${file}`, { headers: { ...encoding, 'if-none-match': etag! } })
        expect(same.status).toBe(304)
      }
      const missing = await fetch(`${url}/v1/blobs/${'0'.repeat(64)}`)
      expect(missing.status).toBe(way === 'with a page for every path' ? 200 : 404)
      await check(await opened([url]), EPOCHS)
    })
  })

  test('and another, with the same files: one may be away once the map has its copy', async () => {
    const [one, two] = [await hosting(filesIn(path('www 3'))), await hosting(filesIn(path('www 3')))] as const
    const map = await opened([one.url, two.url], 'mirrors')
    expect(map.mode).toBe('local')
    await check(map, 3)
    one.files = () => undefined
    two.files = filesIn(path('www'))
    await map.sync()
    await check(map, EPOCHS)
  })

  test('that becomes a server: the app changes nothing, and its map goes on', async () => {
    const host = await hosting(filesIn(path('www 3')))
    const before = await opened([host.url], 'growing')
    await check(before, 3)
    await before.close()
    await cp(path('own'), path('served'), { recursive: true })
    const updatable = await UpdatableDatabase.open(await openLmdb(path('served')))
    const app = await createServer({ datasets: [{ updatable }] })
    onTestFinished(async () => {
      app.server.closeAllConnections()
      await app.close()
      await updatable.close()
    })
    await app.ready()
    host.files = (request, response) => app.routing(request, response)
    const after = await opened([host.url], 'growing')
    await after.sync()
    await check(after, EPOCHS)
    await check(await opened([host.url]), EPOCHS) // a new one
  })
})

describe('a folder that is not whole, or not of one time', () => {
  const NAMES = ['info', 'manifest', 'manifests', 'events']
  /** what may be wrong with a file */
  type Wrong = 'older' | 'oldest' | 'cut' | 'empty' | 'missing'
  const WRONGS: readonly Wrong[] = ['older', 'oldest', 'cut', 'empty', 'missing']
  const of = (epoch: number, name: string) => readFile(path(`www ${epoch}`, name)).catch(() => undefined)

  const broken =
    (wrong: ReadonlyMap<string, Wrong>): Files =>
    async name => {
      const newest = await of(EPOCHS, name)
      switch (wrong.get(name)) {
        case 'older':
          return await of(EPOCHS - 1, name)
        case 'oldest':
          return await of(1, name)
        case 'cut':
          return newest?.subarray(0, newest.length / 2)
        case 'empty':
          return newest && new Uint8Array()
        case 'missing':
          return undefined
        default:
          return newest
      }
    }

  const named = (file: string, wrong: Wrong) => [`/v1/${file}`, wrong] as const
  const single = NAMES.flatMap(file => WRONGS.map(wrong => [named(file, wrong)]))
  const pairs = single.flatMap(([one], i) =>
    single.slice(i + 1).flatMap(([two]) => (one![0] === two![0] ? [] : [[one!, two!]])),
  )

  /** The error that documents explain, and which does not send people away from an honest host. */
  const isDocumented = (error: { code: string }) => ['network', 'protocol', 'version', 'signature'].includes(error.code)

  const cases = [...single, ...sampled(pairs, 12)]
  test.each(['plain', 'everything', 'forbidding'] as const)(`${cases.length} ways, at a host that is %s`, async how => {
    const host = await hosting(filesIn(path('www')), how)
    const outcomes = { right: 0, refused: 0 }
    for (const each of cases) {
      const what = each.map(names => names.join(' ')).join(', ')
      host.files = broken(new Map(each))
      const map = await opened([host.url]).catch(error => {
        expect(isDocumented(error), `${what}: ${error}`).toBe(true)
        outcomes.refused++
      })
      if (map === undefined) continue
      await check(map)
      outcomes.right++
      await map.close()
    }
    expect(outcomes.right).toBeGreaterThan(cases.length / 4)
    // A file alone that is one epoch older, as in any cache, keeps nobody out.
    for (const name of NAMES) {
      host.files = broken(new Map([named(name, 'older')]))
      await check(await opened([host.url]))
    }

    // A map that has a copy stays right, and comes along once the folder is whole.
    for (const each of sampled(cases, 6)) {
      host.files = filesIn(path('www 3'))
      const map = await opened([host.url])
      host.files = broken(new Map(each))
      await map.sync().catch(error => expect(isDocumented(error), `${error}`).toBe(true))
      expect(map.epoch).toBeGreaterThanOrEqual(3)
      await check(map)
      host.files = filesIn(path('www'))
      await map.sync()
      await check(map, EPOCHS)
      await map.close()
    }
  })

  test('blobs that are cut, of another, or missing: no wrong value', async () => {
    const host = await hosting(filesIn(path('www')))
    const names = await readdir(path('www', 'v1', 'blobs'))
    const other = await of(EPOCHS, `v1/blobs/${names[0]}`)
    for (const name of sampled(names)) {
      for (const bytes of [undefined, new Uint8Array(7), other]) {
        const whole = filesIn(path('www'))
        host.files = (file: string) => (file === `/v1/blobs/${name}` ? bytes : whole(file))
        const map = await opened([host.url]).catch(error => {
          expect(['network', 'protocol', 'tampered']).toContain(error.code)
        })
        if (map === undefined) continue
        await check(map, EPOCHS)
        await map.close()
      }
    }
  })
})
