// Whose signatures a log's epochs need (c2sp.org/tlog-policy): one log, witnesses, and the quorum of them that suffices.

import { equalBytes, LogError, refuse } from './errors.js'
import { LOG_KEY, type NoteKey, parseNoteKey, WITNESS_KEY } from './note.js'

export interface Witness {
  /** in this policy */
  readonly name: string
  readonly key: NoteKey
  /** where it takes checkpoints, without a final slash; undefined: the policy does not say */
  readonly url: string | undefined
}

export interface Policy {
  readonly log: NoteKey
  readonly witnesses: readonly Witness[]
  readonly quorum: Quorum
}

/** A witness, or so many of several members. */
export type Quorum = Witness | Group
interface Group {
  readonly atLeast: number
  readonly members: readonly Quorum[]
}

/** Whether these have a quorum among them. */
export function isMet(quorum: Quorum, signers: ReadonlySet<NoteKey>): boolean {
  if ('key' in quorum) return signers.has(quorum.key)
  return quorum.members.filter(member => isMet(member, signers)).length >= quorum.atLeast
}

/**
 * Whether two quorums have no witness in common, so that witnesses who are all honest can sign both sides of a fork. Of a group's members,
 * those that split serve both sides.
 */
export function isSplit(quorum: Quorum): boolean {
  if ('key' in quorum) return false
  const { atLeast, members } = quorum
  const both = members.filter(isSplit).length
  return 2 * Math.max(0, atLeast - both) <= members.length - both
}

/** Reads a policy. Throws LogError for one that shows nobody a fork: without a quorum, with two logs, or whose quorum is split. */
export function parsePolicy(text: string): Policy {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\x00-\x08\x0b-\x1f\x7f]/.test(text))
    refuse('policy', 'no control characters but tabs and line feeds', 'another')
  const reading = new Reading()
  for (const [i, line] of text.split('\n').entries()) {
    const [keyword = '', ...rest] = line.split(/[ \t]+/).filter(item => item !== '')
    if (keyword === '' || keyword.startsWith('#')) continue
    try {
      reading.read(keyword, rest)
    } catch (error) {
      if (error instanceof LogError) throw new LogError(`policy, line ${i + 1}: ${error.message}`)
      throw error
    }
  }
  return reading.policy()
}

class Reading {
  #log: NoteKey | undefined
  readonly #witnesses: Witness[] = []
  /** by their names; what is a member of a group is none of another */
  readonly #defined = new Map<string, Quorum>()
  readonly #members = new Set<string>()
  #quorum: Quorum | undefined

  read(keyword: string, items: readonly string[]): void {
    const [first, second, ...more] = items
    if (keyword === 'log' && first !== undefined && more.length === 0) {
      if (this.#log !== undefined) refuse('log', 'one log: two hold both sides of a fork', 'another')
      this.#log = this.#key(first, LOG_KEY)
    } else if (keyword === 'witness' && first !== undefined && second !== undefined && more.length <= 1) {
      const witness = { name: first, key: this.#key(second, WITNESS_KEY), url: more[0]?.replace(/\/+$/, '') }
      this.#define(first, witness)
      this.#witnesses.push(witness)
    } else if (keyword === 'group' && first !== undefined && second !== undefined && more.length > 0) {
      this.#define(first, { atLeast: countOf(second, more.length), members: more.map(name => this.#member(name)) })
    } else if (keyword === 'quorum' && first !== undefined && second === undefined) {
      if (this.#quorum !== undefined) refuse('quorum', 'one', 'another')
      if (first === 'none') refuse('quorum', 'witnesses', 'none: then nobody sees a fork')
      this.#quorum = this.#find(first)
    } else refuse('line', 'log, witness, group or quorum, with what belongs to it', 'another')
  }

  policy(): Policy {
    const [log, quorum] = [this.#log, this.#quorum]
    if (log === undefined) refuse('policy', 'one log', 'none')
    if (quorum === undefined) refuse('policy', 'a quorum', 'none')
    if (isSplit(quorum!)) {
      const more = 'ask more of each group'
      refuse('quorum', 'a witness in common of any two', `a policy that both sides of a fork can meet: ${more}`)
    }
    return { log: log!, witnesses: this.#witnesses, quorum: quorum! }
  }

  /** Throws LogError for a key that is there already, perhaps with another name. */
  #key(text: string, type: number): NoteKey {
    const key = parseNoteKey(text, type)
    const others = [this.#log, ...this.#witnesses.map(({ key }) => key)]
    if (others.some(other => other !== undefined && equalBytes(other.publicKey, key.publicKey)))
      refuse('key', 'each once', 'one that stands in a line before')
    return key
  }

  #define(name: string, quorum: Quorum): void {
    if (name === 'none' || this.#defined.has(name)) refuse('name', 'a new one', name)
    this.#defined.set(name, quorum)
  }

  #member(name: string): Quorum {
    if (this.#members.has(name)) refuse('group', 'each member once', `${name} again`)
    this.#members.add(name)
    return this.#find(name)
  }

  #find(name: string): Quorum {
    return this.#defined.get(name) ?? refuse('name', 'a witness or group of a line before', name)
  }
}

function countOf(text: string, members: number): number {
  if (text === 'any') return 1
  if (text === 'all') return members
  const count = /^[1-9]\d*$/.test(text) ? Number(text) : 0
  return count >= 1 && count <= members ? count : refuse('group', `any, all, or 1 to ${members}`, text)
}
