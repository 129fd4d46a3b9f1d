// A server component that looks up while it renders.

import { open } from '@keyhush/client'
import { entries } from '../../entries.js'
import { probe } from '../../probe.js'
import { Client } from './client'

export const dynamic = 'force-dynamic'

export default async function Page() {
  return <Client server={await probe(open, entries)} />
}
