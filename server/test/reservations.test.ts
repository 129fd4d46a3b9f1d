// Memory reserved for a connection is released exactly once, whatever the connection does: when its replies have left and its bodies
// have arrived, or when it ends. A leak would in the end lock all clients out.

import type { Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Unsent } from '../dist/http/limits/unsent.js'
import { builtDataset, pseudoRandom, queryAt } from './helpers.js'
import { deaf, served, twoKeys } from './sockets.js'
import { batchOn } from './updatable-helpers.js'

const head = (line: string, ...headers: string[]) =>
  `${[`${line} HTTP/1.1`, 'Host: x', ...headers].join('\r\n')}\r\n\r\n`

test.each(['ended by the client', 'torn', 'left open'])('connections of every kind, %s', async ending => {
  const dataset = await builtDataset('a.bin', pseudoRandom(32 * 4096), { recordBytes: 4096, proofs: 'tags' })
  const [unsent, bodies] = [new Unsent(), new Unsent()]
  const { port, statuses } = await served({ dataset, unsent, bodies })
  const query = queryAt(dataset.manifest, 0, 1, 'tags')
  const length = `Content-Length: ${query.length}`
  const post = '/v1/answer'
  const whole = [head(`POST ${post}`, length), query] as const
  const kinds: Record<string, readonly (string | Uint8Array)[]> = {
    whole,
    pipelined: [...whole, ...whole],
    HEAD: [head('HEAD /v1/manifest')],
    'told to go on': [head(`POST ${post}`, length, 'Expect: 100-continue'), query],
    'told not to': [head(`POST ${post}`, length, 'Expect: something'), query],
    upgraded: [head(`POST ${post}`, length, 'Connection: Upgrade', 'Upgrade: h2c'), query],
    chunked: [head(`POST ${post}`, 'Transfer-Encoding: chunked'), '3\r\nabc\r\n0\r\n\r\n'],
    encoded: [head(`POST ${post}`, length, 'Content-Encoding: gzip'), query],
    'refused by the parser': [head(`POST ${post}`, 'Content-Length: 7', 'Transfer-Encoding: chunked'), 'x'],
    'nothing that is answered': [head(`POST ${post}`, 'Content-Length: 3'), 'abc'],
    'closing, with more behind it': [head(`POST ${post}`, length, 'Connection: close'), query, ...whole],
    'of a path that is none': [head('POST /v1/nothing', length), query],
    'with a range': [head('GET /v1/manifest', 'Range: bytes=0-1')],
  }
  const sockets: Socket[] = []
  for (const pieces of Object.values(kinds)) sockets.push((await deaf(port, ...pieces)).resume())
  const halves = [
    (await deaf(port, head(`POST ${post}`, 'Content-Length: 1500'), 'abc')).resume(),
    (await deaf(port, head(`POST ${post}`, 'Content-Length: 1500'))).resume(),
    (await deaf(port, ...whole, head(`POST ${post}`, length, 'Expect: 100-continue'))).resume(),
  ]
  await vi.waitFor(() => expect(bodies.bytes).toBe(1500))
  await vi.waitFor(() => expect(statuses.filter(status => status === 200).length).toBeGreaterThanOrEqual(9))
  for (const half of halves) half.destroy()
  if (ending === 'torn') for (const socket of sockets) socket.resetAndDestroy()
  if (ending === 'ended by the client') for (const socket of sockets) socket.end()
  await vi.waitFor(() => expect([unsent.bytes, bodies.bytes]).toEqual([0, 0]))
  const reply = await fetch(`http://127.0.0.1:${port}${post}`, { method: 'POST', body: new Uint8Array(query) })
  expect(reply.status).toBe(200)
  expect((await reply.arrayBuffer()).byteLength).toBeGreaterThan(4096)
  await vi.waitFor(() => expect([unsent.bytes, bodies.bytes]).toEqual([0, 0]))
})

test('memory for a chain of manifests is reserved before the chain is made', async () => {
  const updatable = await twoKeys()
  for (const value of ['third', 'other'])
    await updatable.publish(batchOn(updatable, `{"op":"edit","key":"one","value":"${value}"}\n`))
  const chain = (await updatable.since(1))!
  const unsent = new Unsent()
  const { url } = await served({ updatable, unsent })
  const { concat } = Buffer
  const reserved: number[] = []
  const spy = vi.spyOn(Buffer, 'concat').mockImplementation((list, length) => {
    const made = concat.call(Buffer, list, length) as Buffer<ArrayBuffer>
    if (chain.length === made.length) reserved.push(unsent.bytes)
    return made
  })
  onTestFinished(() => spy.mockRestore())
  const reply = await fetch(`${url}/v1/manifests?since=1`)
  expect(Buffer.compare(Buffer.from(await reply.arrayBuffer()), chain)).toBe(0)
  expect(reserved[0]).toBe(chain.length)
})
