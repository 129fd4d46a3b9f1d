// A store, made by `prepare DIR` with what is in it beside it, and looked through by `check DIR`, which prints what it found as
// JSON. A process of its own, for LMDB may take it down.

import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { encodeBatch, encodeQuery, fromHex, partitionBlocks, toHex } from '@keyhush/protocol'
import { buildDataset, DatasetError, loadDataset, openLmdb, UpdatableDatabase } from '@keyhush/server'
import { blake3 } from '@noble/hashes/blake3.js'

const RECORDS = 2000
const HINTS = 300
const hash = bytes => createHash('sha256').update(bytes).digest('hex')
const hintId = i => Buffer.from(hash(`hint ${i}`), 'hex').subarray(0, 16)
const requestHash = i => Buffer.from(hash(`request ${i}`), 'hex')

function batchOn({ manifest, manifestHash }, operations) {
  const { databaseId, generation, epoch } = manifest
  const lines = operations.map(operation => `${JSON.stringify(operation)}\n`).join('')
  return encodeBatch({
    ...{ encoding: 'utf8', databaseId, generation, epoch: epoch + 1, expires: 0 },
    previousManifest: fromHex(manifestHash),
    operations: new TextEncoder().encode(lines),
  })
}

function query(manifest) {
  const offsets = Uint16Array.from({ length: manifest.partitions }, (_, q) => (17 * q) % partitionBlocks(manifest))
  return encodeQuery(manifest, 1, new Uint8Array(offsets.buffer), 'merkle').subarray(40)
}

const judge = (updatable, kind, i, version, request) =>
  updatable.fence.judge(
    { kind, databaseId: updatable.databaseId, hintId: hintId(i), version, requestHash: request },
    `network ${i}`,
  )

async function historyOf(updatable, last) {
  const history = []
  for (let epoch = 1; epoch <= last; epoch++) {
    for (const generation of [1, 2]) {
      const manifest = await updatable.manifestOf(generation, epoch)
      if (manifest !== undefined) history.push({ generation, epoch, manifest: hash(manifest) })
    }
  }
  return history
}

async function prepare(dir) {
  const data = join(dir, 'data.csv')
  const lines = Array.from({ length: RECORDS }, (_, i) => `key ${i},value ${i}\n`).join('')
  await writeFile(data, `key,value\n${lines}`)
  await buildDataset({ data, out: join(dir, 'dataset'), maxValueBytes: 24 })
  const dataset = await loadDataset(join(dir, 'dataset'))
  const storage = openLmdb(join(dir, 'store'))
  await UpdatableDatabase.create(storage, dataset)
  dataset.close()
  const updatable = await UpdatableDatabase.open(storage)
  const lists = []
  for (let n = 0; n < 9; n++) {
    const operations =
      n === 5
        ? [{ op: 'generation', headroom: 100 }]
        : Array.from({ length: 100 }, (_, i) => ({
            op: 'edit',
            key: `key ${(97 * n + 7 * i) % RECORDS}`,
            value: `new ${n}`,
          }))
    await updatable.publish(batchOn(updatable.newest, operations))
    const { updateListBytes, updateListHash } = updatable.newest.manifest
    if (updateListBytes > 0) lists.push(toHex(updateListHash))
  }
  await Promise.all(
    Array.from({ length: HINTS }, async (_, i) => {
      await judge(updatable, 'register', i, 0, new Uint8Array(32))
      for (const version of [1, 2 + i]) await judge(updatable, 'confirm', i, version, requestHash(i))
    }),
  )
  const { newest } = updatable
  const expected = {
    history: await historyOf(updatable, newest.manifest.epoch),
    lists,
    newest: newest.manifestHash,
    answer: hash(newest.answer(query(newest.manifest), newest.suites[0])),
  }
  await updatable.close()
  await writeFile(join(dir, 'expected.json'), JSON.stringify(expected))
}

/** What was found: `refused`, why; or what was missed of what was stored, and what was wrong. */
async function check(dir) {
  const expected = JSON.parse(await readFile(join(dir, 'expected.json'), 'utf8'))
  const found = { refused: undefined, missed: [], wrong: [] }
  const miss = what => void found.missed.push(what)
  const wrong = what => void found.wrong.push(what)
  let updatable
  try {
    updatable = await UpdatableDatabase.open(openLmdb(join(dir, 'store')))
  } catch (error) {
    if (!(error instanceof DatasetError)) wrong(`an error without a type: ${error.stack}`)
    return { ...found, refused: error.message }
  }
  const { newest } = updatable
  if (newest.manifestHash !== expected.newest) wrong('another epoch')
  if (hash(newest.answer(query(newest.manifest), newest.suites[0])) !== expected.answer) wrong('another answer')
  for (const { generation, epoch, manifest } of expected.history) {
    try {
      const bytes = await updatable.manifestOf(generation, epoch)
      if (bytes === undefined) miss(`the manifest of epoch ${epoch}`)
      else if (hash(bytes) !== manifest) wrong(`the manifest of epoch ${epoch}`)
    } catch (error) {
      miss(`the manifest of epoch ${epoch}: ${error.message}`)
    }
  }
  for (const list of expected.lists) {
    try {
      const blob = await updatable.findBlob(list)
      const bytes = blob && (await buffer(await blob.open(0, blob.bytes - 1)))
      if (bytes === undefined) miss(`list ${list}`)
      else if (toHex(blake3(bytes)) !== list) wrong(`list ${list}`)
    } catch (error) {
      miss(`list ${list}: ${error.message}`)
    }
  }
  await Promise.all(
    Array.from({ length: HINTS }, async (_, i) => {
      if ((await judge(updatable, 'confirm', i, 1, requestHash(i))) !== 'refused') wrong(`hint ${i} went back`)
      if ((await judge(updatable, 'confirm', i, 2 + i, requestHash(i))) !== 'granted') miss(`hint ${i}`)
    }),
  )
  try {
    const { manifest } = await updatable.publish(batchOn(newest, [{ op: 'edit', key: 'key 1', value: 'afterwards' }]))
    await updatable.close()
    const again = await UpdatableDatabase.open(openLmdb(join(dir, 'store')))
    if (again.newest.manifestHash !== manifest) wrong('what was published afterwards')
    await again.close()
  } catch (error) {
    miss(`publishing: ${error.message}`)
  }
  return found
}

const [what, dir] = process.argv.slice(2)
const result = await { prepare, check }[what](dir)
if (result !== undefined) console.log(JSON.stringify(result))
