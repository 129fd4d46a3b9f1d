// A server that cannot listen is at an end: a process that only has its figures to show, and the store locked, would keep whoever
// supervises it from beginning another.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { builtDirectory, temporaryDirectory } from './helpers.js'

const command = fileURLToPath(new URL('../bin/keyhush.js', import.meta.url))

test.each(['--port', '--metrics'])('%s in use ends the process, whatever listens already', async taken => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  onTestFinished(() => void other.close())
  const { port } = other.address() as AddressInfo
  const source = ['--dataset', await builtDirectory('a.txt', 'alpha\n'), '--store', await temporaryDirectory()]
  const ports = ['--port', '--metrics'].flatMap(name => [name, name === taken ? `${port}` : '0'])
  const child = spawn(process.execPath, [command, 'serve', ...source, ...ports, '--log-level', 'silent'])
  onTestFinished(() => void child.kill('SIGKILL'))
  let said = ''
  child.stderr.on('data', text => {
    said += text
  })
  expect(await once(child, 'close')).toEqual([1, null])
  expect(said).toMatch(/^keyhush: 127\.0\.0\.1:\d+: .*EADDRINUSE.*\n$/)
})
