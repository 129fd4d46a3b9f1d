// A Worker that looks up for whoever asks it, and a test that asks it. Workers compile no WebAssembly while they run: the modes that
// do without it work, and others say so.

import { open } from '@keyhush/client'
import { entries } from '../entries.js'
import { servers } from '../servers.js'

const EXPECTED = 'instant river false, instant river false, local river false, full unsupported, river, river'

async function said(mode) {
  const map = await open({ servers, mode, storage: 'memory' })
  return [map.mode, await map.getText('otter'), await map.has('auk')].join(' ')
}

export default {
  async fetch() {
    const all = [await said('instant'), await said('auto'), await said('local')]
    all.push(await said('full').catch(error => `full ${error.code}`))
    for (const answer of entries) all.push(await answer(servers))
    return new Response(all.join(', '))
  },
  async test(_controller, { app }) {
    const text = await (await app.fetch('http://app')).text()
    if (text !== EXPECTED) throw new Error(`expected ${EXPECTED}, got ${text}`)
  },
}
