// A stored head that could not have been written is refused, whatever about it is wrong (S3).

import { expect, test } from 'vitest'
import { fromRow, isSameHead, toRow } from '../../src/store/head.js'
import type { StoredHead } from '../../src/store/rules.js'
import { StateUnreadableError, StoreUnavailableError } from '../../src/store/store.js'
import { bytes, recordOf } from '../../src/testing/fixtures.js'

const record = recordOf(1)
const whole: StoredHead = {
  record,
  stage: 'whole',
  version: 5,
  checkpointVersion: 3,
  journalBytes: 40,
  pending: bytes('pending', 50),
  condemned: undefined,
}
const partial: StoredHead = {
  record,
  stage: 'partial',
  version: 2,
  checkpointVersion: 2,
  journalBytes: 0,
  pending: undefined,
  condemned: undefined,
}

test.each<[string, StoredHead]>([
  ['whole', whole],
  ['whole, just made', { ...whole, version: 0, checkpointVersion: 0, journalBytes: 0, pending: undefined }],
  ['half-made', partial],
  ['condemned', { ...whole, checkpointVersion: 5, pending: undefined, condemned: { culprit: 'https://a.example' } }],
  ['half-made and condemned', { ...partial, condemned: { culprit: undefined } }],
])('%s: read as it was written', (_, head) => {
  expect(fromRow(toRow(head))).toEqual(head)
})

test.each<[string, object]>([
  ['nothing', {}],
  ['format 1', { ...toRow(whole), format: 1 }],
  ['format 2', { ...toRow(whole), format: 2 }],
  ['format 3', { ...toRow(whole), format: 3 }],
  ['no format', { ...toRow(whole), format: undefined }],
  ['a format that is no number', { ...toRow(whole), format: '5' }],
  ['a hint id of 15 bytes', toRow({ ...whole, record: { ...record, hintId: bytes('hint', 15) } })],
  ['no record', { ...toRow(whole), record: undefined }],
  ['no word of the fence', { ...toRow(whole), record: { ...record, fenced: undefined } }],
  ['a signature in other words', { ...toRow(whole), record: { ...record, signature: 'signed' } }],
  ['the fence in other words', { ...toRow(whole), record: { ...record, fenced: true } }],
  ['a fence without a name', { ...toRow(whole), record: { ...record, fenced: [1] } }],
  ['no manifest', { ...toRow(whole), record: { ...record, manifest: undefined } }],
  ['a manifest that is no bytes', { ...toRow(whole), record: { ...record, manifest: 'bytes' } }],
  ['no parties', { ...toRow(whole), record: { ...record, parties: undefined } }],
  ['a party without a name', { ...toRow(whole), record: { ...record, parties: ['https://a.example', 2] } }],
  ['no scheme', { ...toRow(whole), record: { ...record, scheme: undefined } }],
  ['another stage', { ...toRow(whole), stage: 'ready' }],
  ['half a version', toRow({ ...whole, version: 4.5 })],
  ['a negative version', toRow({ ...whole, version: -1, checkpointVersion: -1 })],
  ['a version that is no number', { ...toRow(whole), version: '5' }],
  ['a checkpoint of a version to come', toRow({ ...whole, checkpointVersion: 6 })],
  ['a half-made hint with a checkpoint', toRow({ ...partial, checkpointVersion: 1 })],
  ['a half-made hint with a lookup', toRow({ ...partial, pending: bytes('pending', 50) })],
  ['a lookup that is no bytes', { ...toRow(whole), pending: [1, 2] }],
  ['a culprit that is no name', { ...toRow(whole), condemned: { culprit: 7 } }],
])('%s: unreadable', (_, row) => {
  expect(() => fromRow(row)).toThrow(StateUnreadableError)
})

test('two heads are the same if all they say is, in whatever order', () => {
  const { version, ...rest } = structuredClone(whole)
  expect(isSameHead(whole, { ...rest, version })).toBe(true)
  for (const change of [
    { version: 6 },
    { checkpointVersion: 4 },
    { journalBytes: 41 },
    { stage: 'partial' as const },
    { pending: undefined },
    { pending: bytes('pending', 51) },
    { condemned: { culprit: undefined } },
    ...[
      { hintId: bytes('other', 16) },
      { scheme: 'local' },
      { fenced: [] },
      { manifest: bytes('m', 9) },
      { signature: bytes('s', 64) },
    ].map(part => ({ record: { ...record, ...part } })),
    { record: { ...record, parties: [...record.parties].reverse() } },
  ]) {
    expect(isSameHead(whole, { ...whole, ...change })).toBe(false)
  }
  expect(
    isSameHead({ ...whole, condemned: { culprit: undefined } }, { ...whole, condemned: { culprit: 'undefined' } }),
  ).toBe(false)
})

test('a head of a newer release is not unreadable: whoever reads it must not replace it', () => {
  expect(() => fromRow({ ...toRow(whole), format: 5 })).toThrow(StoreUnavailableError)
  expect(() => fromRow({ format: 6 })).toThrow(/format 6, made by a newer release/)
})
