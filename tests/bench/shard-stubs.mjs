// The bench's shards without records: they answer zeros at once, so that a coordinator's own work is what is measured.
//
//   node tests/bench/shard-stubs.mjs <shards> <partitions of each>     prints its address; shard 3 is under /3

import { createServer } from 'node:http'
import { decodeInstantQuery, encodeInstantAnswer, encodeManifest, instantLayout } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'

const [shards, partitions] = process.argv.slice(2).map(Number)
const PARTITION_RECORDS = 2 ** 14
const core = await loadCore()
const manifestOf = shard => ({
  ...{ suite: 1, generation: 1, epoch: 1, databaseId: new Uint8Array(16).fill(shard), expires: 0, maxQueries: 64 },
  ...{ records: partitions * PARTITION_RECORDS, recordBytes: 36, partitions, partitionRecords: PARTITION_RECORDS },
  ...{ blockRecords: 8, valueBytes: 20, keyed: true, variable: false, directoryBytes: 1, updateListBytes: 0 },
  ...{ directoryHash: new Uint8Array(32).fill(1), updateListHash: new Uint8Array(32) },
  ...{ previousManifest: new Uint8Array(32), directoryBlockLog: 12, directoryBlockBytes: 512 },
  ...{ directorySeed: new Uint8Array(16).fill(7), directoryCommitment: new Uint8Array(32).fill(shard + 1) },
  ...{ commitments: new Uint8Array(32 * partitions).fill(shard + 1) },
  contentHashes: new Uint8Array(32 * partitions).fill(shard + 1),
})
const manifests = Array.from({ length: shards }, (_, shard) => manifestOf(shard))
const { records, recordBytes, blockRecords } = instantLayout(manifests[0], 'records')
const layout = core.layout(records, recordBytes, partitions, PARTITION_RECORDS, blockRecords)
const [, , answerBytes] = layout.instantSizes(2)

createServer(async (request, response) => {
  const manifest = manifests[Number(/^\/(\d+)/.exec(request.url)[1])]
  if (request.method === 'GET') return response.end(encodeManifest(manifest))
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const { of, count } = decodeInstantQuery(Buffer.concat(chunks))
  response.end(encodeInstantAnswer(manifest, of, count, new Uint8Array(count * answerBytes)))
}).listen(0, '127.0.0.1', function () {
  console.log(`listening on http://127.0.0.1:${this.address().port}`)
})
process.once('SIGTERM', () => process.exit(0))
