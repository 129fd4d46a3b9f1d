// The visitor's own database: it equals what `keyhush build` makes, a bad file is refused with line and reason, and the real client
// looks up in it and notices a lie.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open, TamperedError } from '@keyhush/client'
import { decodeManifest, encodeInstantQuery, type Manifest } from '@keyhush/protocol'
import { buildDataset } from '@keyhush/server'
import { BuildError } from '@keyhush/server/dataset'
import { loadCore } from '@keyhush/wasm'
import { describe, expect, test } from 'vitest'
import { faultOf, OwnServer, type Stage } from '../src/page/own/server.js'

const core = await loadCore()
const encoded = (text: string) => new TextEncoder().encode(text)
const build = (text: string | Uint8Array, onStage: (stage: Stage) => void = () => {}) =>
  OwnServer.build(core, typeof text === 'string' ? encoded(text) : text, onStage)

const ROWS = Array.from({ length: 5000 }, (_, i) => `key-${i},value ${i}`)
const FILE = `\ufeffvalue,key\r\n"two\r\nlines",a\n${ROWS.map(row => row.split(',').reverse().join(',')).join('\n')}`

/** Of a few bytes each: every record takes as much as the longest. */
const MANY = Array.from({ length: 4000 }, (_, i) => `${i},\n`).join('')

test('too little memory is reported as such, and not as a wrong file', () => {
  const lacking = [
    new BuildError(
      'no layout for 9 records of 30 bytes: layout: 270 bytes of memory could not be had; close other pages',
    ),
    new RangeError('WebAssembly.Instance(): Out of memory: Cannot allocate Wasm memory for new instance'),
    new WebAssembly.RuntimeError('unreachable'),
    new Error('Out of memory'), // WebKit's
  ]
  for (const error of lacking) {
    expect(faultOf(error)).toEqual({ reason: expect.stringContaining('a smaller file'), line: undefined, memory: true })
  }
  const wrong = new BuildError('the same key as on line 3', 'list.csv', 7)
  expect(faultOf(wrong)).toEqual({ reason: 'the same key as on line 3', line: 7, memory: false })
})

describe('a file', () => {
  test('becomes the database that `keyhush build` makes of it', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'own-'))
    try {
      await writeFile(join(folder, 'own.csv'), FILE)
      const { manifestHash } = await buildDataset({ data: join(folder, 'own.csv'), out: join(folder, 'out') })
      const stages: Stage[] = []
      const { built } = build(FILE, stage => void stages.push(stage))
      expect(built).toMatchObject({ manifestHash, records: 5001, examples: ['a', 'key-0'] })
      expect(new Set(stages.map(({ stage }) => stage))).toEqual(new Set(['reading', 'placing', 'hashing']))
      for (const { done } of stages) expect(done).toBeLessThanOrEqual(1)
      expect(stages.at(-1)).toEqual({ stage: 'hashing', done: 1 })
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  test.each<[string, string | Uint8Array, number | undefined, RegExp]>([
    ['that is empty', '', undefined, /is empty/],
    ['that is a header', 'key,value\n', undefined, /no records/],
    ['without a header', 'a,b\nc,d\n', 1, /exactly the columns key and value/],
    ['with a third field', 'key,value\na,b\nc,d,e\n', 3, /expected two fields/],
    ['with a quote that stays open', 'key,value\na,b\n"c,d\n', 3, /never closed/],
    ['with a quote inside', 'key,value\na"b,c\n', 2, /quotes around the whole field/],
    ['with the same key twice', 'key,value\na,1\nb,2\na,3\n', 4, /same key as on line 2/],
    ['with an empty key', 'key,value\na,1\n,2\n', 3, /key is empty/],
    ['that is not UTF-8', Uint8Array.of(...encoded('key,value\na,'), 0xff, 0x0a), 2, /not UTF-8/],
    [
      'with one long value among thousands',
      `key,value\n${'x'.repeat(9)},${'y'.repeat(60_000)}\n${MANY}`,
      2,
      /takes as much as this one/,
    ],
    ['with a value that no record holds', `key,value\na,${'x'.repeat(70_000)}\n`, 2, /got 70000/],
  ])('%s is refused, with line and reason', (_, text, line, reason) => {
    let fault: unknown
    try {
      build(text)
    } catch (error) {
      fault = error
    }
    expect(fault).toMatchObject({ name: 'BuildError', line, reason: expect.stringMatching(reason) })
  })
})

describe('two servers of it', () => {
  const [a, b] = [build(FILE), build(FILE)]
  const servers = ['https://server-a.invalid/own', 'https://server-b.invalid/own'] as const
  const fetchOf =
    (lie: boolean) =>
    async (url: string, init: RequestInit): Promise<Response> => {
      const server = url.startsWith(servers[0]) ? a : b
      const { status, body } = server.reply(url.slice(servers[0].length), init.body as Uint8Array | undefined)
      if (lie && server === a && init.method === 'POST') body[60]! ^= 1
      return new Response(body, { status })
    }

  test('answer the real client, found and not, and a lie is caught', async () => {
    const map = await open({ servers, mode: 'instant', push: false, fetch: fetchOf(false) })
    expect(await map.getText('a')).toBe('two\r\nlines')
    expect(await map.getText('key-4999')).toBe('value 4999')
    expect(await map.get('key-5000')).toBeUndefined()
    await map.close()
    const deceived = await open({ servers, mode: 'instant', push: false, fetch: fetchOf(true) })
    await expect(deceived.get('a')).rejects.toThrow(TamperedError)
    await deceived.close()
  })

  test('refuse every request that no server answers', () => {
    const manifest: Manifest = decodeManifest(a.reply('/v1/manifest', undefined).body)
    const status = (of: Manifest, bytes: number) =>
      a.reply('/v1/instant', encodeInstantQuery(of, 'records', 1, new Uint8Array(bytes))).status
    expect(status(manifest, 3)).toBe(400)
    expect(status({ ...manifest, epoch: 2 }, 3)).toBe(404)
    expect(a.reply('/v1/blobs/00', undefined).status).toBe(404)
    expect(a.reply('/v1/instant', undefined).status).toBe(404)
    expect(() => a.reply('/v1/instant', new Uint8Array(7))).toThrow(/length/)
  })
})
