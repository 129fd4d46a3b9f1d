// A disk in memory whose power can be cut between any two calls. What was not synced may be there afterwards or not:
// bytes and names are lost, or kept, independently of each other, as POSIX allows.

import type { Disk, OpenFile } from '../../src/store/disk.js'

interface File {
  bytes: Uint8Array
  /** how many of them are synced */
  synced: number
}

type Names = Map<string, File>

/** What a cut leaves of what was not synced. */
export interface Loss {
  /** whether a name that was not synced is as it was changed to */
  keepsName(): boolean
  /** how many of a file's bytes that were not synced are there */
  keepsBytes(unsynced: number): number
  /** the others are zeros, rather than cut off */
  readonly zeros?: boolean
}

export const LOSES_ALL: Loss = { keepsName: () => false, keepsBytes: () => 0 }
export const KEEPS_ALL: Loss = { keepsName: () => true, keepsBytes: unsynced => unsynced }
export const ZEROS: Loss = { keepsName: () => true, keepsBytes: () => 0, zeros: true }

export function losesSome(random: (below: number) => number): Loss {
  return { keepsName: () => random(2) === 1, keepsBytes: unsynced => random(unsynced + 1) }
}

/** Thrown by every call once the power is off. */
export class PowerCut extends Error {}

export class SimulatedDisk implements Disk {
  /** calls made so far */
  calls = 0
  readonly #names: Names
  #syncedNames: Names
  /** changes of names since the last sync */
  #renaming: ((names: Names) => void)[] = []
  #callsLeft: number
  #full = false
  #locked = false

  constructor(names: Names = new Map(), callsUntilCut = Number.POSITIVE_INFINITY) {
    this.#names = new Map(names)
    this.#syncedNames = new Map(names)
    this.#callsLeft = callsUntilCut
  }

  /** Nothing works any more. */
  cut(): void {
    this.#callsLeft = 0
  }

  /** No byte more fits. */
  fill(full = true): void {
    this.#full = full
  }

  /** The same disk, as the next process finds it when this one is killed: nothing is lost, or any more synced than before. */
  killed(): SimulatedDisk {
    this.cut()
    const disk = new SimulatedDisk(this.#names)
    disk.#syncedNames = this.#syncedNames
    disk.#renaming = this.#renaming
    return disk
  }

  /** The disk that is found when the power is back, which it stays for that many calls. */
  after(loss: Loss, callsUntilCut?: number): SimulatedDisk {
    this.cut()
    const names = new Map(this.#syncedNames)
    for (const rename of this.#renaming) if (loss.keepsName()) rename(names)
    const survivors: Names = new Map()
    for (const [name, { bytes, synced }] of names) {
      const end = synced + loss.keepsBytes(bytes.length - synced)
      const kept = loss.zeros ? new Uint8Array(bytes.length) : new Uint8Array(end)
      kept.set(bytes.subarray(0, end))
      survivors.set(name, { bytes: kept, synced: kept.length })
    }
    return new SimulatedDisk(survivors, callsUntilCut)
  }

  /** A file as it is, to be looked at. */
  peek(name: string): Uint8Array | undefined {
    return this.#names.get(name)?.bytes
  }

  /** A disk like this one but for one file. */
  with(name: string, bytes: Uint8Array | undefined): SimulatedDisk {
    const names = new Map(this.#names)
    if (bytes === undefined) names.delete(name)
    else names.set(name, { bytes, synced: bytes.length })
    return new SimulatedDisk(names)
  }

  async read(name: string): Promise<Uint8Array | undefined> {
    this.#call()
    return this.#names.get(name)?.bytes.slice()
  }

  async list(): Promise<readonly string[]> {
    this.#call()
    return [...this.#names.keys()]
  }

  async create(name: string): Promise<OpenFile> {
    this.#call()
    if (this.#names.has(name)) throw Object.assign(new Error(`${name} exists`), { code: 'EEXIST' })
    const file = { bytes: new Uint8Array(), synced: 0 }
    this.#change(names => names.set(name, file))
    return this.#open(file)
  }

  async append(name: string): Promise<OpenFile> {
    this.#call()
    return this.#open(this.#names.get(name)!)
  }

  async rename(from: string, to: string): Promise<void> {
    this.#call()
    const file = this.#names.get(from)
    if (file === undefined) throw Object.assign(new Error(`no ${from}`), { code: 'ENOENT' })
    this.#change(names => {
      names.delete(from)
      names.set(to, file)
    })
  }

  async remove(name: string): Promise<void> {
    this.#call()
    this.#change(names => names.delete(name))
  }

  async sync(): Promise<void> {
    this.#call()
    for (const rename of this.#renaming) rename(this.#syncedNames)
    this.#renaming = []
  }

  async lock(): Promise<(() => Promise<void>) | undefined> {
    this.#call()
    if (this.#locked) return undefined
    this.#locked = true
    return async () => {
      this.#call()
      this.#locked = false
    }
  }

  #open(file: File): OpenFile {
    return {
      write: async bytes => {
        this.#call()
        if (this.#full) throw Object.assign(new Error('no space left'), { code: 'ENOSPC' })
        const longer = new Uint8Array(file.bytes.length + bytes.length)
        longer.set(file.bytes)
        longer.set(bytes, file.bytes.length)
        file.bytes = longer
      },
      sync: async () => {
        this.#call()
        file.synced = file.bytes.length
      },
      close: async () => {
        this.#call()
      },
    }
  }

  #change(rename: (names: Names) => void): void {
    rename(this.#names)
    this.#renaming.push(rename)
  }

  #call(): void {
    if (this.#callsLeft-- <= 0) throw new PowerCut('the power is off')
    this.calls++
  }
}
