// What a file of LMDB holds is believed by LMDB: what led it astray though its pages had been looked at.

import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openLmdb } from '../dist/storage/lmdb.js'
import { damageIn } from '../dist/storage/lmdb-pages.js'
import { temporaryDirectory } from './helpers.js'

const PAGE_BYTES = 4096
const HEADER_BYTES = 24
const LEAF = 2

/** A store of 300 short entries, and what is said of its file when some of it is changed. Nobody opens that. */
async function closedFile() {
  const dir = await temporaryDirectory()
  const storage = openLmdb(dir)
  await storage.transact([], transaction => {
    for (let i = 0; i < 300; i++) transaction.put(`key/${i}`, new Uint8Array(20).fill(i))
  })
  await storage.transact([], transaction => transaction.remove('key/7'))
  await storage.close()
  const whole = readFileSync(join(dir, 'data.mdb'))
  const path = join(await temporaryDirectory(), 'data.mdb')
  const damageOf = (change: (file: Buffer) => void) => {
    const file = Buffer.from(whole)
    change(file)
    writeFileSync(path, file)
    const fd = openSync(path, 'r')
    try {
      return damageIn(fd)
    } finally {
      closeSync(fd)
    }
  }
  expect(damageOf(() => {})).toBeUndefined()
  return { whole, damageOf }
}

// It ended the process, or found 19 of 300 entries: a fence would have forgotten its hints.
test('both head pages saying alike that a tree is of another kind does not make it one', async () => {
  const { damageOf } = await closedFile()
  for (const flags of [48, 96].map(tree => tree + 4)) {
    for (let bit = 0; bit < 16; bit++) {
      const damage = damageOf(file => {
        for (const head of [0, PAGE_BYTES]) file[head + flags + (bit >> 3)]! ^= 1 << (bit & 7)
      })
      expect(damage, `bit ${bit} at ${flags}`).toBe('its trees are of another kind')
    }
  }
})

// It was served, and whoever removed that entry, unread as what is forgotten is, ended the process.
test('an entry that reaches into another, by one flipped bit of its length, is damage', async () => {
  const { whole, damageOf } = await closedFile()
  let [tried, pages] = [0, 0]
  for (let page = 2 * PAGE_BYTES; page < whole.length; page += PAGE_BYTES) {
    if (whole.readUInt16LE(page + 18) !== LEAF) continue
    const nodes = whole.readUInt16LE(page + 20) / 2
    const starts = Array.from({ length: nodes }, (_, i) => whole.readUInt16LE(page + HEADER_BYTES + 2 * i))
    const isFree = damageOf(file => file.writeUInt8(file[page]! ^ 1, page)) === undefined
    if (isFree) continue
    pages++
    const last = Math.max(...starts) // behind it there is none
    for (const start of starts.filter((start, i) => i % 7 === 0 && start !== last)) {
      const at = page + HEADER_BYTES + start
      const bytes = whole.readUInt32LE(at)
      for (let bit = 0; bit < 12; bit++) {
        if ((bytes ^ (1 << bit)) <= bytes + 1) continue // shorter, or into what makes its length even
        tried++
        const damage = damageOf(file => file.writeUInt32LE(bytes ^ (1 << bit), at))
        expect(damage, `bit ${bit} of the length at ${at}`).toMatch(/entries of page \d+ overlap|entry \d+ of page \d+/)
      }
    }
  }
  expect([pages > 0, tried > 100]).toEqual([true, true])
})
