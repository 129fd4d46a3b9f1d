import { join } from 'node:path'

// What is installed, and what all apps share, is beside this folder.
export default { reactStrictMode: true, turbopack: { root: join(import.meta.dirname, '..') } }
