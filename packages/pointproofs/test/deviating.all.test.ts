// A server that deviates at will, with Pointproofs of a database that changes (packages/client/test/support/deviating.ts).

import * as pointproofs from '@keyhush/pointproofs'
import { CHANGES, deviate } from '../../client/test/support/deviating.js'
import { core, keyed } from '../../client/test/support/harness.js'
import { buildProved, nextProved } from './support/database.js'

await pointproofs.loadPointproofs()
const epochs = [buildProved(core, { ...keyed().database.contents, partitions: 3 })]
for (const operations of CHANGES) epochs.push(nextProved(core, epochs.at(-1)!, operations))

deviate(['full'], 15, { epochs, proofs: 'pointproofs', pointproofs: async () => pointproofs })
