// One row for each of the demo's databases: its words, and how typed text becomes a lookup. Its records: node/data.ts.

import type { KeyhushMap, OpenOptions } from '@keyhush/client'
import { DATABASES, type DatabaseName, fetchPublished, type Published } from './backstage.js'
import { hostAndParents, hostOf, KEYS_PER_LOOKUP } from './domains.js'
import { element } from './format.js'

export type Proofs = 'merkle' | 'tags'

/** What a lookup found, in words. */
export interface Verdict {
  readonly kind: 'found' | 'absent' | 'alarm'
  readonly title: string
  readonly body: (Node | string)[]
  /** what an ordinary server would have replied */
  readonly plain: string
}

export interface Database {
  /** its path at the servers; `own`: the visitor's, in this page alone */
  readonly name: DatabaseName | 'own'
  readonly title: string
  readonly about: string
  /** plural noun for its records */
  readonly records: string
  /** `open({ mode })`; undefined: the SDK chooses */
  readonly mode?: NonNullable<OpenOptions['mode']>
  /** the first choice of proofs, if visitors can choose */
  readonly proofs?: Proofs
  readonly question: string
  readonly examples: readonly string[]
  /** The key to look up; undefined: there is none in the text. */
  readonly read: (typed: string) => string | undefined
  /** shown if `read` returns undefined */
  readonly unreadable: string
  /** the request that an ordinary server would get */
  readonly plainRequest: (key: string) => string
  /** The keys that one lookup asks for; undefined: only the key itself. */
  readonly keysOf?: (key: string) => readonly string[]
  readonly ask: (map: KeyhushMap, key: string) => Promise<Verdict>
  /** What was published, oldest first; undefined: the database never changes. */
  readonly changes?: () => Promise<readonly Published[]>
  /** Whether a lookup of `key` asks for `domain` as well. */
  readonly asksFor?: (key: string, domain: string) => boolean
}

/** A database with a tab of its own. */
export interface TabbedDatabase extends Database {
  readonly name: DatabaseName
  readonly tab: string
  /** id of a card in index.html that is shown beside it */
  readonly card?: string
}

const code = (text: string) => element('code', {}, text)

/** Puts a comma between all of them. */
const list = (texts: readonly string[]) => texts.flatMap((text, i) => (i === 0 ? [code(text)] : [', ', code(text)]))

const phishing: TabbedDatabase = {
  name: 'phishing',
  tab: 'Phishing list',
  card: 'publishing',
  title: 'Is this domain on the phishing list?',
  about:
    'Domains known to impersonate others. The domain and those above it are asked for at once, in ' +
    `${KEYS_PER_LOOKUP} questions whatever you type.`,
  records: 'domains',
  mode: 'full', // the SDK would keep so small a list whole: there would be no lookup to show
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
  // Fetches all changes: the request does not show which of them matters here.
  changes: fetchPublished,
  asksFor: (host, domain) => hostAndParents(host).includes(domain),
}

const keys: TabbedDatabase = {
  name: 'keys',
  tab: 'Key directory',
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

const passwords: TabbedDatabase = {
  name: 'passwords',
  tab: 'Leaked passwords',
  card: 'proving',
  title: 'Has this password leaked?',
  about:
    'Made-up passwords that are said to have leaked. What is added to answers, so that neither server can lie, is yours ' +
    'to choose.',
  records: 'passwords',
  mode: 'full', // as for the phishing list
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

const names: TabbedDatabase = {
  name: 'names',
  tab: 'Package names',
  title: 'Is this name still free?',
  about: 'All names of packages on npm. Ask for the one that you have in mind, without giving the idea away.',
  records: 'names',
  mode: 'instant', // no download, for a list of any size
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

export const databases = { phishing, keys, passwords, names } satisfies Record<DatabaseName, TabbedDatabase>

/** All of them, in the order of their tabs. */
export const tabbed: readonly TabbedDatabase[] = DATABASES.map(name => databases[name])
