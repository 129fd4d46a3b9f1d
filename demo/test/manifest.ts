// The manifest of a keyed database, for tests of the wire explorer and of pooled requests.

import type { Manifest } from '@keyhush/protocol'
import { keyless } from '../../packages/protocol/test/manifests.js'

const digests = new Uint8Array(4 * 32)
export const manifest: Manifest = {
  ...{ ...keyless, generation: 3, epoch: 9, keyed: true, records: 4000, recordBytes: 20, valueBytes: 4 },
  ...{ partitions: 4, partitionRecords: 1000, commitments: digests, contentHashes: digests },
  ...{ directoryBytes: 4096, directoryBlockLog: 3, directoryBlockBytes: 512 },
}
