// Lengths of the messages of a lookup that found something, beside those of one that did not.

import type { ServerName } from '../backstage.js'
import { count, element } from '../format.js'
import type { Seen } from './checks.js'

/** What was looked up, and what was sent for it. */
type Shown = Pick<Seen, 'typed' | 'exchanges'>

/** A table with the lengths of all requests and replies, and what they tell. `title`: the id of its title. */
export function sideBySide(found: Shown, absent: Shown, title: string): HTMLElement[] {
  const titles = [`Found: ${found.typed}`, `Not there: ${absent.typed}`]
  const steps = Math.max(found.exchanges.length, absent.exchanges.length)
  const servers = new Set(found.exchanges.map(({ server }) => server)).size
  const size = ({ exchanges }: Shown, i: number, way: 'sent' | 'reply') => {
    const exchange = exchanges[i]
    return (way === 'sent' ? exchange?.sent : exchange?.reply?.bytes)?.length
  }
  const rows = Array.from({ length: steps }, (_, i) =>
    (['sent', 'reply'] as const).map(way => {
      const [one, other] = [size(found, i, way), size(absent, i, way)]
      const { server } = (found.exchanges[i] ?? absent.exchanges[i])!
      const cells = [one, other].map((length, column) => {
        const attributes = { 'data-equal': String(one === other), 'data-label': titles[column]! }
        return element('td', attributes, length === undefined ? 'none' : count(length, 'byte'))
      })
      const what = ` ${way === 'sent' ? 'request' : 'reply'} ${1 + Math.floor(i / servers)}`
      return element('tr', {}, element('th', { scope: 'row' }, who(server), what), ...cells)
    }),
  ).flat()
  const same = rows.every(row => row.querySelector('[data-equal=false]') === null)
  const heads = titles.map(title => element('th', { scope: 'col' }, title))
  return [
    element(
      'table',
      { 'aria-labelledby': title },
      element('thead', {}, element('tr', {}, element('td', {}), ...heads)),
      element('tbody', {}, ...rows),
    ),
    element(
      'p',
      { class: 'same' },
      same ? 'All lengths are the same. Nobody on the way can tell the two lookups apart by them.' : 'They differ.',
    ),
  ]
}

export const who = (server: ServerName) =>
  element('strong', { class: `server ${server.toLowerCase()}` }, `Server ${server}`)
