// Beside an answer: what an ordinary server would have learnt by giving it, and what these did.

import { bytes, element } from './format.js'
import { plot, type Seeing } from './sightings.js'

/** `request` and `answer` as they would be in plain words; without an answer: what came was not used. */
export function learnt(request: string, answer: string | undefined, seen: readonly Seeing[]): HTMLElement[] {
  const ordinary = element(
    'figure',
    {},
    element('figcaption', {}, element('strong', {}, 'An ordinary server'), ' would have seen'),
    element('pre', { tabindex: '0' }, request, ...(answer === undefined ? [] : [`\n→ ${answer}`])),
    element('p', { class: 'quiet' }, 'It would know what you asked, and what came of it.'),
  )
  const these = seen.map(({ server, sighting, bound }) =>
    element(
      'figure',
      { class: server.toLowerCase() },
      element(
        'figcaption',
        {},
        element('strong', { class: `server ${server.toLowerCase()}` }, `Server ${server}`),
        ` saw ${bytes(sighting.bytes)}`,
      ),
      plot(sighting, bound),
      element('p', { class: 'quiet' }, 'It knows that you asked, and when. Not what, nor whether it was there.'),
    ),
  )
  return [ordinary, ...these]
}
