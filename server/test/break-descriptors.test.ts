// One connection that asks for a byte of a file again and again, and reads nothing: how many files does it hold open? What
// stands unread is counted in bytes, and a byte is little.

import { readdir } from 'node:fs/promises'
import { toHex } from '@pirouette/protocol'
import { expect, test } from 'vitest'
import { builtDataset, pseudoRandom } from './helpers.js'
import { deaf, served } from './sockets.js'

const REQUESTS = 2000
const openFiles = async () => (await readdir('/proc/self/fd')).length

test.runIf(process.platform === 'linux')(
  'an anonymous connection holds few files open',
  async () => {
    const dataset = await builtDataset('a.bin', pseudoRandom(16 * 1024 * 1024), { recordBytes: 4096, partitions: 1 })
    const { port } = await served({ dataset })
    const hash = toHex(dataset.manifest.contentHashes.subarray(0, 32))
    const before = await openFiles()
    const whole = `GET /v1/blobs/${hash} HTTP/1.1\r\nHost: x\r\n\r\n`
    const one = `GET /v1/blobs/${hash} HTTP/1.1\r\nHost: x\r\nRange: bytes=0-0\r\n\r\n`
    await deaf(port, whole + one.repeat(REQUESTS))
    let most = 0
    for (let i = 0; i < 20; i++) {
      await new Promise(resolve => setTimeout(resolve, 50))
      most = Math.max(most, (await openFiles()) - before)
    }
    console.log({ most })
    expect(most).toBeLessThan(300) // as many slices of 64 KiB as one connection may leave unread, and some
  },
  60_000,
)
