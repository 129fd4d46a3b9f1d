// The page *Key directory*. The visitor replaces a key. The page of its owner watches that key, and hears of the change.

import type { Change, Found, Watch } from '@keyhush/client'
import { type Config, hideReplacement, type Outcome, OWNER, replaceKey, seedOf } from './backstage.js'
import { databases } from './databases.js'
import { element, find } from './format.js'
import { Session } from './session.js'
import { refused, trouble } from './trouble.js'

/** Where the mark is kept between visits. */
const KEPT = 'keyhush-demo-mark'

export class Owner {
  readonly #page: HTMLElement
  readonly #config: Config
  readonly #leave: HTMLButtonElement
  /** the key that the owner's device holds */
  #own: Uint8Array = new Uint8Array()
  #session: Session | undefined

  constructor(page: HTMLElement, config: Config) {
    this.#page = page
    this.#config = config
    this.#leave = find(page, '#leave', HTMLButtonElement)
    find(page, '.owner', HTMLElement).textContent = OWNER
    const publishes = (selector: string, publish: () => Promise<string>) =>
      find(page, selector, HTMLButtonElement).addEventListener('click', () => void this.#publish(publish))
    publishes('#replace', async () => inWords(await replaceKey(true), 'the key was replaced'))
    publishes('#restore', async () => inWords(await replaceKey(false), 'the key was put back'))
    publishes('#hide', async () => {
      const outcome = await hideReplacement()
      const hidden = inWords(outcome, 'the key was replaced, and the list says that another key was')
      return 'published' in outcome ? `${hidden} The auditor says: ${outcome.published.auditor || 'nothing'}` : hidden
    })
    this.#leave.addEventListener('click', () => void (this.#session === undefined ? this.start() : this.#close()))
  }

  /** Opens the owner's page, which first shows what has changed since it was closed. */
  async start(): Promise<void> {
    const session = new Session(databases.keys, this.#config)
    const at = find(this.#page, '#owner-trouble', HTMLElement)
    const news = find(this.#page, '#owner-news', HTMLElement)
    this.#session = session
    this.#leave.disabled = true
    this.#write('#owner-key', 'Opening the directory…')
    at.replaceChildren()
    news.replaceChildren()
    try {
      const seed = new TextEncoder().encode(seedOf(OWNER))
      this.#own = new Uint8Array(await crypto.subtle.digest('SHA-512', seed))
      const map = await session.open()
      const tell = (change: Change) => {
        news.prepend(this.#line(change))
        this.#show(change.value)
      }
      const watch = await map.watch(OWNER, tell, { since: this.#mark(), save: mark => this.#keep(mark) })
      this.#show(watch.value)
      this.#date(watch)
      const timer = setInterval(() => (this.#session === session ? this.#date(watch) : clearInterval(timer)), 1000)
      this.#leave.textContent = 'Close the owner’s page'
    } catch (error) {
      this.#session = undefined
      at.replaceChildren(trouble(error, () => void this.start()))
    }
    this.#leave.disabled = false
  }

  async #close(): Promise<void> {
    this.#leave.disabled = true
    await this.#session?.close()
    this.#session = undefined
    delete find(this.#page, '#owner-key', HTMLElement).dataset['own']
    this.#write('#owner-key', 'The page is closed.')
    this.#write('#owner-checked', 'Replace the key now, or replace it and put it back. Then open the page again.')
    find(this.#page, '#owner-news', HTMLElement).replaceChildren()
    this.#leave.textContent = 'Open the owner’s page again'
    this.#leave.disabled = false
  }

  async #publish(publish: () => Promise<string>): Promise<void> {
    const buttons = this.#page.querySelectorAll<HTMLButtonElement>('.operator button')
    for (const button of buttons) button.disabled = true
    this.#write('#replaced', 'Publishing to both servers…')
    const away = 'Nothing was published: the demo’s own server does not answer.'
    this.#write('#replaced', await publish().catch(() => away))
    for (const button of buttons) button.disabled = false
  }

  #show(value: Found): void {
    const now = find(this.#page, '#owner-key', HTMLElement)
    now.dataset['own'] = String(this.#isOwn(value))
    const whose = this.#isOwn(value) ? ': it is the owner’s' : ', which is not the owner’s'
    if (value === undefined) now.textContent = 'The directory has no key'
    else now.replaceChildren('The directory has ', short(value), whose)
  }

  /** Shows until when silence means something, as long as the page is open. */
  #date({ checked }: Watch): void {
    const time = checked?.toTimeString().slice(0, 8)
    this.#write(
      '#owner-checked',
      time === undefined ? 'Not checked yet' : `Checked at ${time}: nothing else has changed.`,
    )
  }

  #line({ value, epoch, how }: Change): HTMLElement {
    const isOwn = this.#isOwn(value)
    const what: readonly (Node | string)[] =
      how === 'contradiction'
        ? ['somebody shows two different lists.']
        : how === 'gap'
          ? ['the versions before were not seen. Look at the key.']
          : value === undefined
            ? ['your key was removed.']
            : isOwn
              ? ['your own key is there again.']
              : ['your key was replaced by ', short(value), '.']
    return element('li', { 'data-own': String(isOwn && how === 'list') }, `Version ${epoch}: `, ...what)
  }

  #isOwn(value: Found): boolean {
    return value !== undefined && hex(value) === hex(this.#own)
  }

  /** Each run of the demo has another publisher's key, and begins at the first version. */
  #mark(): string | undefined {
    const [of, mark] = localStorage.getItem(KEPT)?.split(' ') ?? []
    return of === this.#config.publisherKey ? mark : undefined
  }

  #keep(mark: string): void {
    localStorage.setItem(KEPT, `${this.#config.publisherKey} ${mark}`)
  }

  #write(selector: string, text: string): void {
    find(this.#page, selector, HTMLElement).textContent = text
  }
}

const hex = (bytes: Uint8Array) => Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('')

const short = (key: Uint8Array) => element('code', {}, hex(key.subarray(0, 6)).replace(/....(?=.)/g, '$& '))

function inWords(outcome: Outcome<{ readonly epoch: number }>, what: string): string {
  return 'published' in outcome ? `Published as version ${outcome.published.epoch}: ${what}.` : refused(outcome)
}
