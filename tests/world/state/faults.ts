// The fault profile of a schedule, drawn once at its beginning: from hardly a fault to hardly anything else.

import type { RollbackPreference, StoragePreference } from '@keyhush/client'
import type { Chance } from '../chance.js'
import type { NetworkFaults } from './servers.js'

export type Ordeal = 'kill' | 'freeze' | 'power loss' | 'rollback'

export interface FaultProfile {
  /** at a time */
  readonly tabs: number
  readonly locks: boolean
  readonly storage: StoragePreference
  readonly rollback: RollbackPreference
  readonly network: NetworkFaults
  /** how often a call of the disk fails */
  readonly storeFaults: number
  /** a tab's disk works in the order of calls, as IndexedDB does; else in any */
  readonly storeInOrder: boolean
  /** probability of a misfortune in a step */
  readonly misfortunes: number
  /** a certain misfortune of the first tab, and its step */
  readonly ordained?: { readonly step: number; readonly what: Ordeal }
  /** probability that time passes although an event is pending */
  readonly delays: number
  /** factor on the length of journals */
  readonly journal: number
  /** after which nothing fails any more */
  readonly steps: number
  /** how often each may happen */
  readonly left: {
    calls: number
    resets: number
    closes: number
    withdrawals: number
    kills: number
    powerLosses: number
    /** the disk is put back to an older copy */
    rollbacks: number
    freezes: number
    outages: number
    publications: number
    tears: number
  }
}

const NOTHING_LEFT: FaultProfile['left'] = {
  ...{ calls: 0, resets: 0, closes: 0, withdrawals: 0, kills: 0, powerLosses: 0, rollbacks: 0 },
  ...{ freezes: 0, outages: 0, publications: 0, tears: 0 },
}

/** No faults: three lookups, and the ordained misfortune. */
export function noFaults(change: Partial<FaultProfile>): FaultProfile {
  return {
    tabs: 1,
    locks: true,
    storage: 'required',
    rollback: 'confirm',
    network: { faults: 0, lies: 0 },
    storeFaults: 0,
    storeInOrder: true,
    misfortunes: 0,
    delays: 0,
    journal: 500,
    steps: 1500,
    left: { ...NOTHING_LEFT, calls: 3 },
    ...change,
  }
}

export function anyFaults(chance: Chance): FaultProfile {
  const sometimes = (probability: number, most: number) => (chance.happens(probability) ? chance.between(1, most) : 0)
  return {
    tabs: chance.pick([1, 1, 2, 2, 3]),
    locks: chance.happens(0.6),
    storage: chance.happens(0.05) ? 'memory' : chance.pick(['required', 'preferred']),
    rollback: chance.pick(['confirm', 'strict']),
    network: { faults: chance.pick([0, 0.03, 0.2]), lies: chance.pick([0, 0, 0.03, 0.1]) },
    storeFaults: chance.pick([0, 0, 0, 0.02, 0.1]),
    storeInOrder: chance.happens(0.8),
    misfortunes: chance.pick([0.005, 0.02, 0.06]),
    delays: chance.pick([0.002, 0.02]),
    journal: chance.pick([1, 500]),
    steps: 1500,
    left: {
      calls: chance.between(3, 9),
      resets: sometimes(0.2, 2),
      closes: sometimes(0.2, 1),
      withdrawals: sometimes(0.3, 2),
      kills: sometimes(0.7, 4),
      powerLosses: sometimes(0.3, 2),
      rollbacks: sometimes(0.15, 2),
      freezes: sometimes(0.4, 3),
      outages: sometimes(0.3, 2),
      publications: sometimes(0.1, 3),
      tears: sometimes(0.06, 1),
    },
  }
}
