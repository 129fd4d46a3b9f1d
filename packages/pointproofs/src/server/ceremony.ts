// The commands `keyhush ceremony`, with which operators make the key of Pointproofs (docs/operations/ceremony.md;
// docs/protocol.md, Ceremony).

import { randomBytes } from 'node:crypto'
import { access, rename, writeFile } from 'node:fs/promises'
import { toHex } from '@keyhush/protocol'
import { saying } from '@keyhush/server/proofs'
import type { Ceremony } from '../api.js'
import { CeremonyError } from './errors.js'
import { loadProving } from './module.js'
import { readCeremony, readReceipt, refusedBy, verifiedCeremony } from './transcript.js'

const ENTROPY_BYTES = 32
const RECEIPT_BYTES = 32

export async function init({ out, development }: { out: string; development?: true }): Promise<void> {
  const { beginCeremony } = await loadProving()
  await create(out, beginCeremony(development ?? false))
  process.stdout.write(`${out}: nobody has contributed yet\n`)
}

/**
 * Writes the transcript as `.part`, then the receipt, then renames the transcript: there is never a transcript without its receipt.
 * After an interruption the same command goes on.
 */
export async function contribute(file: string, options: { name: string; out: string }): Promise<void> {
  const { out } = options
  const [partFile, receiptFile] = [`${out}.part`, `${out}.receipt`]
  if (await exists(out)) throw new CeremonyError(`${out}: it exists already, and nothing is overwritten`)
  if (await exists(receiptFile)) return await finish(out, partFile, receiptFile)
  const before = await saying(`verifying ${file}`, () => readCeremony(file))
  const entropy = randomBytes(ENTROPY_BYTES)
  let contributed: Uint8Array
  try {
    contributed = await saying('contributing', () => before.contribute(options.name, entropy))
  } catch (error) {
    throw refusedBy(file, error)
  } finally {
    entropy.fill(0)
    before.free()
  }
  const transcript = contributed.slice(0, -RECEIPT_BYTES)
  const receipt = contributed.slice(-RECEIPT_BYTES)
  const after = await saying('verifying the contribution', () => verifiedCeremony(out, transcript)) // as others will verify it
  if (!after.has(receipt)) throw new CeremonyError(`${out}: the contribution is not in it; nothing was written`)
  await writeFile(partFile, transcript, { flush: true }) // replaces one without a receipt, from an interrupted run
  await create(receiptFile, `${toHex(receipt)}\n`)
  await rename(partFile, out)
  describe(after, keeping(receiptFile))
}

/** A contribution that was interrupted after its receipt was written. */
async function finish(out: string, partFile: string, receiptFile: string): Promise<void> {
  if (!(await exists(partFile))) {
    throw new CeremonyError(`${receiptFile}: it exists already, and nothing is overwritten`)
  }
  const after = await readCeremony(partFile)
  if (!after.has(await readReceipt(receiptFile))) {
    after.free()
    throw new CeremonyError(`${partFile}: it is not what ${receiptFile} is for; remove both, and contribute again`)
  }
  await rename(partFile, out)
  describe(after, { ...keeping(receiptFile), note: 'an earlier run was interrupted; this is its contribution' })
}

function keeping(receiptFile: string): Record<string, string> {
  return { receipt: `${receiptFile}: keep it; by it you find your contribution again` }
}

async function exists(file: string): Promise<boolean> {
  return await access(file).then(
    () => true,
    () => false,
  )
}

export async function verify(file: string, options: { receipt?: string[] }): Promise<void> {
  const receipts = await Promise.all((options.receipt ?? []).map(readReceipt))
  const ceremony = await saying(`verifying ${file}`, () => readCeremony(file))
  for (const [at, receipt] of receipts.entries()) {
    if (!ceremony.has(receipt)) {
      throw new CeremonyError(`${file}: the contribution of ${options.receipt?.[at]} is not in it; do not use it`)
    }
  }
  describe(ceremony, {
    receipts: receipts.length === 0 ? 'none given: whether your contribution is in it was not looked at' : 'all found',
  })
}

async function create(file: string, content: Uint8Array | string): Promise<void> {
  await writeFile(file, content, { flag: 'wx', flush: true }).catch(error => {
    throw (error as NodeJS.ErrnoException).code === 'EEXIST'
      ? new CeremonyError(`${file}: it exists already, and nothing is overwritten`)
      : error
  })
}

function describe(ceremony: Ceremony, more: Record<string, string>): void {
  const lines = {
    contributors: ceremony.names.length === 0 ? 'nobody yet' : ceremony.names.map(name => `“${name}”`).join(', '),
    'for development': ceremony.development ? 'yes: clients refuse its key unless told' : 'no',
    'transcript hash': toHex(ceremony.hash),
    ...more,
  }
  const text = Object.entries(lines).map(([name, value]) => `${name}: ${value}\n`)
  ceremony.free()
  process.stdout.write(text.join(''))
}
