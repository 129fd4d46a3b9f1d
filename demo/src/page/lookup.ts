// One database on the page: opening it, asking it, what to show when a server lies, and when the database changes.

import { CondemnedError, type KeyhushMap, type OnProgress, open, TamperedError } from '@keyhush/client'
import type { Config, ServerName } from './backstage.js'
import type { Database, Proofs, Verdict } from './databases.js'
import { bytes, element, find, grouped, messageOf, milliseconds } from './format.js'
import { aheadOf, learnt } from './learnt.js'
import { MODES, type Mode, modeOf } from './modes.js'
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
  readonly #panel: HTMLElement
  readonly #verdict: HTMLElement
  #map: KeyhushMap | undefined
  #begun = false
  /** server A alone is asked */
  #one = false
  /** what proves answers, if that is chosen */
  #proofs: Proofs | undefined
  /** hears by what a lookup was proved, and what it came to: bytes received, and held in memory */
  onCosts: (proofs: Proofs, received: number, held: number) => void = () => {}
  /** hears of an answer that is shown */
  onAnswer: () => void = () => {}
  /** settles when what was chosen is open, or has failed to */
  #opening: Promise<void> = Promise.resolve()
  #busy = false
  /** what is shown */
  #epoch = 0
  #mode: Mode | undefined
  /** what was asked last, and the epoch when it was */
  #last: { readonly key: string; readonly epoch: number } | undefined

  constructor(
    panel: HTMLElement,
    database: Database,
    config: Config,
    sightings: Sightings,
    wire: () => Promise<Explorer>,
    fetch?: Fetch,
  ) {
    this.#panel = panel
    this.#database = database
    this.#config = config
    this.#sightings = sightings
    this.#recorder = new Recorder({ A: this.#urlAt('A'), B: this.#urlAt('B') }, fetch)
    this.#wire = wire
    this.#proofs = database.proofs
    panel.append(find(document, '#lookup-template', HTMLTemplateElement).content.cloneNode(true))
    this.#verdict = find(panel, '.verdict', HTMLElement)

    this.#write('h2', database.title)
    this.#write('.question', database.question)
    this.#write('.about', database.about)
    const form = find(panel, 'form', HTMLFormElement)
    const input = find(form, 'input', HTMLInputElement)
    form.addEventListener('submit', event => {
      event.preventDefault()
      void this.#ask(input.value)
    })
    const examples = find(panel, '.examples', HTMLElement)
    for (const example of database.examples) {
      const button = element('button', { type: 'button', disabled: '' }, example)
      button.addEventListener('click', () => {
        input.value = example
        void this.#ask(example)
      })
      examples.append(button)
    }
    this.#hideResult()
  }

  /** Opens the map, the first time it is called. */
  async open(): Promise<void> {
    if (this.#begun) return
    this.#begun = true
    await this.#reopen()
  }

  /** Closes the map, for good. */
  async close(): Promise<void> {
    await this.#opening
    await this.#sightings.alone(async () => await this.#map?.close())
  }

  /** Has server A asked alone, or both again. */
  async askOne(one: boolean): Promise<void> {
    this.#one = one
    if (this.#begun) await this.#reopen()
  }

  /** Has answers proved so. */
  async proveBy(proofs: Proofs): Promise<void> {
    this.#proofs = proofs
    if (this.#begun) await this.#reopen()
  }

  /** Opens what was chosen last, in its turn. */
  #reopen(): Promise<void> {
    this.#opening = this.#opening.then(async () => {
      await this.#sightings.alone(async () => await this.#map?.close())
      this.#map = undefined
      this.#epoch = 0
      this.#last = undefined
      this.#show('none', '', [])
      for (const part of ['.again', '.news', '.change']) find(this.#panel, part, HTMLElement).replaceChildren()
      this.#hideResult()
      await this.#open(this.#one)
    })
    return this.#opening
  }

  async #open(one: boolean): Promise<void> {
    const { publisherKey } = this.#config
    const mode = one ? 'single' : this.#database.mode
    this.#showMode(mode)
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
            this.#write('.change', 'Something cheaper is being prepared behind your lookups.')
          if (event.type === 'mode') this.#turned(event.mode)
        },
      })
    })
  }

  /** The map has followed the database by itself. To look again is left to the person. */
  async #updated(epoch: number): Promise<void> {
    const { changes, asksFor } = this.#database
    // Without the demo's own server it is known that something changed, but not what.
    const all = (this.#config.watched && (await changes?.().catch(() => []))) || []
    const before = this.#epoch
    if (before === 0 || epoch <= before) return
    this.#showEpoch(epoch)
    const news = all.filter(change => change.epoch > before && change.epoch <= epoch)
    find(this.#panel, '.news', HTMLElement).replaceChildren(
      'The list changed',
      ...news.flatMap(({ op, domain }, i) => [i === 0 ? ': ' : ', ', ...changeInWords(op, domain)]),
      '.',
    )
    const last = this.#last
    const affecting = last && news.findLast(change => change.epoch > last.epoch && asksFor?.(last.key, change.domain))
    if (!last || !affecting) return
    find(this.#panel, '.again', HTMLElement).replaceChildren(
      element('p', {}, 'Since you looked, ', ...changeInWords(affecting.op, affecting.domain), '.'),
      this.#button('Look again', () => void this.#ask(last.key)),
    )
  }

  /** Another mode has taken the lookups over. */
  #turned(name: string | undefined): void {
    const [before, now] = [this.#mode, modeOf(name)]
    this.#showMode(name)
    if (before === undefined || now === undefined) return
    const count = this.#map?.stats.lookups ?? 0
    this.#write('.change', `Changed from “${before.title}” to “${now.title}” after ${count} lookups here.`)
  }

  #showMode(name: string | undefined): void {
    this.#mode = modeOf(name)
    find(this.#panel, '.mode', HTMLElement).hidden = this.#mode === undefined
    if (this.#mode === undefined) return
    this.#write('.mode-title', this.#mode.title)
    this.#write('.means', this.#mode.means)
  }

  #showEpoch(epoch: number): void {
    this.#epoch = epoch
    this.#write('.epoch', `Version ${epoch}`)
    this.#write('.size', this.#map ? `${grouped(this.#map.size)} ${this.#database.records}` : '')
  }

  /** Runs an offline phase and shows how far it is; says so if it fails. */
  async #download(what: string, run: (onProgress: OnProgress) => Promise<void>): Promise<void> {
    const progress = find(this.#panel, 'progress', HTMLProgressElement)
    const began = performance.now()
    this.#enable(false)
    progress.value = 0
    progress.hidden = false
    this.#write('.opening-text', `${what} what everybody downloads…`)
    let total = 0
    try {
      await run(({ loadedBytes, totalBytes }) => {
        total = totalBytes
        progress.value = loadedBytes / totalBytes
        const percent = Math.floor((100 * loadedBytes) / totalBytes)
        this.#write('.opening-text', `${what}: ${bytes(loadedBytes)} of ${bytes(totalBytes)} (${percent} %)`)
      })
      const seconds = milliseconds(performance.now() - began)
      const kept = this.#map?.mode === 'instant' ? 'nothing to download' : 'kept from before'
      const how = total === 0 ? kept : `${bytes(total)}, checked`
      this.#write('.opening-text', `Ready in ${seconds}: ${how}.`)
      if (this.#map) {
        this.#showEpoch(this.#map.epoch)
        this.#showMode(this.#map.mode)
        if (this.#map.condemned) {
          this.#write('.opening-text', '') // it is not ready, since an earlier life of the page
          this.#showCondemned(this.#map, this.#map.condemned.server)
        }
      }
      this.#enable(true)
    } catch (error) {
      this.#write('.opening-text', '')
      this.#show('error', 'The database could not be opened', [
        `${messageOf(error)} `,
        this.#button('Try again', () => {
          this.#show('none', '', [])
          void this.#download(what, run)
        }),
      ])
    }
    progress.hidden = true
  }

  async #ask(typed: string): Promise<void> {
    const map = this.#map
    if (!map || this.#busy) return
    const key = this.#database.read(typed)
    if (key === undefined) {
      this.#show('error', 'Nothing to ask', [this.#database.unreadable])
      return
    }
    this.#setBusy(true)
    this.#show('none', this.#one ? 'Asking server A…' : 'Asking both servers…', [])
    this.#hideResult(key)
    find(this.#panel, '.again', HTMLElement).replaceChildren()
    this.#last = { key, epoch: map.epoch }
    const asked = map.mode === 'single' ? (['A'] as const) : (['A', 'B'] as const)
    await this.#sightings.alone(async () => {
      let answer: string | undefined
      const before = this.#recorder.count
      try {
        const verdict = await this.#database.ask(map, key)
        answer = verdict.plain
        this.#show(verdict.kind, verdict.title, verdict.body)
        this.#showCosts(map)
        this.#showClock(map.mode)
        this.onAnswer()
        this.#explain(key, verdict, map.mode, before).catch(() => {}) // its servers have gone: the lookup itself is over
      } catch (error) {
        this.#showFailure(map, error)
      }
      this.#showMode(map.mode) // none, if the map is condemned now
      try {
        const { name } = this.#database
        const sent = this.#config.watched ? undefined : sightingsOf(await this.#recorder.since(before), name)
        const seen = await this.#sightings.draw(name, key, asked, sent)
        if (seen.length > 0) this.#showLearnt(this.#database.plainRequest(key), answer, seen)
      } catch {
        // The demo's own server has gone; the lookup itself was not its business.
      }
    })
    this.#setBusy(false)
  }

  /** What went over the wire since there were `before` requests. */
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

  #urlAt(server: ServerName): string {
    return `${this.#config.servers[server]}/${this.#database.name}`
  }

  /** One lookup at a time, until what the servers saw of it is drawn. */
  #setBusy(busy: boolean): void {
    this.#busy = busy
    this.#panel.setAttribute('aria-busy', String(busy))
  }

  #showFailure(map: KeyhushMap, error: unknown): void {
    if (error instanceof TamperedError && error.server === undefined) {
      this.#show('caught', 'A server lied, and was caught', [
        'Their two answers together are not in the database both servers agreed on, so nothing of them was used. Which ' +
          'of them lied cannot be told from an instant answer. No secret is kept, so that you may simply ask again.',
      ])
    } else if (error instanceof TamperedError && error.server !== undefined) {
      const liar = this.#nameOf(error.server)
      this.#show('caught', `Server ${liar} lied, and was caught`, [
        'Something in its answer does not fit the database that was agreed on, so nothing of the answer was used. ' +
          'The secrets that this page asks with are condemned, never to be used again: to ask anew with the same ones ' +
          'could tell what you asked. ',
        this.#startAfresh(map),
      ])
    } else if (error instanceof CondemnedError) {
      this.#showCondemned(map, error.server)
    } else {
      this.#show('error', 'No answer', [messageOf(error)])
    }
  }

  #showCondemned(map: KeyhushMap, server: string | undefined): void {
    const liar = server === undefined ? undefined : this.#nameOf(server)
    this.#show('caught', 'Nothing was asked: the secrets kept here are condemned', [
      `${liar ? `Server ${liar} had lied. ` : ''}Only new ones, made of another download, can be used. `,
      this.#startAfresh(map),
    ])
  }

  #startAfresh(map: KeyhushMap): HTMLButtonElement {
    return this.#button('Start afresh', () => {
      this.#show('none', '', [])
      void this.#download('Downloading again', onProgress => map.reset({ onProgress }))
    })
  }

  #show(kind: Verdict['kind'] | 'caught' | 'error' | 'none', title: string, body: (Node | string)[]): void {
    this.#verdict.dataset['kind'] = kind
    this.#verdict.replaceChildren()
    if (title) this.#verdict.append(element('p', { class: 'title' }, title))
    if (body.length > 0) this.#verdict.append(element('p', {}, ...body))
  }

  #showCosts(map: KeyhushMap): void {
    const { stats } = map
    const last = stats.lastLookup
    if (!last) return
    const held = Object.values(stats.held).reduce((sum, held) => sum + held, 0)
    if (this.#proofs !== undefined && map.mode === 'full') this.onCosts(this.#proofs, last.bytesDown, held)
    const offline = stats.servers.reduce((sum, server) => sum + server.offline.bytesDown, 0)
    this.#write('.time', milliseconds(last.ms))
    this.#write('.sent', bytes(last.bytesUp))
    this.#write('.received', bytes(last.bytesDown))
    this.#write('.offline', bytes(offline))
    this.#write('.memory', bytes(held))
    find(this.#panel, '.costs', HTMLElement).hidden = false
  }

  /** What moves until a first answer, one's own mode beside the others and the answer of an ordinary server: as computed. */
  #showClock(mode: string | undefined): void {
    const first = this.#config.firstBytes[this.#database.name]
    if (first === undefined || this.#proofs !== undefined) return // what proves answers is chosen, and has a table of its own
    const asked = ['Just ask, and it knows', '< 1 kB'] as const
    const others = MODES.flatMap(each => {
      const moved = first[each.name]
      const lacks = each.name === 'single' && this.#config.publisherKey === undefined // nobody vouches for one server
      return moved === undefined || lacks
        ? []
        : [[`${each.title}${each.name === mode ? ' (here)' : ''}`, bytes(moved)] as const]
    })
    const clock = find(this.#panel, '.clock', HTMLElement)
    find(clock, 'dl', HTMLElement).replaceChildren(
      ...[asked, ...others].map(([title, moved]) =>
        element('div', {}, element('dt', {}, title), element('dd', {}, moved)),
      ),
    )
    clock.hidden = false
  }

  #showLearnt(...of: Parameters<typeof learnt>): void {
    find(this.#panel, '.learnt', HTMLElement).replaceChildren(...learnt(...of))
  }

  /** In the place of a result: what will be learnt of `key`. */
  #hideResult(key = this.#database.examples[0]!): void {
    for (const part of ['.costs', '.clock']) find(this.#panel, part, HTMLElement).hidden = true
    const asked = this.#one ? (['A'] as const) : (['A', 'B'] as const)
    find(this.#panel, '.learnt', HTMLElement).replaceChildren(...aheadOf(this.#database.plainRequest(key), asked))
  }

  #enable(enabled: boolean): void {
    for (const button of this.#panel.querySelectorAll<HTMLButtonElement>('.search button, .examples button')) {
      button.disabled = !enabled
    }
  }

  #button(text: string, act: () => void): HTMLButtonElement {
    const button = element('button', { type: 'button' }, text)
    button.addEventListener('click', act)
    return button
  }

  #write(selector: string, text: string): void {
    find(this.#panel, selector, HTMLElement).textContent = text
  }

  #nameOf(url: string): ServerName {
    return url.startsWith(`${this.#config.servers.A}/`) ? 'A' : 'B'
  }
}
