import { open } from '@keyhush/client'
import { entries } from '../entries.js'
import { probe, show } from '../probe.js'

show(probe(open, entries))
