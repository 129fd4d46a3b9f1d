// The page *Add a domain*: the visitor publishes a change, and a second open map hears of it.

import { type Change, type Config, fetchPublished, type Outcome, type Published, publish } from './backstage.js'
import { databases } from './databases.js'
import { hostOf } from './domains.js'
import { element, find, grouped } from './format.js'
import { Session } from './session.js'
import { refused, trouble } from './trouble.js'

export class Publishing {
  readonly #page: HTMLElement
  readonly #session: Session
  readonly #input: HTMLInputElement
  /** the epoch of the last change that was shown */
  #shown = 0

  constructor(page: HTMLElement, config: Config) {
    this.#page = page
    this.#session = new Session(databases.phishing, config, {
      onEvent: event => {
        if (event.type === 'updated') void this.#heard(event.epoch)
      },
    })
    const form = find(page, 'form', HTMLFormElement)
    this.#input = find(form, '[name=domain]', HTMLInputElement)
    form.addEventListener('submit', event => {
      event.preventDefault()
      const op = event.submitter?.getAttribute('value') === 'delete' ? 'delete' : 'add'
      void this.#publish({ op, domain: this.#input.value })
    })
    find(page, '#look', HTMLButtonElement).addEventListener('click', () => void this.#look())
  }

  /** Opens the second map, shows what was published so far, and looks up the newest domain. */
  async start(): Promise<void> {
    try {
      const { epoch, size } = await this.#session.open()
      const all = await fetchPublished()
      this.#shown = epoch
      this.#write('#version', `Version ${epoch}, ${grouped(size)} domains`)
      find(this.#page, '#news', HTMLElement).replaceChildren(
        ...all
          .filter(one => one.epoch <= epoch)
          .map(line)
          .reverse(),
      )
      await this.#look(all.at(-1)?.domain)
    } catch (error) {
      find(this.#page, '#looked', HTMLElement).replaceChildren(trouble(error, () => void this.start()))
    }
  }

  async #publish(change: Change): Promise<void> {
    const buttons = this.#page.querySelectorAll<HTMLButtonElement>('form button')
    for (const button of buttons) button.disabled = true
    this.#write('#published', 'Publishing to both servers…')
    this.#write(
      '#published',
      await publish(change).then(inWords, () => 'Nothing was published: the demo’s own server does not answer.'),
    )
    for (const button of buttons) button.disabled = false
  }

  /** The map has followed to `epoch`. */
  async #heard(epoch: number): Promise<void> {
    const { size } = await this.#session.open()
    const news = (await fetchPublished()).filter(one => one.epoch > this.#shown && one.epoch <= epoch)
    this.#shown = Math.max(this.#shown, epoch)
    this.#write('#version', `Version ${epoch}, ${grouped(size)} domains`)
    find(this.#page, '#news', HTMLElement).prepend(...news.map(line).reverse())
  }

  /** Only on request: a lookup after each change would show what is of interest here. */
  async #look(domain = hostOf(this.#input.value)): Promise<void> {
    if (domain === undefined) return this.#write('#looked', databases.phishing.unreadable)
    const looked = find(this.#page, '#looked', HTMLElement)
    try {
      const { result } = await this.#session.ask(domain)
      if ('error' in result) throw result.error
      looked.replaceChildren(element('code', {}, domain), `: ${result.verdict.title.toLowerCase()}.`)
    } catch (error) {
      looked.replaceChildren(trouble(error, () => void this.#look(domain)))
    }
  }

  #write(selector: string, text: string): void {
    find(this.#page, selector, HTMLElement).textContent = text
  }
}

function line({ epoch, op, domain, at }: Published): HTMLElement {
  const when = new Date(at).toTimeString().slice(0, 8)
  const what = op === 'add' ? ' was added.' : ' was removed.'
  return element('li', {}, `Version ${epoch}, ${when}: `, element('code', {}, domain), what)
}

function inWords(outcome: Outcome): string {
  if ('published' in outcome) {
    const { epoch, op, domain } = outcome.published
    return `Published as version ${epoch}: ${domain} was ${op === 'add' ? 'added' : 'removed'}. Both servers have it, signed.`
  }
  return refused(outcome)
}
