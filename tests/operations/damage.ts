// `npm run soak -- damage` begins here: one bit of a store is flipped, anywhere, and the store opened, read and written. It is
// refused, or what it gives is what was put there, but for what it says is missing: it is never something else, nor does the
// process hang or die.
//
//   npm run soak -- damage               500 bits, from a random seed
//   npm run soak -- damage 50 --seed 7   so many, from seed 7
//
// Half of them are anywhere in the file, half at the beginnings of pages, where what LMDB believes is.

import { execFile } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { closeSync, cpSync, mkdirSync, openSync, readSync, rmSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { temporaryFolder } from '../support/servers.js'

const PAGE_BYTES = 4096
const PAGE_BEGINNING = 160
const HUNG_MS = 300_000

interface Found {
  readonly refused?: string
  readonly missed: readonly string[]
  readonly wrong: readonly string[]
}

/** Returns the exit code. */
export async function soak(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: { seed: { type: 'string' } } })
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed)
  const count = Number(positionals[0] ?? 500)
  if (!Number.isSafeInteger(seed) || !Number.isSafeInteger(count)) throw new Error('expected numbers')
  console.log(`seed ${seed}`)
  const folder = await temporaryFolder()
  const met = { same: 0, refused: 0, missed: 0, wrong: 0 }
  try {
    const whole = join(folder.path, 'whole')
    const copy = join(folder.path, 'copy')
    mkdirSync(whole)
    const failed = await run('prepare', whole)
    if (failed !== '') throw new Error(`no store could be made: ${failed}`)
    const chance = draws(seed)
    for (let n = 0; n < count; n++) {
      cpSync(whole, copy, { recursive: true })
      const where = flip(join(copy, 'store', 'data.mdb'), chance)
      const outcome = await run('check', copy)
      rmSync(copy, { recursive: true })
      if (typeof outcome === 'string') {
        met.wrong++
        console.log(`${where}: ${outcome}`)
        continue
      }
      const { refused, missed, wrong } = outcome
      met[wrong.length > 0 ? 'wrong' : refused !== undefined ? 'refused' : missed.length > 0 ? 'missed' : 'same']++
      if (wrong.length > 0) console.log(`${where}: ${wrong.join('; ')}`)
    }
  } finally {
    await folder.remove()
  }
  const { same, refused, missed, wrong } = met
  console.log(
    `${count} bits: ${refused} stores refused, ${missed} with something missing, ${same} as they were, ${wrong} wrong`,
  )
  return wrong === 0 ? 0 : 1
}

/** What a process found, or how it ended. */
function run(what: string, dir: string): Promise<Found | string> {
  const program = fileURLToPath(new URL('damage-process.mjs', import.meta.url))
  return new Promise(resolve => {
    execFile(
      process.execPath,
      [program, what, dir],
      { timeout: HUNG_MS, killSignal: 'SIGKILL' },
      (error, said, log) => {
        if (error === null) resolve(what === 'check' ? (JSON.parse(said) as Found) : '')
        else if (error.killed) resolve(`it hung: ${log}`)
        else resolve(`it died, ${error.signal ?? `code ${error.code}`}: ${log}`)
      },
    )
  })
}

/** Flips a bit of a file; says which. */
function flip(path: string, chance: (count: number) => number): string {
  const { size } = statSync(path)
  const isBeginning = chance(2) === 0
  const at = isBeginning ? PAGE_BYTES * chance(size / PAGE_BYTES) + chance(PAGE_BEGINNING) : chance(size)
  const bit = chance(8)
  const fd = openSync(path, 'r+')
  const byte = Buffer.alloc(1)
  readSync(fd, byte, 0, 1, at)
  byte[0]! ^= 1 << bit
  writeSync(fd, byte, 0, 1, at)
  closeSync(fd)
  return `bit ${bit} of byte ${at % PAGE_BYTES} of page ${Math.floor(at / PAGE_BYTES)}`
}

/** xorshift32: a number below `count`. */
function draws(seed: number): (count: number) => number {
  let state = Math.imul(seed, 0x9e3779b1) | 1
  return count => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % count
  }
}
