// A server that is stopped and started at once: the one before has its store until it has drained.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { builtDirectory, temporaryDirectory } from './helpers.js'

const command = fileURLToPath(new URL('../bin/keyhush.js', import.meta.url))

function serve(...args: string[]) {
  const server = spawn(process.execPath, [command, 'serve', '--port', '0', '--log-level', 'error', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void server.kill('SIGKILL'))
  const exit = once(server, 'exit')
  const says = async (stream: 'stdout' | 'stderr', words: string) => {
    for await (const chunk of server[stream]) if (String(chunk).includes(words)) return
    throw new Error(`it did not say: ${words}`)
  }
  return { server, exit, says }
}

test('waits for the one before to end', async () => {
  const [dataset, store] = [
    await builtDirectory('a.csv', 'key,value\na,b\n'),
    join(await temporaryDirectory(), 'store'),
  ]
  const first = serve('--store', store, '--dataset', dataset, '--drain-seconds', '60')
  await first.says('stdout', 'listening on')
  first.server.kill('SIGTERM')
  const second = serve('--store', store, '--drain-seconds', '0')
  await second.says('stderr', `by process ${first.server.pid} on`)
  first.server.kill('SIGKILL')
  await second.says('stdout', 'listening on')
  expect(await first.exit).toEqual([null, 'SIGKILL'])
  second.server.kill('SIGTERM')
  expect(await second.exit).toEqual([0, null])
})
