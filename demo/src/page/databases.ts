// The words for each of the demo's databases, and how typed text becomes a lookup. Its records: node/data.ts.

import type { KeyhushMap } from '@keyhush/client'
import type { DatabaseName } from './backstage.js'
import { hostAndParents, hostOf, KEYS_PER_LOOKUP } from './domains.js'
import { element } from './format.js'

/** What a lookup found, in words. */
export interface Verdict {
  readonly kind: 'found' | 'absent' | 'alarm'
  readonly title: string
  readonly body: readonly (Node | string)[]
}

export interface Database {
  /** its path at the servers */
  readonly name: DatabaseName | 'alone' | 'breached'
  /** what it holds, and how the page asks */
  readonly about: string
  /** the label of the field */
  readonly question: string
  /** The first is in the database, the last is not. */
  readonly examples: readonly [found: string, ...string[]]
  /** The key to look up; undefined: there is none in the text. */
  readonly read: (typed: string) => string | undefined
  /** shown if `read` returns undefined */
  readonly unreadable: string
  /** said of the size of a lookup */
  readonly note?: string
  /** the keys that one lookup asks for */
  readonly keysOf: (key: string) => readonly string[]
  readonly ask: (map: KeyhushMap, key: string) => Promise<Verdict>
}

const code = (text: string) => element('code', {}, text)

const phishing: Database = {
  name: 'phishing',
  about: 'Is this domain a known phishing site? Two servers answer. Neither learns which domain you asked for.',
  question: 'Domain or web address',
  examples: ['metemask.today', 'nft.moonbirds.tv', 'wikipedia.org'],
  read: hostOf,
  unreadable: 'Type a domain such as example.org, or paste a web address.',
  note: `Each lookup asks for ${KEYS_PER_LOOKUP} names: the domain, those above it, and padding. One name takes about an eighth.`,
  keysOf: hostAndParents,
  async ask(map, host) {
    const hosts = hostAndParents(host)
    const values = await map.getMany(hosts, { padTo: KEYS_PER_LOOKUP })
    const listed = hosts.find((_, i) => values[i] !== undefined)
    if (listed === undefined) {
      return {
        kind: 'absent',
        title: 'Not on the phishing list',
        body: [code(host), ' is not listed. That is proved.'],
      }
    }
    const above = listed === host ? ['.'] : [': it belongs to ', code(listed), '.']
    return { kind: 'alarm', title: 'On the phishing list', body: [code(host), ' is listed', ...above] }
  },
}

/** The phishing list at one server, where each key that is asked for costs as much again: so without the domains above. */
const { note: _, ...listed } = phishing
export const alone: Database = {
  ...listed,
  name: 'alone',
  examples: ['metemask.today', 'moonbirds.tv', 'wikipedia.org'],
  about:
    'One server answers at once. It computes with your encrypted request, and does not learn which domain you asked for.',
  keysOf: host => [host],
  async ask(map, host) {
    return (await map.has(host))
      ? { kind: 'alarm', title: 'On the phishing list', body: [code(host), ' is listed.'] }
      : {
          kind: 'absent',
          title: 'Not on the phishing list',
          body: [code(host), ' itself is not listed. That is proved.'],
        }
  },
}

const keys: Database = {
  name: 'keys',
  about: 'Made-up names, each with 64 made-up bytes: a directory of public keys, as a messenger has one.',
  question: 'Name',
  examples: ['quiet-otter-17@example.org', 'alice@example.org'],
  read: typed => typed.trim().toLowerCase() || undefined,
  unreadable: 'Type a name such as quiet-otter-17@example.org.',
  keysOf: name => [name],
  async ask(map, name) {
    const key = await map.get(name)
    return key === undefined
      ? { kind: 'absent', title: 'No such name', body: [code(name), ' has no key. That is proved.'] }
      : { kind: 'found', title: 'Found', body: [code(name), ` has a key of ${key.length} bytes.`] }
  },
}

const names: Database = {
  name: 'names',
  about: 'Is this package name taken on npm? Two servers answer. Neither learns which name you have in mind.',
  question: 'Package name',
  examples: ['left-pad', 'react', 'my-unheard-of-idea'],
  read: typed => typed.trim() || undefined,
  unreadable: 'Type a name such as left-pad.',
  keysOf: name => [name],
  async ask(map, name) {
    return (await map.has(name))
      ? { kind: 'found', title: 'Taken', body: [code(name), ' is a package on npm.'] }
      : { kind: 'absent', title: 'Still free', body: [code(name), ' is not a package on npm. That is proved.'] }
  },
}

export const databases: Readonly<Record<DatabaseName, Database>> = { phishing, keys, names }
