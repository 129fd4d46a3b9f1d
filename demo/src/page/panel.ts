// The card of one database: what a person types, and everything that is shown of the map and of an answer. lookup.ts decides
// what to show.

import type { KeyhushMap } from '@keyhush/client'
import type { Config, ServerName } from './backstage.js'
import type { Database, Verdict } from './databases.js'
import { bytes, element, find, grouped, milliseconds } from './format.js'
import { aheadOf, learnt } from './learnt.js'
import { MODES, type Mode, modeOf } from './modes.js'
import type { Seeing } from './sightings.js'

type Parts = readonly (Node | string)[]

export class Panel {
  readonly #card: HTMLElement
  readonly #database: Database
  readonly #verdict: HTMLElement
  /** the epoch that is shown; 0: none */
  epoch = 0
  #mode: Mode | undefined

  /** Fills `card`. `ask` is called with what a person types or chooses. */
  constructor(card: HTMLElement, database: Database, ask: (typed: string) => void) {
    this.#card = card
    this.#database = database
    card.append(find(document, '#lookup-template', HTMLTemplateElement).content.cloneNode(true))
    this.#verdict = this.#find('.verdict')
    this.#write('h2', database.title)
    this.#write('.question', database.question)
    this.#write('.about', database.about)
    const form = find(card, 'form', HTMLFormElement)
    const input = find(form, 'input', HTMLInputElement)
    form.addEventListener('submit', event => {
      event.preventDefault()
      ask(input.value)
    })
    for (const example of database.examples) {
      const chosen = button(example, () => {
        input.value = example
        ask(example)
      })
      chosen.disabled = true
      this.#find('.examples').append(chosen)
    }
  }

  // ---- the map ----

  /** Shows that a download begins. Returns what shows how far it is. */
  showDownload(what: string): (loadedBytes: number, totalBytes: number) => void {
    const progress = find(this.#card, 'progress', HTMLProgressElement)
    this.#enable(false)
    progress.value = 0
    progress.hidden = false
    this.#write('.opening-text', `${what} what everybody downloads…`)
    return (loadedBytes, totalBytes) => {
      progress.value = loadedBytes / totalBytes
      const percent = Math.floor((100 * loadedBytes) / totalBytes)
      this.#write('.opening-text', `${what}: ${bytes(loadedBytes)} of ${bytes(totalBytes)} (${percent} %)`)
    }
  }

  /** Shows that the download has ended, and `text`; lookups are possible if it is `ready`. */
  showDownloaded(text: string, ready: boolean): void {
    this.#write('.opening-text', text)
    if (ready) this.#enable(true)
    find(this.#card, 'progress', HTMLProgressElement).hidden = true
  }

  showMode(name: string | undefined): void {
    this.#mode = modeOf(name)
    this.#find('.mode').hidden = this.#mode === undefined
    this.#write('.mode-title', this.#mode?.title ?? '')
    this.#write('.means', this.#mode?.means ?? '')
  }

  /** Shows that another mode answers from now on, after so many lookups. */
  showTurn(name: string | undefined, lookups: number): void {
    const before = this.#mode
    this.showMode(name)
    if (before === undefined || this.#mode === undefined) return
    this.showChange(`Changed from “${before.title}” to “${this.#mode.title}” after ${lookups} lookups here.`)
  }

  showChange(text: string): void {
    this.#write('.change', text)
  }

  showEpoch(epoch: number, records: number): void {
    this.epoch = epoch
    this.#write('.epoch', `Version ${epoch}`)
    this.#write('.size', `${grouped(records)} ${this.#database.records}`)
  }

  showNews(...news: Parts): void {
    this.#find('.news').replaceChildren(...news)
  }

  showAgain(...again: Parts): void {
    this.#find('.again').replaceChildren(...again)
  }

  // ---- an answer ----

  /** While a lookup is under way, until what the servers saw of it is drawn. */
  setBusy(busy: boolean): void {
    this.#card.setAttribute('aria-busy', String(busy))
  }

  show(kind: Verdict['kind'] | 'caught' | 'error' | 'none', title: string, body: Parts = []): void {
    this.#verdict.dataset['kind'] = kind
    this.#verdict.replaceChildren()
    if (title) this.#verdict.append(element('p', { class: 'title' }, title))
    if (body.length > 0) this.#verdict.append(element('p', {}, ...body))
  }

  /** Shows in place of a result what `servers` will learn of `key`. */
  hideResult(servers: readonly ServerName[], key: string): void {
    for (const part of ['.costs', '.clock']) this.#find(part).hidden = true
    this.#find('.learnt').replaceChildren(...aheadOf(this.#database.plainRequest(key), servers))
  }

  /** `answer`: undefined if it was not used */
  showLearnt(key: string, answer: string | undefined, seen: readonly Seeing[]): void {
    this.#find('.learnt').replaceChildren(...learnt(this.#database.plainRequest(key), answer, seen))
  }

  /** What the last lookup cost, and what the map keeps. */
  showCosts({ lastLookup, servers }: KeyhushMap['stats'], held: number): void {
    if (lastLookup === undefined) return
    this.#write('.time', milliseconds(lastLookup.ms))
    this.#write('.sent', bytes(lastLookup.bytesUp))
    this.#write('.received', bytes(lastLookup.bytesDown))
    this.#write('.offline', bytes(servers.reduce((sum, { offline }) => sum + offline.bytesDown, 0)))
    this.#write('.memory', bytes(held))
    this.#find('.costs').hidden = false
  }

  /** What each mode moves until a first answer, as computed, beside an ordinary server's answer. */
  showClock({ databases, publisherKey }: Config, mode: string | undefined): void {
    const { name } = this.#database
    const first = name === 'own' ? undefined : databases[name]?.firstBytes
    if (first === undefined) return
    const ordinary = ['Just ask, and it knows', '< 1 kB'] as const
    const rows = MODES.flatMap(({ name, title }) => {
      const moved = first[name]
      // Without signatures, the answers of a single server cannot be checked.
      const isOffered = moved !== undefined && (name !== 'single' || publisherKey !== undefined)
      return isOffered ? [[`${title}${name === mode ? ' (here)' : ''}`, bytes(moved)] as const] : []
    })
    const clock = this.#find('.clock')
    find(clock, 'dl', HTMLElement).replaceChildren(
      ...[ordinary, ...rows].map(([title, moved]) =>
        element('div', {}, element('dt', {}, title), element('dd', {}, moved)),
      ),
    )
    clock.hidden = false
  }

  #enable(enabled: boolean): void {
    for (const one of this.#card.querySelectorAll<HTMLButtonElement>('.search button, .examples button')) {
      one.disabled = !enabled
    }
  }

  #write(selector: string, text: string): void {
    this.#find(selector).textContent = text
  }

  #find(selector: string): HTMLElement {
    return find(this.#card, selector, HTMLElement)
  }
}

export function button(text: string, act: () => void): HTMLButtonElement {
  const made = element('button', { type: 'button' }, text)
  made.addEventListener('click', act)
  return made
}
