// One connection that asks for a byte of a file again and again and reads nothing does not hold many files open. (Unread replies are
// bounded in bytes, and these are small.)

import { readdir } from 'node:fs/promises'
import { toHex } from '@keyhush/protocol'
import { expect, test, vi } from 'vitest'
import { NEEDS_LINUX } from '../../tests/support/needs.js'
import { builtDataset, pseudoRandom } from './helpers.js'
import { deaf, served } from './sockets.js'

const REQUESTS = 2000 // more than a connection may have under way; and fewer, below
const openFiles = async () => (await readdir('/proc/self/fd')).length

test.each([REQUESTS, 200])(
  'an anonymous connection that asks %i times holds few files open',
  NEEDS_LINUX,
  async requests => {
    const dataset = await builtDataset('a.bin', pseudoRandom(16 * 1024 * 1024), { recordBytes: 4096, partitions: 1 })
    const { port } = await served({ dataset })
    const hash = toHex(dataset.manifest.contentHashes.subarray(0, 32))
    const before = await openFiles()
    const whole = `GET /v1/blobs/${hash} HTTP/1.1\r\nHost: x\r\n\r\n`
    const one = `GET /v1/blobs/${hash} HTTP/1.1\r\nHost: x\r\nRange: bytes=0-0\r\n\r\n`
    const socket = await deaf(port, whole + one.repeat(requests))
    let most = 0
    for (let i = 0; i < 20; i++) {
      await new Promise(resolve => setTimeout(resolve, 50))
      most = Math.max(most, (await openFiles()) - before)
    }
    console.log({ most })
    expect(most).toBeLessThan(10) // both ends of the connection, and the file once for all of its requests
    socket.destroy()
    await vi.waitFor(async () => expect(await openFiles()).toBe(before))
  },
)
