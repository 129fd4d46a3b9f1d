// Looks up on the server, while the page is rendered.

import { open } from '@keyhush/client'
import { entries } from '../../../entries.js'
import { probe } from '../../../probe.js'

export const load = async () => ({ server: await probe(open, entries) })
