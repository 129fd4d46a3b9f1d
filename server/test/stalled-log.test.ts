// Whoever reads the log may stand still. Requests are answered all the same, memory takes no more of the log than its bound, and
// the log says how much is missing.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Agent, get } from 'node:http'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { builtDirectory } from './helpers.js'

const REQUESTS = 10_000
const BOUND = 256 * 1024
const SYSTEM = 512 * 1024 // what a pipe may hold by itself

test('a log that nobody reads is cut, and what it lacks is counted', async () => {
  const command = fileURLToPath(new URL('../bin/keyhush.js', import.meta.url))
  const args = ['serve', '--dataset', await builtDirectory('a.txt', 'alpha\n'), '--port', '0', '--drain-seconds', '0']
  const server = spawn(process.execPath, [command, ...args, '--log-level', 'debug'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void server.kill('SIGKILL'))
  server.stderr.pause()
  const [line] = (await once(server.stdout, 'data')) as [Buffer]
  const url = String(line).trim().replace('listening on ', '')
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  onTestFinished(() => agent.destroy())
  const ask = () =>
    new Promise<number | undefined>((resolve, reject) => {
      get(`${url}/v1/manifest`, { agent }, reply => reply.resume().once('end', () => resolve(reply.statusCode)))
        .once('error', reject)
        .setTimeout(20_000, () => reject(new Error('no reply')))
    })
  for (let asked = 0; asked < REQUESTS; asked += 500) {
    expect(new Set(await Promise.all(Array.from({ length: 500 }, ask)))).toEqual(new Set([200]))
  }

  const chunks: Buffer[] = []
  server.stderr.on('data', chunk => chunks.push(chunk)).resume()
  const lines = () => Buffer.concat(chunks).toString().split('\n').slice(0, -1)
  const dropped = () => lines().map(text => (JSON.parse(text) as { dropped?: number }).dropped ?? 0)
  // What stood there comes first.
  for (let more = 0; more < 100 && dropped().every(count => count === 0); more++) await ask()
  expect(Buffer.concat(chunks).length).toBeLessThan(BOUND + SYSTEM)
  server.kill('SIGTERM')
  await once(server, 'close')
  // Every request has its line, or is counted among those that have none.
  const told = lines().filter(text => text.includes('GET /v1/manifest')).length
  const missing = dropped().reduce((sum, count) => sum + count, 0)
  expect(missing).toBeGreaterThan(0)
  expect(told + missing).toBeGreaterThanOrEqual(REQUESTS)
})
