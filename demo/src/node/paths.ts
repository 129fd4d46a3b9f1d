// Paths of what the demo uses, as seen from demo/build/node/.

import { fileURLToPath } from 'node:url'

const fromRoot = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url))

export const keyhushCommand = fromRoot('server/bin/keyhush.js')
export const confidentialCommand = fromRoot('packages/confidential/bin/keyhush-confidential.js')
export const dataFolder = fromRoot('demo/data')
export const pageFolder = fromRoot('demo/dist')
/** what *One server* links to */
export const reviewPage = fromRoot('docs/review-one-server.md')
/** all-the-package-names is installed here, for `npm start -- --large` */
export const largeFolder = fromRoot('demo/large')
/** the programs that the built databases depend on */
export const builderFolders = [
  ...['server/dist', 'packages/protocol/dist', 'packages/wasm/generated'],
  ...['packages/confidential/dist', 'packages/confidential/generated'],
].map(fromRoot)
