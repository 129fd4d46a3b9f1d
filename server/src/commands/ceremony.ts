// `pirouette ceremony`: how those who run servers make the key of Pointproofs (docs/operations.md, A ceremony by mail;
// docs/protocol.md, Ceremony).

import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { fromHex, toHex } from '@pirouette/protocol'
import { type Ceremony, loadPointproofs } from '@pirouette/wasm/pointproofs'
import { CeremonyError } from '../ceremony/errors.js'

const ENTROPY_BYTES = 32
const RECEIPT_BYTES = 32

export async function init({ out, development }: { out: string; development?: true }): Promise<void> {
  const { beginCeremony } = await loadPointproofs()
  await create(out, beginCeremony(development ?? false))
  process.stdout.write(`${out}: nobody has contributed yet\n`)
}

export async function contribute(file: string, options: { name: string; out: string }): Promise<void> {
  const receiptFile = `${options.out}.receipt`
  const before = await read(file)
  const entropy = randomBytes(ENTROPY_BYTES)
  let contributed: Uint8Array
  try {
    contributed = before.contribute(options.name, entropy)
  } catch (error) {
    throw refused(file, error)
  } finally {
    entropy.fill(0)
    before.free()
  }
  const transcript = contributed.slice(0, -RECEIPT_BYTES)
  const receipt = contributed.slice(-RECEIPT_BYTES)
  const after = await verified(options.out, transcript) // what goes out is looked at as others will look at it
  if (!after.has(receipt)) throw new CeremonyError(`${options.out}: the contribution is not in it; nothing was written`)
  // The receipt first: a transcript that got away without one could not be told from another's.
  await create(receiptFile, `${toHex(receipt)}\n`)
  await create(options.out, transcript)
  describe(after, { receipt: `${receiptFile}: keep it; by it you find your contribution again` })
}

export async function verify(file: string, options: { receipt?: string[] }): Promise<void> {
  const receipts = await Promise.all((options.receipt ?? []).map(readReceipt))
  const ceremony = await read(file)
  for (const [at, receipt] of receipts.entries()) {
    if (!ceremony.has(receipt)) {
      throw new CeremonyError(`${file}: the contribution of ${options.receipt?.[at]} is not in it; do not use it`)
    }
  }
  describe(ceremony, {
    receipts: receipts.length === 0 ? 'none given: whether your contribution is in it was not looked at' : 'all found',
  })
}

/** A transcript that holds. */
async function read(file: string): Promise<Ceremony> {
  return verified(file, await readFile(file))
}

async function verified(file: string, transcript: Uint8Array): Promise<Ceremony> {
  const { ceremony } = await loadPointproofs()
  try {
    return ceremony(transcript, randomBytes(ENTROPY_BYTES))
  } catch (error) {
    throw refused(file, error)
  }
}

/** What the module refuses is the file's fault, or the name's; a trap is not. */
function refused(file: string, error: unknown): unknown {
  return error instanceof Error && 'code' in error ? new CeremonyError(`${file}: ${error.message}`) : error
}

async function readReceipt(file: string): Promise<Uint8Array> {
  const [, digits] = /^([0-9a-f]{64})\s*$/.exec(await readFile(file, 'utf8')) ?? []
  if (digits === undefined) throw new CeremonyError(`${file}: expected a receipt, 64 hex digits`)
  return fromHex(digits)
}

async function create(file: string, content: Uint8Array | string): Promise<void> {
  await writeFile(file, content, { flag: 'wx' }).catch(error => {
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
