// Looks up each argument, and says which of them are known. What it downloads it keeps in the folder `state`.

import { open } from '@keyhush/client'
import { fileStore } from '@keyhush/client/node'
import { publisherKey, servers } from '../servers.js'

const keys = process.argv.slice(2)
const map = await open({ servers, publisherKey, store: fileStore(process.env.STATE ?? 'state') })
// One round trip of eight queries, however many keys there are, up to eight: the servers see neither which nor how many.
const values = await map.getMany(keys, { padTo: 8 })
for (const [i, key] of keys.entries()) console.log(`${key}: ${values[i] === undefined ? 'not known' : 'known'}`)
await map.close()
