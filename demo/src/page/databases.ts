// The databases a person can ask: what to say about each, and how to turn what was typed into a lookup.

import type { KeyhushMap, OpenOptions } from '@keyhush/client'
import { type DatabaseName, fetchPublished, type Published } from './backstage.js'
import { hostAndParents, hostOf, KEYS_PER_LOOKUP } from './domains.js'
import { element } from './format.js'

export type Proofs = 'merkle' | 'tags'

/** What a lookup found, in words. */
export interface Verdict {
  readonly kind: 'found' | 'absent' | 'alarm'
  readonly title: string
  readonly body: (Node | string)[]
  /** what a server that is asked in plain words would have replied */
  readonly plain: string
}

export interface Database {
  readonly name: DatabaseName
  readonly title: string
  readonly about: string
  /** what its records are called, of which it has so many */
  readonly records: string
  /** how it is opened; without it: as the SDK chooses */
  readonly mode?: NonNullable<OpenOptions['mode']>
  /** what proves answers to begin with, where the page lets one choose */
  readonly proofs?: Proofs
  readonly question: string
  readonly examples: readonly string[]
  /** what to ask for; undefined: nothing that can be asked */
  readonly read: (typed: string) => string | undefined
  /** said if `read` cannot make anything of it */
  readonly unreadable: string
  /** how a server is asked for it that is asked in plain words */
  readonly plainRequest: (key: string) => string
  /** all that is looked up for it; without this: itself */
  readonly keysOf?: (key: string) => readonly string[]
  readonly ask: (map: KeyhushMap, key: string) => Promise<Verdict>
  /** what was published, oldest first; without it: nobody changes it */
  readonly changes?: () => Promise<readonly Published[]>
  /** would a lookup of `key` ask for `domain` as well? */
  readonly asksFor?: (key: string, domain: string) => boolean
}

const code = (text: string) => element('code', {}, text)

/** Puts a comma between all of them. */
const list = (texts: readonly string[]) => texts.flatMap((text, i) => (i === 0 ? [code(text)] : [', ', code(text)]))

export const phishing: Database = {
  name: 'phishing',
  title: 'Is this domain on the phishing list?',
  about:
    'Domains known to impersonate others. The domain and those above it are asked for at once, in ' +
    `${KEYS_PER_LOOKUP} questions whatever you type.`,
  records: 'domains',
  mode: 'full', // small enough to be kept whole, which would leave nothing to see
  question: 'Domain or URL',
  examples: ['metemask.today', 'nft.moonbirds.tv', 'wikipedia.org'],
  read: hostOf,
  unreadable: 'There is no domain in this. Type one such as example.org, or paste a URL.',
  plainRequest: host => `GET /phishing?domain=${encodeURIComponent(host)}`,
  keysOf: hostAndParents,
  async ask(map, host) {
    const hosts = hostAndParents(host)
    const values = await map.getMany(hosts, { padTo: KEYS_PER_LOOKUP })
    const listed = hosts.filter((_, i) => values[i] !== undefined)
    if (listed.length === 0) {
      const rest = hosts.length === 1 ? [' is not on it.'] : [': none of them is on it.']
      return {
        kind: 'absent',
        title: 'Not listed, and that is proved',
        body: [...list(hosts), ...rest],
        plain: 'not listed',
      }
    }
    const itself = listed[0] === host
    const above = itself ? [' itself is on the list.'] : [' is below a domain on the list: ', code(listed[0]!), '.']
    return { kind: 'alarm', title: 'Listed as phishing', body: [code(host), ...above], plain: 'listed' }
  },
  // All of them are fetched, so that this tells nobody which of them matters here.
  changes: fetchPublished,
  asksFor: (host, domain) => hostAndParents(host).includes(domain),
}

export const keys: Database = {
  name: 'keys',
  title: 'What is this person’s key?',
  about:
    'Made-up names, each with 64 made-up bytes: what a messenger asks its server before it writes to somebody, and ' +
    'thereby tells it.',
  records: 'names',
  question: 'Name',
  examples: ['quiet-otter-17@example.org', 'merry-heron-3@example.org', 'alice@example.org'],
  read: typed => typed.trim().toLowerCase() || undefined,
  unreadable: 'Type a name such as quiet-otter-17@example.org.',
  plainRequest: name => `GET /keys?name=${encodeURIComponent(name)}`,
  async ask(map, name) {
    const key = await map.get(name)
    if (key === undefined) {
      return {
        kind: 'absent',
        title: 'No such name, and that is proved',
        body: [code(name), ' has no key.'],
        plain: 'no such name',
      }
    }
    const hex = Array.from(key, byte => byte.toString(16).padStart(2, '0')).join('')
    const groups = hex.match(/.{1,8}/g) ?? []
    return {
      kind: 'found',
      title: 'Found',
      body: [code(name), ' has the key ', element('code', { class: 'key' }, groups.join(' '))],
      plain: `${hex.slice(0, 16)}…`,
    }
  },
}

export const passwords: Database = {
  name: 'passwords',
  title: 'Has this password leaked?',
  about:
    'Made-up passwords that are said to have leaked. What is added to answers, so that neither server can lie, is yours ' +
    'to choose.',
  records: 'passwords',
  mode: 'full', // small enough to be kept whole, as the phishing list is
  proofs: 'merkle',
  question: 'Password',
  examples: ['ableadder1', 'boldbeaver33', 'correct horse'],
  read: typed => typed || undefined,
  unreadable: 'Type one. Not one of your own, if others can see this screen.',
  plainRequest: password => `GET /passwords?password=${encodeURIComponent(password)}`,
  async ask(map, password) {
    return (await map.has(password))
      ? { kind: 'alarm', title: 'It has leaked', body: [code(password), ' is on the list.'], plain: 'leaked' }
      : { kind: 'absent', title: 'Not on the list, and that is proved', body: [code(password)], plain: 'not there' }
  },
}

export const names: Database = {
  name: 'names',
  title: 'Is this name still free?',
  about: 'All names of packages on npm. Ask for the one that you have in mind, without giving the idea away.',
  records: 'names',
  mode: 'instant', // nothing is downloaded, however many there are
  question: 'Name of a package',
  examples: ['left-pad', 'react', 'my-unheard-of-idea'],
  read: typed => typed.trim() || undefined,
  unreadable: 'Type a name such as left-pad.',
  plainRequest: name => `GET /names?name=${encodeURIComponent(name)}`,
  async ask(map, name) {
    if (await map.has(name)) {
      return { kind: 'found', title: 'Taken', body: [code(name), ' is a package on npm.'], plain: 'taken' }
    }
    const body = [code(name), ' is no package on npm, and nobody has learnt which name you have in mind.']
    return { kind: 'absent', title: 'Still free, and that is proved', body, plain: 'free' }
  },
}
