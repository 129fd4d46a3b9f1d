// The bench's baseline without privacy: `GET /<index>` gives the record away, and tells the server which. Fastify as
// `keyhush serve` uses it, with the same records in memory.
//
//   node tests/bench/plain-server.mjs <file> <record bytes>     prints its address

import { readFileSync } from 'node:fs'
import { fastify } from 'fastify'

const [file = '', bytes = ''] = process.argv.slice(2)
const records = readFileSync(file)
const recordBytes = Number(bytes)
const app = fastify()
app.get('/:index', async (request, reply) => {
  const index = Number(request.params.index)
  return reply
    .header('access-control-allow-origin', '*')
    .header('cache-control', 'no-store')
    .type('application/octet-stream')
    .send(records.subarray(index * recordBytes, (index + 1) * recordBytes))
})
process.once('SIGTERM', () => app.close())
process.stdout.write(`listening on ${await app.listen({ host: '127.0.0.1', port: 0 })}\n`)
