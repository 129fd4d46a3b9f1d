// What silence means: until when as many servers as must agree had this very epoch as their newest. A number proves nothing, so a server
// counts once its `/v1/info` has shown the manifest's hash, and as long as its lines name that epoch.

import { equalBytes, type Info, type Manifest, type NewestEvent, toHex } from '@keyhush/protocol'
import type { Clock } from '../platform/clock.js'
import { isExpired } from '../servers/manifests.js'
import type { Link, Links } from '../servers/transport.js'
import type { Hashed } from './marks.js'

interface Said {
  readonly epoch: number
  /** of the newest manifest, in hex */
  readonly hash: string
  /** when it was last so */
  date: number
}

export class Silence {
  readonly #links: Links
  readonly #atLeast: number
  readonly #clock: Clock
  readonly #said = new Map<string, Said>()

  constructor(links: Links, atLeast: number, clock: Clock) {
    this.#links = links
    this.#atLeast = atLeast
    this.#clock = clock
  }

  /** A server has said what it shows. */
  said({ server }: Link, info: Info | undefined): void {
    const newest = info?.epochs.at(-1)
    if (newest === undefined) return
    this.#said.set(server.name, { epoch: newest.epoch, hash: newest.manifest, date: this.#clock.date() })
  }

  /** A line has come. Whether its server has to be asked what it shows. */
  heard({ server }: Link, line: NewestEvent, { manifest }: Pick<Hashed, 'manifest'>): boolean {
    if (line.epoch !== manifest.epoch || !equalBytes(line.databaseId, manifest.databaseId)) return false
    const said = this.#said.get(server.name)
    if (said?.epoch !== line.epoch) return true
    said.date = this.#clock.date()
    return false
  }

  /** Undefined: it means nothing. An epoch that has expired says nothing, nor does one server alone whose epoch never expires. */
  until({ hash }: Hashed, manifest: Pick<Manifest, 'expires'>): number | undefined {
    const isUnlimited = manifest.expires === 0 && this.#links.length === 1
    if (isUnlimited || isExpired(manifest, this.#clock)) return undefined
    const digits = toHex(hash)
    const dates = [...this.#said.values()].filter(said => said.hash === digits).map(({ date }) => date)
    return dates.sort((a, b) => b - a)[this.#atLeast - 1]
  }
}
