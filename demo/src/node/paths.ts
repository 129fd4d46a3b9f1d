// Where things are, from demo/build/node/.

import { fileURLToPath } from 'node:url'

const fromRoot = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url))

export const keyhushCommand = fromRoot('server/bin/keyhush.js')
export const dataFolder = fromRoot('demo/data')
export const pageFolder = fromRoot('demo/dist')
/** where all-the-package-names is installed, on request */
export const largeFolder = fromRoot('demo/large')
/** what the built databases depend on beside their entries */
export const builderFolders = ['server/dist', 'packages/protocol/dist', 'packages/wasm/generated'].map(fromRoot)
