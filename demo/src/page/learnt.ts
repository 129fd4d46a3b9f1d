// Shows beside an answer what an ordinary server would have learnt, and what the two servers learnt. Before the first answer it
// shows what they will learn, in the same place.

import type { ServerName } from './backstage.js'
import { bytes, element } from './format.js'
import { plot, type Seeing } from './sightings.js'

/** Before a lookup. `request`: what an ordinary server would get. */
export function aheadOf(request: string, servers: readonly ServerName[]): HTMLElement[] {
  const ordinary = element(
    'figure',
    {},
    element('figcaption', {}, element('strong', {}, 'An ordinary server'), ' would see'),
    element('pre', { tabindex: '0' }, request),
    element('p', { class: 'quiet' }, 'It would know what you ask, and the answer.'),
  )
  const these = servers.map(server =>
    element(
      'figure',
      { class: server.toLowerCase() },
      element('figcaption', {}, nameOf(server), ' will see'),
      element('p', { class: 'unseen-yet' }, 'noise, just as long whatever you ask'),
      element('p', { class: 'quiet' }, 'It will know that you ask, and when. Not what, nor whether it is there.'),
    ),
  )
  return [ordinary, ...these]
}

/** After a lookup. `request`, `answer`: an ordinary server's; without an answer: the servers' answers were not used. */
export function learnt(request: string, answer: string | undefined, seen: readonly Seeing[]): HTMLElement[] {
  const ordinary = element(
    'figure',
    {},
    element('figcaption', {}, element('strong', {}, 'An ordinary server'), ' would see'),
    element('pre', { tabindex: '0' }, request, ...(answer === undefined ? [] : [`\n→ ${answer}`])),
    element('p', { class: 'quiet' }, 'It would know what you asked, and the answer.'),
  )
  const these = seen.map(({ server, sighting, bound }) =>
    element(
      'figure',
      { class: server.toLowerCase() },
      element('figcaption', {}, nameOf(server), ` saw ${bytes(sighting.bytes)}`),
      plot(sighting, bound),
      element('p', { class: 'quiet' }, 'It knows that you asked, and when. Not what, nor whether it was there.'),
    ),
  )
  return [ordinary, ...these]
}

const nameOf = (server: ServerName) =>
  element('strong', { class: `server ${server.toLowerCase()}` }, `Server ${server}`)
