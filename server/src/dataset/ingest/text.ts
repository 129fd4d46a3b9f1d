// txt: one key a line and no values; a set of keys. Lines are taken exactly as they are, spaces included; empty lines
// hold no key and are skipped.

import { isUtf8 } from 'node:buffer'
import { BuildError } from '../../base/errors.js'
import { readLines } from './lines.js'
import type { Table } from './table.js'

const NO_VALUE = new Uint8Array()

export async function readKeyList(file: string, table: Table, onBytes?: (bytes: number) => void): Promise<void> {
  await readLines(
    file,
    (key, line) => {
      if (key.length === 0) return
      if (!isUtf8(key)) throw new BuildError('the line is not UTF-8', file, line)
      table.add(key, NO_VALUE, line)
    },
    onBytes,
  )
}
