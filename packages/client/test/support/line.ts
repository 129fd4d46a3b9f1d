// A device's line, which a test changes.

import type { Connection } from '../../src/testing.js'

export class FakeLine implements Connection {
  losses = 0
  isOffline = false
  isMetered = false
  readonly #whenOnline = new Set<() => void>()
  readonly #whenChanged = new Set<() => void>()

  /** listeners that are left */
  get heard(): number {
    return this.#whenOnline.size + this.#whenChanged.size
  }

  goOnline(): void {
    this.isOffline = false
    const listeners = [...this.#whenOnline]
    this.#whenOnline.clear()
    for (const listener of listeners) listener()
  }

  become(line: 'metered' | 'unmetered'): void {
    this.isMetered = line === 'metered'
    for (const listener of [...this.#whenChanged]) listener()
  }

  whenOnline(listener: () => void): () => void {
    this.#whenOnline.add(listener)
    return () => this.#whenOnline.delete(listener)
  }

  whenChanged(listener: () => void): () => void {
    this.#whenChanged.add(listener)
    return () => this.#whenChanged.delete(listener)
  }
}
