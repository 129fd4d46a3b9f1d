import { open } from '@keyhush/client'
import { entries } from '../entries.js'
import { probe } from '../probe.js'

console.log(await probe(open, entries))
