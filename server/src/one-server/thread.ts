// The thread of one epoch: prepares its records in memory of its own, says the public hint, and then answers.

import { parentPort, workerData } from 'node:worker_threads'
import { equalBytes, type InstantOf } from '@keyhush/protocol'
import { type CoreError, loadCore, type OneServerHandle } from '@keyhush/wasm'
import { lowerPriority } from '../base/priority.js'
import type { Begin, Replied, Told } from './messages.js'

lowerPriority()

/** One planted database in 2^40 fails the first; a public hint that no attempt gives is that of other records. */
const ATTEMPTS = 4

const { databaseId, generation, parts, hintHash } = workerData as Begin
const core = await loadCore()

/** the bytes of each part, until all attempts have had them */
const bytes = new Map<InstantOf, Uint8Array[]>(parts.map(({ of }) => [of, []]))
let prepared: ReadonlyMap<InstantOf, OneServerHandle> = new Map()

function attempt(number: number): Map<InstantOf, OneServerHandle> {
  const made = new Map<InstantOf, OneServerHandle>()
  for (const { of, records, recordBytes } of parts) {
    const handle = core.newOneServer({ records, recordBytes }, { databaseId, generation, of }, number)
    made.set(of, handle)
    for (const part of bytes.get(of)!) handle.put(part)
    while (handle.step());
  }
  return made
}

function hintOf(made: ReadonlyMap<InstantOf, OneServerHandle>): Uint8Array {
  return new Uint8Array(Buffer.concat(parts.map(({ of }) => made.get(of)!.hint()))) // of its own memory, to be moved
}

/** Whether this is the public hint that is wanted: of the hash that is known, or one that hides what was asked. */
function suits(made: ReadonlyMap<InstantOf, OneServerHandle>): boolean {
  if (hintHash !== undefined) return equalBytes(core.blake3(hintOf(made)), hintHash)
  return parts.every(({ of }) => {
    const handle = made.get(of)!
    const norm = core.newOneServerNorm(handle)
    while (norm.step(handle));
    const { hides } = norm
    norm.free()
    return hides
  })
}

function prepare(): Replied {
  for (let number = 0; number < ATTEMPTS; number++) {
    const made = attempt(number)
    if (suits(made)) {
      prepared = made
      bytes.clear()
      return { hint: hintOf(made) }
    }
    for (const handle of made.values()) handle.free()
  }
  return { hint: undefined }
}

function reply(told: Told): Replied | undefined {
  if ('put' in told) {
    bytes.get(told.of)!.push(told.put)
    return undefined
  }
  if ('prepare' in told) return prepare()
  return { answers: prepared.get(told.of)!.answer(told.answer) }
}

parentPort!.on('message', (told: Told) => {
  let replied: Replied | undefined
  try {
    replied = reply(told)
  } catch (error) {
    const { code, message } = error as CoreError
    if (typeof code !== 'string') throw error // a trap ends the thread
    replied = { refused: code, message }
  } finally {
    if ('answer' in told) told.answer.fill(0)
  }
  if (replied === undefined) return
  const sent = 'answers' in replied ? replied.answers : 'hint' in replied ? replied.hint : undefined
  parentPort!.postMessage(replied, sent === undefined ? [] : [sent.buffer as ArrayBuffer])
})
