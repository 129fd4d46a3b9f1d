// The smallest database with Pointproofs, as it lies in ../dataset: of eight names, under the ceremony in ../ceremony.

import { fileURLToPath } from 'node:url'

export const DATASET = fileURLToPath(new URL('../dataset', import.meta.url))

export const CONTENT = `key,value\n${Array.from({ length: 8 }, (_, i) => `name ${i},value ${i}\n`).join('')}`
export const SMALL = { format: 'csv', partitions: 2, proofs: 'pointproofs' } as const
