// Replies of node-fetch have streams of Node's, not of the web.

import { open } from '@keyhush/client'
import fetch from 'node-fetch'
import { probe } from '../probe.js'

console.log(await probe(options => open({ ...options, fetch })))
