// The setup of a verified transcript, which proves databases. Verifying and the prover's tables take seconds, so a process does both
// once for all databases of one ceremony.

import type { PointproofsFields } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import type { Ceremony } from '../api.js'
import { loadProving, type PointproofsProver } from './module.js'
import { refusedBy, verifiedCeremony } from './transcript.js'

/** All of this is public. */
export interface Setup {
  readonly transcript: Uint8Array
  /** the verifier's key */
  readonly key: Uint8Array
  /** what provers in other threads are made of */
  readonly proving: Uint8Array
  /** for no database; `shaped` gives one for a database */
  readonly prover: PointproofsProver
  readonly ceremony: Ceremony
  readonly fields: Omit<PointproofsFields, 'rowsHash'>
}

/** By their transcript's hash. There are as few as ceremonies. */
const setups = new Map<string, Promise<Setup>>()

/** Throws CeremonyError, which names `file`, if the transcript is not valid. */
export function setupOf(core: Core, file: string, transcript: Uint8Array): Promise<Setup> {
  const name = Buffer.from(core.blake3(transcript)).toString('hex')
  const known = setups.get(name)
  if (known !== undefined) return known
  const setup = verified(core, file, transcript)
  setups.set(name, setup)
  setup.catch(() => setups.delete(name))
  return setup
}

async function verified(core: Core, file: string, transcript: Uint8Array): Promise<Setup> {
  const { setup, prover } = await loadProving()
  const ceremony = await verifiedCeremony(file, transcript)
  try {
    const key = ceremony.key()
    const proving = setup(ceremony)
    const { hash: transcriptHash, development } = ceremony
    const fields = { keyHash: core.blake3(key), transcriptHash, development }
    return { transcript, key, proving, prover: prover(proving, NO_DATABASE), ceremony, fields }
  } catch (error) {
    ceremony.free()
    throw refusedBy(file, error)
  }
}

const NO_DATABASE = { partitions: 1, partitionRecords: 1, recordBytes: 1 }
