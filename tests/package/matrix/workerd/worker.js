// A Worker that looks up for whoever asks it, and a test that asks it. Workers compile no WebAssembly while they run: the modes that
// do without it work, and others say so.

import { open } from '@keyhush/client'
import { entries } from '../entries.js'
import { servers } from '../servers.js'

const EXPECTED =
  'instant river false, instant river false, local river false, full unsupported policy, kept unsupported platform, river, river'

async function said(mode) {
  const map = await open({ servers, mode, storage: 'memory' })
  try {
    return [map.mode, await map.getText('otter'), await map.has('auk')].join(' ')
  } finally {
    await map.close()
  }
}

let kept

async function ofKept() {
  kept ??= await open({ servers, mode: 'local', storage: 'memory' })
  return await kept.getText('otter')
}

const refused = (what, work) => work.catch(error => `${what} ${error.code} ${error.reason}`)

export default {
  async fetch() {
    const all = [await said('instant'), await said('auto'), await said('local')]
    all.push(await refused('full', said('full')), await refused('kept', ofKept()))
    for (const answer of entries) all.push(await answer(servers))
    return new Response(all.join(', '))
  },
  async test(_controller, { app }) {
    const ask = async () => await (await app.fetch('http://app')).text()
    const first = await ask() // it keeps a map
    const texts = [
      first.replace('river, river, river', 'kept unsupported platform, river, river'),
      ...(await Promise.all([ask(), ask()])),
    ]
    const wrong = texts.find(text => text !== EXPECTED)
    if (wrong !== undefined) throw new Error(`expected ${EXPECTED}, got ${wrong}`)
  },
}
