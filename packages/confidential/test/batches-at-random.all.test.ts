// Random batches of an owner: adds, edits, deletes, keys that come again, batches that no list takes, new generations. After each the
// database has, under the transformed keys, what a plain map has.

import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { open } from '@keyhush/client'
import { confidential } from '@keyhush/confidential'
import { createOwnerKey, readShare, transform } from '@keyhush/confidential/server'
import { blockBytes, entryBytes, equalBytes, fromHex, partitionBlocks, suiteOf } from '@keyhush/protocol'
import { STEPS, type UpdatableDatabase } from '@keyhush/server'
import { loadCore } from '@keyhush/wasm'
import { expect, onTestFinished, test } from 'vitest'
import { builtDirectory, createIn, temporaryDirectory, vectors } from '../../../server/test/helpers.js'
import { batchOn, bodyOf, FailingStorage, opened as openedIn, refusal } from '../../../server/test/updatable-helpers.js'
import { Chance } from '../../../tests/world/chance.js'
import { ENTROPY_BYTES, Evaluation, elementsOf } from '../src/client/evaluation.js'
import { loadSecrets } from '../src/server/module.js'
import { inputOf, listKeyOf, opened } from '../src/wire/derive.js'
import { type Operation, own } from './support/owned.js'

const [OWNERS, BATCHES, VALUE_BYTES] = [5, 100, 24]
const KEYS = [
  '"q"',
  'a,b',
  'ключ',
  'k'.repeat(900),
  '{"op":"add"}',
  ...Array.from({ length: 59 }, (_, i) => `key ${i}`),
]
const core = await loadCore()
const { SecretHandle } = await loadSecrets()

const bytesOf = (text: string) => new TextEncoder().encode(text)
const lines = (all: readonly object[]) => all.map(each => `${JSON.stringify(each)}\n`).join('')

/** What the owner has. */
type Plain = Map<string, string>

function drawnValue(chance: Chance): string {
  return Array.from({ length: chance.below(VALUE_BYTES / 2 + 1) }, () => chance.pick(['ö', 'a', '"', ',', ' '])).join(
    '',
  )
}

/** Changes that fit a list, of a few keys: some of them several times. */
function changesOf(chance: Chance, plain: Plain): Operation[] {
  const some = Array.from({ length: chance.between(1, 6) }, () => chance.pick(KEYS))
  const [keys, count] = chance.happens(0.1) ? [KEYS, 60] : [some, chance.between(1, 10)]
  return Array.from({ length: count }, (): Operation => {
    const key = chance.pick(keys)
    if (plain.has(key) && chance.happens(0.5)) {
      plain.delete(key)
      return { op: 'delete', key }
    }
    const [op, value] = [plain.has(key) ? ('edit' as const) : ('add' as const), drawnValue(chance)]
    plain.set(key, value)
    return { op, key, value }
  })
}

/** A change that does not fit. */
function wrongOf(chance: Chance, plain: Plain): Operation {
  const key = chance.pick(KEYS)
  if (plain.has(key)) return { op: 'add', key, value: '' }
  return chance.happens(0.5) ? { op: 'delete', key } : { op: 'edit', key, value: '' }
}

/** What a list has at the beginning. */
function beginning(chance: Chance): Plain {
  return new Map(KEYS.slice(0, chance.pick([1, 3, 30])).map(key => [key, drawnValue(chance)]))
}

async function ownerOf(chance: Chance, plain: Plain) {
  const folder = await temporaryDirectory()
  const key = join(folder, 'owner.key')
  const choices = { valueBytes: VALUE_BYTES, evaluators: 3, atLeast: 2 }
  const evaluationKey = fromHex(await createOwnerKey(key, choices))
  let files = 0
  const transformed = async (entries: string): Promise<string> => {
    const [from, to] = [join(folder, `${++files}.jsonl`), join(folder, `${files}.out`)]
    await writeFile(from, entries)
    await transform({ from, to, key })
    return await readFile(to, 'utf8')
  }
  const list = await transformed(lines(Array.from(plain, ([key, value]) => ({ key, value }))))
  const shape = { headroom: chance.pick([0, 8, 64]), pack: chance.pick([1, 2, 4]) }
  const dataset = await builtDirectory('list.csv', list, { ...shape, valueEncoding: 'base64' })
  const database = await openedIn(await createIn(new FailingStorage(), dataset))

  // As a client evaluates, once a key.
  const evaluation = new Evaluation(
    KEYS.map(key => inputOf(bytesOf(key))),
    randomBytes(ENTROPY_BYTES),
  )
  const numbers = chance.pick([
    [1, 2],
    [1, 3],
    [3, 2],
  ])
  const products = numbers.map(async number => {
    const { secret } = await readShare(join(folder, `share-${number}`))
    return { number, points: elementsOf(new SecretHandle(secret).multiply(evaluation.elements))! }
  })
  const outputs = evaluation.finish(elementsOf(evaluationKey)![0]!, await Promise.all(products))!
  return { transformed, database, outputs: new Map(KEYS.map((key, i) => [key, outputs[i]!])) }
}

/** Looks keys up in the newest epoch, as a client does. */
async function reading(database: UpdatableDatabase, outputs: ReadonlyMap<string, Uint8Array>) {
  const { manifest } = database.newest
  const { records, recordBytes, blockRecords = 1 } = manifest
  const directory = core.decodeDirectory(await bodyOf(database, manifest.directoryHash), records)
  return (key: string): string | undefined => {
    const print = core.fingerprint(listKeyOf(outputs.get(key)!))
    const index = directory.index(print, records)
    const [block, blocks] = [Math.floor(index / blockRecords), partitionBlocks(manifest)]
    const answer = database.newest.answer(
      vectors(Array(manifest.partitions).fill(block % blocks)),
      suiteOf('tags'),
    ) as Uint8Array
    const at = Math.floor(block / blocks) * entryBytes(manifest, 'tags') + (index % blockRecords) * recordBytes
    expect(answer.length).toBe(manifest.partitions * blockBytes(manifest))
    const record = answer.subarray(at, at + recordBytes)
    if (!equalBytes(record.subarray(0, 16), print)) return undefined
    const sealed = record.subarray(record.length - VALUE_BYTES - 22)
    return new TextDecoder().decode(
      opened(outputs.get(key)!, sealed) ?? expect.fail(`the value of ${key} is not sealed`),
    )
  }
}

const first = Math.floor(Math.random() * 2 ** 31)

test.each(Array.from({ length: OWNERS }, (_, i) => first + i))(
  'each epoch has what the owner has, seed %i',
  async seed => {
    const chance = new Chance(seed)
    let plain = beginning(chance)
    const { transformed, database, outputs } = await ownerOf(chance, plain)
    const expectAll = async (keys: readonly string[]) => {
      const read = await reading(database, outputs)
      for (const key of keys) expect([key, read(key)]).toEqual([key, plain.get(key)])
    }
    await expectAll(KEYS)
    let epoch = 1
    const publish = async (text: string) => await database.publish(batchOn(database, text, { encoding: 'base64' }))
    for (let i = 0; i < BATCHES; i++) {
      if (chance.happens(0.02)) {
        await database.publish(batchOn(database, [{ op: 'generation', headroom: chance.below(64) }]))
        epoch += 1
      }
      const next = new Map(plain)
      const changes = changesOf(chance, next)
      const text = await transformed(lines(changes))
      if (chance.happens(0.1)) {
        const wrong = await transformed(lines([...changes, wrongOf(chance, next)]))
        expect(await refusal(publish(wrong))).toMatchObject({ code: 'batch_refused' })
      }
      await publish(text)
      epoch += 1
      plain = next
      expect(database.newest.manifest.epoch).toBe(epoch)
      const sample = [...changes.map(({ key }) => key), ...Array.from({ length: 4 }, () => chance.pick(KEYS))]
      await expectAll(i === BATCHES - 1 ? KEYS : [...new Set(sample)])
    }
  },
)

test(`publishers that are killed send the same file again, seed ${first}`, async () => {
  const chance = new Chance(first)
  const plain = beginning(chance)
  const owned = await own(Object.fromEntries(plain), { valueBytes: VALUE_BYTES, evaluators: 3, atLeast: 2 })
  onTestFinished(() => owned.close())
  const { servers, publisherKey, evaluationKey, evaluators, send } = owned
  const map = confidential(await open({ servers, publisherKey, mode: 'instant' }), {
    ...{ evaluationKey, evaluators: evaluators.slice(1), atLeast: 2 },
  })
  onTestFinished(() => map.close())
  let epoch = 1
  for (const [i, step] of STEPS.entries()) {
    const isGeneration = i % 5 === 4
    const file = isGeneration ? undefined : await owned.transformed(changesOf(chance, plain))
    const batch =
      file === undefined ? Buffer.from(lines([{ op: 'generation', headroom: 40 + i }])) : await readFile(file)
    let left = i
    const killed = send(batch, {
      onStep: () => {
        if (left-- === 0) throw new Error('killed')
      },
    })
    await expect(killed, step).rejects.toThrow('killed')
    if (file !== undefined)
      await expect(transform({ from: file, to: file, key: owned.key })).rejects.toThrow(/another run/)
    await send(batch)
    epoch += 1
    await map.sync()
    expect([step, map.epoch]).toEqual([step, epoch])
    const keys = Array.from({ length: 16 }, () => chance.pick(KEYS))
    expect(await map.getManyText(keys, { padTo: 16 })).toEqual(keys.map(key => plain.get(key)))
  }
})
