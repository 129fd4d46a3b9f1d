// `keyhush dev` starts two servers, and prints all that an app needs.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { open } from '@keyhush/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runKeyhush } from '../../server/test/command.js'
import { runKeyhushProcess } from '../support/processes.js'
import { temporaryFolder } from '../support/servers.js'

const command = fileURLToPath(new URL('../../server/bin/keyhush.js', import.meta.url))

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let data: string
const running = new Set<ChildProcess>()

beforeAll(async () => {
  folder = await temporaryFolder()
  await mkdir(join(folder.path, 'temporary'))
  data = join(folder.path, 'animals.csv')
  await writeFile(data, 'key,value\notter,river\nheron,shore\n')
})
afterAll(async () => {
  for (const child of running) child.kill('SIGKILL')
  await folder.remove()
})

/** Starts it, and reads what it prints for an app. `temporary`: where its temporary folder is. */
async function dev(...args: string[]) {
  const TMPDIR = join(folder.path, 'temporary')
  const child = spawn(process.execPath, [command, 'dev', data, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, TMPDIR },
  })
  running.add(child)
  const exited = once(child, 'exit').finally(() => running.delete(child))
  let printed = ''
  for await (const text of child.stdout.setEncoding('utf8')) {
    printed += text
    if (printed.includes('changes.jsonl\n')) break
  }
  const [, a, b] = /servers: \['(http:.+)', '(http:.+)'\]/.exec(printed) ?? []
  const [, publisherKey] = /publisherKey: '([0-9a-f]{64})'/.exec(printed) ?? []
  const [, keyFile] = /--key (\S+) changes\.jsonl$/m.exec(printed) ?? []
  if (a === undefined || b === undefined) throw new Error(`expected two servers, got: ${printed}`)
  const stop = async (signal: NodeJS.Signals) => {
    child.kill(signal)
    return (await exited)[0]
  }
  return { servers: [a, b] as const, publisherKey: publisherKey!, keyFile: keyFile!, stop }
}

async function publish({ servers, keyFile }: Awaited<ReturnType<typeof dev>>, operation: object): Promise<void> {
  const batch = join(folder.path, 'changes.jsonl')
  await writeFile(batch, `${JSON.stringify(operation)}\n`)
  await runKeyhush('publish', '--servers', servers.join(), '--key', keyFile, batch)
}

const text = (value: Uint8Array | undefined) => value && new TextDecoder().decode(value)

test('two servers answer for a file, accept signed batches, and end with Ctrl-C without leaving files', async () => {
  const running = await dev()
  const { servers, publisherKey } = running
  expect(new URL(servers[0]).port).not.toBe(new URL(servers[1]).port)
  const map = await open({ servers, publisherKey })
  expect([text(await map.get('otter')), await map.get('auk')]).toEqual(['river', undefined])
  await publish(running, { op: 'add', key: 'auk', value: 'cliff' })
  await map.sync()
  expect(text(await map.get('auk'))).toBe('cliff')
  for (const [origin, allowed] of [
    ['http://localhost:5173', true],
    ['http://127.0.0.1:8080', true],
    ['https://app.localhost', true],
    ['https://a.example', false],
    ['http://localhost.a.example', false],
    ['http://xlocalhost', false],
  ] as const) {
    const { headers } = await fetch(`${servers[0]}/v1/info`, { headers: { origin } })
    expect([origin, headers.get('access-control-allow-origin')]).toEqual([origin, allowed ? origin : null])
  }
  // An unsigned batch is refused.
  const unsigned = await fetch(`${servers[1]}/v1/publish`, { method: 'POST', body: 'x' })
  expect(unsigned.ok).toBe(false)
  await map.close()
  expect(await running.stop('SIGINT')).toBe(0)
  expect(await readdir(join(folder.path, 'temporary'))).toEqual([])
})

test('a folder keeps key and changes, and is not mixed with other data', async () => {
  const kept = ['--folder', join(folder.path, 'kept')]
  const first = await dev(...kept)
  await publish(first, { op: 'edit', key: 'heron', value: 'marsh' })
  expect(await first.stop('SIGTERM')).toBe(0)
  const ports = first.servers.map(url => new URL(url).port)

  const second = await dev(...kept, '--ports', ports.join())
  expect([second.servers, second.publisherKey]).toEqual([first.servers, first.publisherKey])
  const map = await open({ servers: second.servers, publisherKey: second.publisherKey })
  expect([map.epoch, text(await map.get('heron'))]).toEqual([2, 'marsh'])
  await map.close()
  expect(await second.stop('SIGINT')).toBe(0)

  await writeFile(data, 'key,value\notter,lake\n')
  await expect(runKeyhushProcess('dev', data, ...kept)).rejects.toThrow('data.mdb: expected the database of ')
})
