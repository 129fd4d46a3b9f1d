// Three servers or more.

import type { Database } from './database.js'
import { Network } from './network.js'

export const SERVERS = Array.from({ length: 8 }, (_, i) => `https://${'abcdefgh'[i]}.example`)

/** The first of them, all with the same databases. */
export const among = (count: number, ...databases: Database[]) =>
  new Network(Object.fromEntries(SERVERS.slice(0, count).map(server => [server, databases])))
