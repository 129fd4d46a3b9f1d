// What every app does with the package: it looks up in each mode.

import { servers } from './servers.js'

const EXPECTED = 'instant river false, full river false, local river false, single river false'

/** Resolves to `works`. `entries`: those of entries.js, where a package is found by its name. */
export async function probe(open, entries = []) {
  const said = []
  for (const options of [
    { mode: 'instant' },
    { mode: 'full' },
    { mode: 'local' },
    { mode: 'single', servers: [servers[0]], integrity: 'server' },
  ]) {
    const map = await open({ servers, storage: 'memory', ...options })
    said.push([map.mode, await map.getText('otter'), await map.has('auk')].join(' '))
    await map.close()
  }
  if (said.join(', ') !== EXPECTED) throw new Error(`expected ${EXPECTED}, got ${said.join(', ')}`)
  for (const answer of entries) {
    const value = await answer(servers)
    if (value !== 'river') throw new Error(`expected river of ${answer}, got ${value}`)
  }
  return 'works'
}

/** Puts it into the page's title, where the test reads it. */
export function show(outcome) {
  outcome.then(
    said => {
      document.title = said
    },
    error => {
      document.title = `failed: ${error}`
    },
  )
}
