// The page: tabs of lookups, what the servers saw of them, the box that publishes, the switch that makes one server
// lie, and a calculator.

import { type Config, fetchConfig, LIES, type Lie, type ServerName, setLiar } from './backstage.js'
import { Calculator } from './calculator.js'
import { keys, names, passwords, phishing } from './databases.js'
import { FirstVisit } from './first-visit.js'
import { element, find, messageOf } from './format.js'
import { Lookup } from './lookup.js'
import { connectProofs } from './proofs.js'
import { connectPublishing } from './publishing.js'
import { Sightings } from './sightings.js'
import { connectToy } from './toy.js'

async function start(): Promise<void> {
  let answer = () => {}
  const answered = new Promise<void>(resolve => {
    answer = resolve
  })
  new Calculator(find(document, '#plan', HTMLFormElement)).start(answered)
  connectToy(find(document, '#toy', HTMLElement))
  const config = await fetchConfig()
  const sightings = new Sightings(
    { list: find(document, '#seen', HTMLOListElement), empty: find(document, '#nothing-seen', HTMLElement) },
    config,
  )
  const panel = (name: string) => find(document, `#${name}`, HTMLElement)
  const known = [phishing, keys, passwords, names]
  const shown = known.filter(({ name }) => config.slots[name] !== undefined)
  for (const database of known) {
    panel(`${database.name}-tab`).hidden = !shown.includes(database)
    panel(database.name).hidden = true // until its tab is chosen
  }
  const wire = lazily(async () => new (await import('./wire/explorer.js')).Explorer(panel('wire')))
  const lookups = shown.map(database => new Lookup(panel(database.name), database, config, sightings, wire))
  for (const lookup of lookups) lookup.onAnswer = answer
  panel('first-visit').hidden = !shown.includes(keys)
  if (shown.includes(keys)) new FirstVisit(panel('first-visit'), keys, config, sightings)
  if (shown.includes(passwords)) connectProofs(panel('proving'), lookups[shown.indexOf(passwords)]!)
  const own = lazily(async () => new (await import('./own/own.js')).OwnDatabase(panel('own'), sightings, wire))
  // What only the demo's own server can do, and say.
  for (const part of ['lying', 'publishing', 'watched', 'here', 'here-title', 'near'])
    panel(part).hidden = !config.watched
  panel('unwatched').hidden = config.watched
  panel('asking').hidden = config.publisherKey === undefined // nobody else says what is right of one server's answers
  // The address names the tab, so that it is the same one after a reload, and for whom the address is given to.
  const tabs = [...shown.map(({ name }) => name), 'own']
  const named = () => tabs.findIndex(name => `#${name}` === location.hash)
  const select = connectTabs(index => {
    if (index !== Math.max(0, named())) history.replaceState(null, '', `#${tabs[index]}`)
    find(document, '.side', HTMLElement).hidden = lookups[index] === undefined
    void (lookups[index] === undefined ? own() : lookups[index].open())
  })
  if (config.watched) {
    connectPublishing(find(document, '#publish', HTMLFormElement), find(document, '#publish-outcome', HTMLElement))
    connectLiar(config.liar)
  } else panel('phishing-tab').setAttribute('aria-controls', 'phishing') // nobody publishes from here
  connectAsked(one => {
    for (const lookup of lookups) void lookup.askOne(one)
  })
  select(Math.max(0, named()))
  addEventListener('hashchange', () => named() < 0 || select(named()))
  document.body.classList.add('started')
}

/** Loads what is not needed before the first answer. */
function lazily<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined
  return () => {
    loading ??= load()
    return loading
  }
}

/** Tabs as in the ARIA Authoring Practices: arrow keys move between them. `chosen` hears the index of the new one. */
function connectTabs(chosen: (index: number) => void): (index: number) => void {
  const tabs = [...document.querySelectorAll<HTMLButtonElement>('[role=tab]:not([hidden])')]
  const select = (index: number) => {
    for (const [i, tab] of tabs.entries()) {
      const selected = i === index
      tab.setAttribute('aria-selected', String(selected))
      tab.tabIndex = selected ? 0 : -1
      if (selected) bringIntoView(tab)
      // Its panel, and what else belongs to it alone.
      for (const id of tab.getAttribute('aria-controls')!.split(' ')) {
        find(document, `#${id}`, HTMLElement).hidden = !selected
      }
    }
    chosen(index)
  }
  for (const [i, tab] of tabs.entries()) {
    tab.addEventListener('click', () => select(i))
    tab.addEventListener('keydown', event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
      if (step === undefined) return
      const next = (i + step + tabs.length) % tabs.length
      select(next)
      tabs[next]?.focus()
    })
  }
  return select
}

/** On a phone tabs are one line, which scrolls by itself: to the middle of it, and the page stays where it is. */
function bringIntoView(tab: HTMLElement): void {
  const line = tab.parentElement!
  line.scrollLeft = tab.offsetLeft - line.offsetLeft - (line.clientWidth - tab.clientWidth) / 2
}

/** Whom lookups ask: both servers, or server A alone. */
function connectAsked(chosen: (one: boolean) => void): void {
  const form = find(document, '#asked', HTMLFormElement)
  const radios = form.elements.namedItem('asked') as RadioNodeList
  radios.value = 'two' // not what was chosen before the page was loaded again
  form.addEventListener('change', () => chosen(radios.value === 'one'))
}

function connectLiar(liarNow: Config['liar']): void {
  const form = find(document, '#liar', HTMLFormElement)
  const note = find(document, '#liar-note', HTMLElement)
  const radios = form.elements.namedItem('liar') as RadioNodeList
  const how = form.elements.namedItem('lie') as HTMLSelectElement
  radios.value = liarNow?.server ?? ''
  how.value = liarNow?.lie ?? LIES[0]
  const say = (liar: Config['liar']) => {
    const lies = liar?.lie === 'half' || liar?.lie === 'nothing' ? 'breaks off' : 'lies'
    note.textContent = liar ? `Server ${liar.server} ${lies} from now on. Look something up.` : ''
  }
  say(liarNow)
  form.addEventListener('change', () => {
    const server = (radios.value || null) as ServerName | null
    const liar = server && { server, lie: how.value as Lie }
    setLiar(liar).then(
      () => say(liar),
      () => {
        note.textContent = 'The demo’s own server does not answer.'
      },
    )
  })
}

start().catch((error: unknown) => {
  document.body.classList.add('started')
  find(document, 'main', HTMLElement).prepend(
    element(
      'p',
      { class: 'card', role: 'alert' },
      `This page could not start: ${messageOf(error)}. Is the demo still running?`,
    ),
  )
})
