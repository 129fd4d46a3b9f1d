'use client'

import { open } from '@keyhush/client'
import { useEffect } from 'react'
import { entries } from '../../entries.js'
import { probe, show } from '../../probe.js'

/** Looks up once it is there. `server`: what its server has found. */
export function Client({ server }) {
  useEffect(() => show(probe(open, entries).then(said => (server === 'works' ? said : server))), [server])
  return <p>{server}</p>
}
