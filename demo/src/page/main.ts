// Starts the page, and shows one of its pages at a time: the address says which (`#/wire`).

import { type Config, fetchConfig } from './backstage.js'
import { databases } from './databases.js'
import { element, find } from './format.js'
import { Home } from './home.js'
import { Session } from './session.js'
import { connectToy } from './toy.js'
import { trouble } from './trouble.js'
import { BOTH } from './words.js'

const page = (id: string) => find(document, `#${id}`, HTMLElement)

/** Called when a page is shown for the first time. Code that only one page needs is loaded then. */
const pages: Readonly<Record<string, (config: Config, session: Session) => void | Promise<void>>> = {
  home: () => {},
  wire: async (_, session) => {
    const { Explorer } = await import('./wire/explorer.js')
    explorer = new Explorer(page('wire'), session)
  },
  add: async config => {
    const { Publishing } = await import('./publishing.js')
    await new Publishing(page('add'), config).start()
  },
  keys: async config => {
    const { Owner } = await import('./owner.js')
    await new Owner(page('keys'), config).start()
  },
  cost: async () => {
    const { Calculator } = await import('./calculator.js')
    new Calculator(page('cost')).start()
  },
  one: async config => {
    const { One } = await import('./one.js')
    await new One(page('one'), config).start()
  },
  breached: async config => {
    const { SignUp } = await import('./sign-up.js')
    await new SignUp(page('breached'), config).start()
  },
  three: async config => {
    const { Three } = await import('./three.js')
    await new Three(page('three'), config).start()
  },
  visit: async config => {
    const { FirstVisit } = await import('./first-visit.js')
    await new FirstVisit(page('visit'), config, config.databases.keys!).start()
  },
}
let explorer: { show(): Promise<void> } | undefined

async function start(): Promise<void> {
  connectToy(page('toy'))
  const config = await fetchConfig()
  const session = new Session(config.databases.names ? databases.names : databases.phishing, config)
  new Home(page('home'), session, config, BOTH)
  const lacking: Readonly<Record<string, boolean>> = {
    one: !config.hosted,
    breached: !config.hosted,
    three: config.servers.C === undefined,
    add: !config.hosted || config.databases.phishing === undefined,
    keys: !config.hosted || config.databases.keys === undefined,
    visit: config.databases.keys === undefined,
  }
  const offered = Object.keys(pages).filter(name => !lacking[name])
  for (const link of links()) link.hidden = !offered.includes(nameOf(link.hash))
  page('local').hidden = !config.hosted
  const begun = new Set<string>()
  let said: HTMLElement | undefined
  const show = async (moved: boolean) => {
    const asked = nameOf(location.hash)
    const name = offered.includes(asked) ? asked : 'home'
    for (const other of Object.keys(pages)) page(other).hidden = other !== name
    for (const link of links()) {
      if (nameOf(link.hash) === name) link.setAttribute('aria-current', 'page')
      else link.removeAttribute('aria-current')
    }
    const title = find(page(name), 'h1', HTMLElement)
    document.title = `${title.textContent} – Keyhush`
    if (moved) {
      scrollTo(0, 0)
      title.focus()
    }
    const link = [...links()].find(({ hash }) => nameOf(hash) === name)
    link?.scrollIntoView({ block: 'nearest', inline: 'center' })
    said?.remove()
    try {
      if (!begun.has(name)) {
        begun.add(name)
        await pages[name]!(config, session)
      }
      if (name === 'wire') await explorer?.show()
    } catch (error) {
      begun.delete(name)
      said = say(error, () => void show(false))
      page(name).append(said)
    }
  }
  addEventListener('hashchange', () => void show(true))
  document.body.classList.add('started')
  await show(false)
}

const links = () => document.querySelectorAll<HTMLAnchorElement>('nav a')
const nameOf = (hash: string) => hash.replace(/^#\/?/, '') || 'home'

function say(error: unknown, again: () => void): HTMLElement {
  return element('div', { role: 'alert' }, trouble(error, again))
}

start().catch((error: unknown) => {
  document.body.classList.add('started')
  find(document, 'main', HTMLElement).prepend(say(error, () => location.reload()))
})
