// Looks up each argument and prints whether it is known. Keeps its state in the folder `state`.

import { open } from '@keyhush/client'
import { fileStore } from '@keyhush/client/node'
import { publisherKey, servers } from '../servers.js'

const keys = process.argv.slice(2)
const map = await open({ servers, publisherKey, store: fileStore(process.env.STATE ?? 'state') })
// Always one round trip of eight queries: the servers see neither which keys these are nor how many, up to eight.
const values = await map.getMany(keys, { padTo: 8 })
for (const [i, key] of keys.entries()) console.log(`${key}: ${values[i] === undefined ? 'not known' : 'known'}`)
await map.close()
