// What docs/samples/kubernetes.yaml starts, as processes on this machine: shards are built, serve and have replicas; coordinators look up and
// publish. kubernetes-next.yaml begins a generation. Not run: Kubernetes itself.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { open } from '@keyhush/client'
import { toHex } from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import { expect, test } from 'vitest'
import { usePostgres } from '../../tests/support/use-postgres.js'
import { createKeyFile, PublisherRecord, publish } from '../dist/index.js'
import { runKeyhush } from './command.js'
import { freePort, temporaryDirectory } from './helpers.js'
import { LIST, SHARDS } from './sharded-helpers.js'
import { command, serving, started } from './spawned.js'

const postgres = usePostgres()

type Running = Awaited<ReturnType<typeof serving>>

/** The command of each thing that runs, by its name: lines `args: […]` and `command: […]`, which are JSON too. */
function commandsIn(yaml: string): Map<string, string[]> {
  const things = yaml.split(/^---$/m).map(thing => {
    const name = /^metadata: \{ name: ([\w-]+) \}$/m.exec(thing)![1]!
    const line = /^ +(?:args|command): (\[.*\])$/m.exec(thing)?.[1]
    return [name, line === undefined ? undefined : (JSON.parse(line) as string[])] as const
  })
  return new Map(things.flatMap(([name, line]) => (line === undefined ? [] : [[name, line]])))
}

test('its commands build, serve, look up, publish and begin a generation', async () => {
  const commandsOf = async (sample: string) =>
    commandsIn(await readFile(new URL(`../../docs/samples/${sample}`, import.meta.url), 'utf8'))
  let commands = await commandsOf('kubernetes.yaml')
  expect([...commands.keys()]).toEqual(['build', 'a', 'b', 'coordinator', 'coordinator-replicas'])
  const [folder, keys, port] = [await temporaryDirectory(), await temporaryDirectory(), `${await freePort()}`]
  const database = new URL(postgres.store())
  const prefix = database.searchParams.get('schema')
  database.search = ''
  /** Addresses of this machine in the place of names: a pod of shard 2 is at 127.4.1.2 or 127.4.2.2. */
  const here = (text: string, shard = 0) =>
    text
      .replaceAll('/lists/', `${folder}/`)
      .replaceAll('/keys/', `${keys}/`)
      .replaceAll('$(SHARD)', `${shard}`)
      .replaceAll('$(POSTGRES)?schema=', `${database}?schema=${prefix}_`)
      .replaceAll('/opt/keyhush/node_modules/.bin/keyhush', `${process.execPath} ${command}`)
      .replace('http://a-{shard}.shards:8080', `http://127.4.1.{shard}:${port}`)
      .replace('http://b-{shard}.shards:8080', `http://127.4.2.{shard}:${port}`)
      .replace('http://n-{shard}.shards:8080', `http://127.4.3.{shard}:${port}`)
      .replace(/^8080$/, port)
  const run = (name: string, host: string, shard?: number) => {
    // An app's servers have different ports on one machine.
    const own = (each: string) => (shard === undefined ? each.replace(/^8080$/, '0') : each).replace('0.0.0.0', host)
    const args = commands.get(name)!.map(each => here(own(each), shard))
    return serving(process.execPath, [command, ...args, '--log-level', 'error', '--drain-seconds', '0'])
  }

  const split = async (parts: string, shape: string, entries: ReadonlyMap<string, string>, shards: number) => {
    const list = join(folder, 'list.csv')
    await writeFile(list, ['key,value', ...[...entries].map(entry => entry.join()), ''].join('\n'))
    const sizes = ['--records', '2000', '--value-bytes', '5', '--shards', `${shards}`]
    await runKeyhush('plan', '--keyed', ...sizes, '--out', join(folder, shape))
    await runKeyhush('split', '--shape', join(folder, shape), '--out', join(folder, parts), list)
  }
  const build = async (name: string, shards: number) => {
    for (let shard = 0; shard < shards; shard++) {
      const [shell, ...args] = commands.get(name)!.map(each => here(each)) as [string, ...string[]]
      expect(await started(shell, args, { JOB_COMPLETION_INDEX: `${shard}` }).finished).toMatchObject({ code: 0 })
    }
  }
  await split('parts', 'shape.json', LIST, SHARDS)
  const [, key] = await Promise.all(
    ['shards', 'publisher'].map(async name => {
      const pair = await createKeyFile(join(keys, `${name}.key`))
      await writeFile(join(keys, `${name}.pub`), toHex(pair.publicKey))
      return pair
    }),
  )
  await build('build', SHARDS)
  for (const [set, name] of ['a', 'b'].entries()) {
    for (let shard = 0; shard < SHARDS; shard++) await run(name, `127.4.${set + 1}.${shard}`, shard)
  }
  // A replica ends, and Kubernetes starts it again, until the one that writes has a head.
  const runCoordinators = async (): Promise<[Running, Running]> => [
    await run('coordinator', '127.0.0.1'),
    await run('coordinator-replicas', '127.0.0.1'),
  ]
  let [coordinator, replica] = await runCoordinators()

  const answered = async () => {
    // Both are of one operator: no app may name them so.
    const servers = [coordinator.url, replica.url] as const
    const map = await open({ servers, mode: 'instant', push: false, development: true })
    try {
      return [await map.getText('key 3'), await map.getText('absent')]
    } finally {
      await map.close()
    }
  }
  expect(await answered()).toEqual([LIST.get('key 3'), undefined])
  const manifestOf = async () => new Uint8Array(await (await fetch(`${coordinator.url}/v1/manifest`)).arrayBuffer())
  const [trustBase, record] = [toHex(blake3(await manifestOf())), new PublisherRecord()]
  const published = (operation: object) => {
    const operations = Buffer.from(`${JSON.stringify(operation)}\n`)
    return publish({ servers: [coordinator.url], key: key!, record, trustBase, operations })
  }
  await published({ op: 'edit', key: 'key 3', value: 'other' })
  await expect.poll(answered).toEqual(['other', undefined])

  commands = await commandsOf('kubernetes-next.yaml')
  expect([...commands.keys()]).toEqual(['build-next', 'n', 'coordinator', 'coordinator-replicas'])
  await writeFile(join(folder, 'head.bin'), await manifestOf())
  await split('next', 'next.json', new Map([...LIST, ['key 3', 'other'], ['absent', 'added']]), 2 * SHARDS)
  await build('build-next', 2 * SHARDS)
  for (let shard = 0; shard < 2 * SHARDS; shard++) await run('n', `127.4.3.${shard}`, shard)
  for (const { child, finished } of [coordinator, replica]) {
    child.kill('SIGTERM')
    await finished
  }
  ;[coordinator, replica] = await runCoordinators()
  const { message } = await published({ op: 'generation' }).then(
    () => expect.fail('published'),
    (error: Error) => error,
  )
  await published(JSON.parse(/\{"op":"generation","shards":"[0-9a-f]{64}"\}/.exec(message)![0]))
  await expect.poll(answered).toEqual(['other', 'added'])
})
