// The fault profile of a schedule, drawn once at its beginning.

import type { StoragePreference } from '@keyhush/client/environment'
import type { Proofs } from '@keyhush/protocol'
import { Chance } from '../chance.js'

/** What happens in a step, and how often in a round. */
export interface Deck {
  'look up': number
  sync: number
  /** to both servers at once */
  publish: number
  /** twice in a row */
  'publish twice': number
  /** twice, while a query is on its way, and about what it asks */
  'publish under way': number
  /** to one server; the other has it some steps later */
  'publish to one': number
  /** to both servers, or to one, and to the other some steps later */
  'new generation': number
  /** each write of the server's takes its time */
  'publish slowly': number
  'publish what cannot be': number
  'publish again': number
  /** more epochs than servers keep */
  'publish a lot': number
  'kill a tab': number
  'lose power': number
  'freeze a tab': number
  /** an event that a tab waits for is late */
  'hold back': number
  'close a tab': number
  reset: number
  'give up': number
  'restore a backup': number
  'kill a server': number
  'kill a server while it publishes': number
  /** a server is not ready for a while */
  refuse: number
}

export type Card = keyof Deck

/** A fault of the first tab, or of its machine. */
export type Ordeal = 'kill' | 'freeze' | 'power loss' | 'rollback'

export interface FaultProfile {
  /** which database */
  readonly foundation: number
  /** times with faults, each followed by a full check */
  readonly rounds: number
  /** at a time */
  readonly tabs: number
  readonly locks: boolean
  readonly storage: StoragePreference
  /** how lookups are answered */
  readonly mode: 'full' | 'local' | 'single'
  readonly proofs: Proofs
  /** hints for one server keep tags in rows, however few there are */
  readonly rows: boolean
  readonly rollback: 'confirm' | 'strict'
  /** tabs listen for epochs */
  readonly push: boolean
  /** epochs before the newest that servers keep */
  readonly history: number
  /** how long servers answer a generation that has ended */
  readonly lingerHours: number
  /** servers keep their databases in LMDB files */
  readonly lmdb: boolean
  /** how often a request, or its reply, is lost */
  readonly losses: number
  /** how often time passes although an event is pending */
  readonly delays: number
  /** how often there is a new step although an event is pending */
  readonly haste: number
  /** factor on the length of journals */
  readonly journal: number
  readonly deck: Deck
  /** a certain fault, and its tick; 0: never */
  readonly ordained?: { readonly tick: number; readonly what: Ordeal }
}

/** Only the ordained fault: lookups before and after an epoch, which is published while no call is under way. */
export function noFaults(change: Partial<FaultProfile>): FaultProfile {
  const faults = anyFaults(new Chance(1))
  const none = Object.fromEntries(Object.keys(faults.deck).map(card => [card, 0])) as Record<Card, number>
  return {
    ...faults,
    ...{ foundation: 1, rounds: 1, tabs: 1, locks: true, storage: 'required', rollback: 'confirm', push: false },
    ...{ history: 64, lingerHours: 24, lmdb: false, losses: 0, delays: 0, haste: 0, journal: 500 },
    deck: { ...none, 'look up': 5, publish: 2 },
    ordained: { tick: 0, what: 'kill' },
    ...change,
  }
}

/** `processes`: servers are processes of their own. */
export function anyFaults(chance: Chance, processes = false): FaultProfile {
  const sometimes = (probability: number, most: number) => (chance.happens(probability) ? chance.between(1, most) : 0)
  const history = chance.pick([64, 64, 64, 2])
  return {
    foundation: chance.below(3),
    rounds: chance.between(2, 3),
    tabs: chance.pick([1, 1, 2, 3]),
    locks: chance.happens(0.6),
    storage: chance.happens(0.1) ? 'memory' : 'required',
    mode: 'full',
    proofs: chance.pick(['merkle', 'tags']),
    rows: false,
    rollback: chance.pick(['confirm', 'strict']),
    push: chance.happens(0.4),
    history,
    lingerHours: processes ? 24 : chance.pick([0, 24]),
    lmdb: !processes && chance.happens(0.05),
    losses: chance.pick([0, 0, 0.02]),
    delays: chance.pick([0, 0.002]),
    haste: chance.pick([0.05, 0.2, 0.5]),
    journal: chance.pick([1, 500]),
    deck: {
      'look up': chance.between(20, 40),
      sync: chance.between(1, 5),
      publish: chance.between(1, 4),
      'publish twice': chance.between(0, 2),
      'publish under way': chance.between(0, 3),
      'publish to one': chance.between(0, 4),
      'new generation': sometimes(0.4, 1),
      'publish slowly': processes ? 0 : sometimes(0.5, 2),
      'publish what cannot be': sometimes(0.4, 2),
      'publish again': sometimes(0.3, 1),
      'publish a lot': history < 10 ? sometimes(0.7, 2) : 0,
      'kill a tab': sometimes(0.7, 4),
      'lose power': sometimes(0.3, 1),
      'freeze a tab': sometimes(0.4, 2),
      'hold back': chance.between(0, 4),
      'close a tab': sometimes(0.2, 1),
      reset: sometimes(0.2, 1),
      'give up': sometimes(0.3, 2),
      'restore a backup': sometimes(0.2, 1),
      'kill a server': sometimes(0.3, 1),
      'kill a server while it publishes': sometimes(0.3, 1),
      refuse: sometimes(0.2, 1),
    },
  }
}
