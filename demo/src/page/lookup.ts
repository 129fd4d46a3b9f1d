// One database on the page: opens its map, looks up in it, follows its changes, and recovers when a server lies. panel.ts shows
// all of it.

import { CondemnedError, type KeyhushMap, type OnProgress, open, TamperedError } from '@keyhush/client'
import type { Config, ServerName } from './backstage.js'
import type { Database, Proofs, Verdict } from './databases.js'
import { bytes, element, messageOf, milliseconds } from './format.js'
import { button, Panel } from './panel.js'
import { changeInWords } from './publishing.js'
import type { Sightings } from './sightings.js'
import type { Explorer } from './wire/explorer.js'
import { type Fetch, Recorder } from './wire/recorder.js'
import { sightingsOf } from './wire/sighting.js'

export class Lookup {
  readonly #database: Database
  readonly #config: Config
  readonly #sightings: Sightings
  readonly #recorder: Recorder
  readonly #wire: () => Promise<Explorer>
  readonly #panel: Panel
  #map: KeyhushMap | undefined
  #begun = false
  /** only server A is asked */
  #one = false
  /** the visitor's choice of proofs, if there is one */
  #proofs: Proofs | undefined
  /** Called after a lookup whose proofs can be chosen, with the bytes received and those held in memory. */
  onCosts: (proofs: Proofs, received: number, held: number) => void = () => {}
  /** Called when an answer is shown. */
  onAnswer: () => void = () => {}
  /** settles when the last choice is open, or has failed to open */
  #opening: Promise<void> = Promise.resolve()
  #busy = false
  /** the last key that was looked up, and the epoch at that time */
  #last: { readonly key: string; readonly epoch: number } | undefined

  constructor(
    card: HTMLElement,
    database: Database,
    config: Config,
    sightings: Sightings,
    wire: () => Promise<Explorer>,
    fetch?: Fetch,
  ) {
    this.#database = database
    this.#config = config
    this.#sightings = sightings
    this.#recorder = new Recorder({ A: this.#urlAt('A'), B: this.#urlAt('B') }, fetch)
    this.#wire = wire
    this.#proofs = database.proofs
    this.#panel = new Panel(card, database, typed => void this.#ask(typed))
    this.#hideResult()
  }

  /** Opens the map, the first time it is called. */
  async open(): Promise<void> {
    if (this.#begun) return
    this.#begun = true
    await this.#reopen()
  }

  /** Closes the map for good. */
  async close(): Promise<void> {
    await this.#opening
    await this.#sightings.alone(async () => await this.#map?.close())
  }

  /** From now on, asks only server A, or both again. */
  async askOne(one: boolean): Promise<void> {
    this.#one = one
    if (this.#begun) await this.#reopen()
  }

  /** From now on, answers have these proofs. */
  async proveBy(proofs: Proofs): Promise<void> {
    this.#proofs = proofs
    if (this.#begun) await this.#reopen()
  }

  /** Opens the last choice, after earlier ones. */
  #reopen(): Promise<void> {
    this.#opening = this.#opening.then(async () => {
      await this.#sightings.alone(async () => await this.#map?.close())
      this.#map = undefined
      this.#last = undefined
      this.#panel.epoch = 0
      this.#panel.show('none', '')
      this.#panel.showAgain()
      this.#panel.showNews()
      this.#panel.showChange('')
      this.#hideResult()
      await this.#open(this.#one)
    })
    return this.#opening
  }

  async #open(one: boolean): Promise<void> {
    const { publisherKey } = this.#config
    const mode = one ? 'single' : this.#database.mode
    this.#panel.showMode(mode)
    await this.#download('Downloading', async onProgress => {
      this.#map = await open({
        servers: one ? [this.#urlAt('A')] : [this.#urlAt('A'), this.#urlAt('B')],
        fetch: this.#recorder.fetch,
        ...(mode && { mode }),
        ...(!one && this.#proofs && { proofs: this.#proofs }),
        ...(publisherKey !== undefined && { publisherKey }),
        onProgress,
        onEvent: event => {
          if (event.type === 'updated') void this.#updated(event.epoch)
          if (event.type === 'preparing')
            this.#panel.showChange('Something cheaper is being prepared behind your lookups.')
          if (event.type === 'mode') this.#panel.showTurn(event.mode, this.#map?.stats.lookups ?? 0)
        },
      })
    })
  }

  /** Runs a download and shows its progress, or why it failed. */
  async #download(what: string, run: (onProgress: OnProgress) => Promise<void>): Promise<void> {
    const panel = this.#panel
    const began = performance.now()
    const showProgress = panel.showDownload(what)
    let total = 0
    try {
      await run(({ loadedBytes, totalBytes }) => {
        total = totalBytes
        showProgress(loadedBytes, totalBytes)
      })
      const map = this.#map
      if (map === undefined) return // another choice is being opened meanwhile
      panel.showEpoch(map.epoch, map.size)
      panel.showMode(map.mode)
      const kept = map.mode === 'instant' ? 'nothing to download' : 'kept from before'
      const how = total === 0 ? kept : `${bytes(total)}, checked`
      const ready = `Ready in ${milliseconds(performance.now() - began)}: ${how}.`
      panel.showDownloaded(map.condemned ? '' : ready, true)
      if (map.condemned) this.#showCondemned(map, map.condemned.server) // by an earlier visit
    } catch (error) {
      panel.showDownloaded('', false)
      panel.show('error', 'The database could not be opened', [
        `${messageOf(error)} `,
        button('Try again', () => {
          panel.show('none', '')
          void this.#download(what, run)
        }),
      ])
    }
  }

  /** Shows that the map has followed the database. A new lookup is left to the person. */
  async #updated(epoch: number): Promise<void> {
    const { changes, asksFor } = this.#database
    // Only the demo's own server knows what has changed.
    const all = (this.#config.watched && (await changes?.().catch(() => []))) || []
    const before = this.#panel.epoch
    if (before === 0 || epoch <= before || this.#map === undefined) return
    this.#panel.showEpoch(epoch, this.#map.size)
    const news = all.filter(change => change.epoch > before && change.epoch <= epoch)
    this.#panel.showNews(
      'The list changed',
      ...news.flatMap(({ op, domain }, i) => [i === 0 ? ': ' : ', ', ...changeInWords(op, domain)]),
      '.',
    )
    const last = this.#last
    const affecting = last && news.findLast(change => change.epoch > last.epoch && asksFor?.(last.key, change.domain))
    if (!last || !affecting) return
    this.#panel.showAgain(
      element('p', {}, 'Since you looked, ', ...changeInWords(affecting.op, affecting.domain), '.'),
      button('Look again', () => void this.#ask(last.key)),
    )
  }

  /** One lookup at a time. */
  async #ask(typed: string): Promise<void> {
    const map = this.#map
    if (!map || this.#busy) return
    const key = this.#database.read(typed)
    if (key === undefined) {
      this.#panel.show('error', 'Nothing to ask', [this.#database.unreadable])
      return
    }
    this.#setBusy(true)
    this.#panel.show('none', this.#one ? 'Asking server A…' : 'Asking both servers…')
    this.#hideResult(key)
    this.#panel.showAgain()
    this.#last = { key, epoch: map.epoch }
    const asked = map.mode === 'single' ? (['A'] as const) : (['A', 'B'] as const)
    await this.#sightings.alone(async () => {
      let answer: string | undefined
      const before = this.#recorder.count
      try {
        const verdict = await this.#database.ask(map, key)
        answer = verdict.plain
        this.#panel.show(verdict.kind, verdict.title, verdict.body)
        this.#showCosts(map)
        this.onAnswer()
        this.#explain(key, verdict, map.mode, before).catch(() => {}) // servers gone: the lookup itself succeeded
      } catch (error) {
        this.#showFailure(map, error)
      }
      this.#panel.showMode(map.mode) // none, if the map is condemned now
      try {
        const { name } = this.#database
        const sent = this.#config.watched ? undefined : sightingsOf(await this.#recorder.since(before), name)
        const seen = await this.#sightings.draw(name, key, asked, sent)
        if (seen.length > 0) this.#panel.showLearnt(key, answer, seen)
      } catch {
        // The demo's own server is gone; the lookup did not need it.
      }
    })
    this.#setBusy(false)
  }

  #setBusy(busy: boolean): void {
    this.#busy = busy
    this.#panel.setBusy(busy)
  }

  #showCosts(map: KeyhushMap): void {
    const { stats, mode } = map
    const held = Object.values(stats.held).reduce((sum, bytes) => sum + bytes, 0)
    this.#panel.showCosts(stats, held)
    if (this.#proofs === undefined) this.#panel.showClock(this.#config, mode)
    else if (mode === 'full' && stats.lastLookup) this.onCosts(this.#proofs, stats.lastLookup.bytesDown, held)
  }

  /** Shows in the card *On the wire* the requests after the first `before`. */
  async #explain(key: string, { kind }: Verdict, mode: string | undefined, before: number): Promise<void> {
    const { name, keysOf = (key: string) => [key] } = this.#database
    const exchanges = await this.#recorder.since(before)
    const explorer = await this.#wire()
    const found = kind !== 'absent'
    const proofs = this.#proofs ?? ''
    await explorer.show({
      ...{ kind: `${name} ${mode} ${proofs}`, typed: key, keys: keysOf(key), found, exchanges },
      server: this.#urlAt('A'),
      fetch: this.#recorder.fetch,
    })
  }

  #showFailure(map: KeyhushMap, error: unknown): void {
    if (error instanceof TamperedError && error.server === undefined) {
      this.#panel.show('caught', 'A server lied, and was caught', [
        'Their two answers together are not in the database both servers agreed on, so nothing of them was used. Which ' +
          'of them lied cannot be told from an instant answer. No secret is kept, so that you may simply ask again.',
      ])
    } else if (error instanceof TamperedError && error.server !== undefined) {
      const liar = this.#nameOf(error.server)
      this.#panel.show('caught', `Server ${liar} lied, and was caught`, [
        'Something in its answer does not fit the database that was agreed on, so nothing of the answer was used. ' +
          'The secrets that this page asks with are condemned, never to be used again: to ask anew with the same ones ' +
          'could tell what you asked. ',
        this.#startAfresh(map),
      ])
    } else if (error instanceof CondemnedError) {
      this.#showCondemned(map, error.server)
    } else {
      this.#panel.show('error', 'No answer', [messageOf(error)])
    }
  }

  #showCondemned(map: KeyhushMap, server: string | undefined): void {
    const liar = server === undefined ? undefined : this.#nameOf(server)
    this.#panel.show('caught', 'Nothing was asked: the secrets kept here are condemned', [
      `${liar ? `Server ${liar} had lied. ` : ''}Only new ones, made of another download, can be used. `,
      this.#startAfresh(map),
    ])
  }

  #startAfresh(map: KeyhushMap): HTMLButtonElement {
    return button('Start afresh', () => {
      this.#panel.show('none', '')
      void this.#download('Downloading again', onProgress => map.reset({ onProgress }))
    })
  }

  #hideResult(key = this.#database.examples[0]!): void {
    this.#panel.hideResult(this.#one ? ['A'] : ['A', 'B'], key)
  }

  #urlAt(server: ServerName): string {
    return `${this.#config.servers[server]}/${this.#database.name}`
  }

  #nameOf(url: string): ServerName {
    return url.startsWith(`${this.#config.servers.A}/`) ? 'A' : 'B'
  }
}
