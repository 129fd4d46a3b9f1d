// The interface of api.ts over the glue of either build.

import type * as pointproofsGlue from '../generated/pointproofs.js'
import type { Pointproofs } from './api.js'

/** What both builds have, for verifying and for proving. */
export type SharedGlue = Pick<typeof pointproofsGlue, 'VerifierHandle' | 'CeremonyHandle' | 'beginCeremony'>

export function pointproofs(glue: SharedGlue): Pointproofs {
  return {
    verifier: (key, keyHash, allowDevelopment, { partitions, partitionRecords, recordBytes }, rowLists) =>
      new glue.VerifierHandle(key, keyHash, allowDevelopment, partitions, partitionRecords, recordBytes, rowLists),
    beginCeremony: glue.beginCeremony,
    ceremony: (transcript, entropy) => new glue.CeremonyHandle(transcript, entropy),
  }
}

/** A loader that starts one instance. After a failure the next call starts another. */
export function once<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined
  return () => {
    loading ??= load().catch(error => {
      loading = undefined
      throw error
    })
    return loading
  }
}
