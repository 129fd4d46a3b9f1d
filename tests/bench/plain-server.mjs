// The bench's baselines without privacy or with less, over records in memory. Fastify as `keyhush serve` uses it.
//
//   node tests/bench/plain-server.mjs <file> <record bytes>     prints its address
//
//   GET /<index>        a record
//   GET /range/<n>      all keys whose SHA-1 begins with these 10 bits, and their values: what APIs with k-anonymity do
//   GET /filter         a Bloom filter of the keys, 10 bits each: 1 % of other keys pass
//   GET /list           all keys and values as a CSV file
//
// The key of record i is `key-i`. Lists are compressed once, at the first request.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { brotliCompressSync, constants } from 'node:zlib'
import { fastify } from 'fastify'

const [file = '', bytes = ''] = process.argv.slice(2)
const records = readFileSync(file)
const recordBytes = Number(bytes)
const count = records.length / recordBytes
const RANGE_BITS = 10
const FILTER_BITS = 10 * count
const FILTER_HASHES = 7

const record = index => records.subarray(index * recordBytes, (index + 1) * recordBytes)
const hash = (name, index) => createHash(name).update(`key-${index}`).digest()
const allOf = line => Array.from({ length: count }, (_, i) => line(i))
const compressed = body => brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } })

function ranges() {
  const lines = Array.from({ length: 1 << RANGE_BITS }, () => [])
  for (let i = 0; i < count; i++) {
    const sha1 = hash('sha1', i)
    lines[sha1.readUInt32BE() >>> (32 - RANGE_BITS)].push(`${sha1.toString('hex')}:${record(i).toString('base64')}`)
  }
  return lines.map(range => compressed(range.sort().join('\n')))
}

function filter() {
  const bits = Buffer.alloc(Math.ceil(FILTER_BITS / 8))
  for (let i = 0; i < count; i++) {
    const sha256 = hash('sha256', i)
    for (let n = 0; n < FILTER_HASHES; n++) {
      const bit = Math.floor((sha256.readUInt32BE(4 * n) / 2 ** 32) * FILTER_BITS)
      bits[bit >> 3] |= 1 << (bit & 7)
    }
  }
  return compressed(bits)
}

const lazy = make => {
  let made
  return () => {
    made ??= make()
    return made
  }
}
const [rangesOnce, filterOnce] = [lazy(ranges), lazy(filter)]
const listOnce = lazy(() => compressed(allOf(i => `key-${i},${record(i).toString('base64')}`).join('\n')))

const app = fastify()
app.addHook('onRequest', async (_, reply) => {
  const headers = { 'access-control-allow-origin': '*', 'timing-allow-origin': '*', 'cache-control': 'no-store' }
  reply.headers(headers).type('application/octet-stream')
})
app.get('/:index', async ({ params }) => record(Number(params.index)))
app.get('/range/:n', async ({ params }, reply) => reply.header('content-encoding', 'br').send(rangesOnce()[params.n]))
app.get('/filter', async (_, reply) => reply.header('content-encoding', 'br').send(filterOnce()))
app.get('/list', async (_, reply) => reply.header('content-encoding', 'br').send(listOnce()))
process.once('SIGTERM', () => app.close())
process.stdout.write(`listening on ${await app.listen({ host: '127.0.0.1', port: 0 })}\n`)
