// Starts the page: a tab for each database, what the servers saw of lookups, the publisher's form, the switch that makes a server
// lie, and the calculator.

import { type Config, fetchConfig, LIES, type Lie, type ServerName, setLiar } from './backstage.js'
import { Calculator } from './calculator.js'
import { databases, type TabbedDatabase, tabbed } from './databases.js'
import { FirstVisit } from './first-visit.js'
import { element, find, messageOf } from './format.js'
import { Lookup } from './lookup.js'
import { connectProofs } from './proofs.js'
import { connectPublishing } from './publishing.js'
import { Sightings } from './sightings.js'
import { connectToy } from './toy.js'

/** ids of what needs the demo's own server */
const NEED_THE_DEMO: readonly string[] = ['lying', 'publishing', 'watched', 'here', 'here-title', 'near']

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
  addTabs(card => config.watched || !NEED_THE_DEMO.includes(card))
  const shown = tabbed.filter(({ name }) => config.databases[name] !== undefined)
  for (const database of tabbed) panel(`${database.name}-tab`).hidden = !shown.includes(database)
  const wire = lazily(async () => new (await import('./wire/explorer.js')).Explorer(panel('wire')))
  const lookups = shown.map(database => new Lookup(panel(database.name), database, config, sightings, wire))
  for (const lookup of lookups) lookup.onAnswer = answer
  const { keys, passwords } = databases
  panel('first-visit').hidden = !shown.includes(keys)
  if (shown.includes(keys)) new FirstVisit(panel('first-visit'), keys, config, sightings)
  if (shown.includes(passwords)) connectProofs(panel('proving'), lookups[shown.indexOf(passwords)]!)
  const own = lazily(async () => new (await import('./own/own.js')).OwnDatabase(panel('own'), sightings, wire))
  for (const part of NEED_THE_DEMO) panel(part).hidden = !config.watched
  panel('unwatched').hidden = config.watched
  panel('asking').hidden = config.publisherKey === undefined // one server's answers are checked by signatures
  // The address names the tab, for reloads and for links.
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
  }
  connectAsked(one => {
    for (const lookup of lookups) void lookup.askOne(one)
  })
  select(Math.max(0, named()))
  addEventListener('hashchange', () => named() < 0 || select(named()))
  document.body.classList.add('started')
}

/** Adds a tab and an empty, hidden panel for each database, before the visitor's own. */
function addTabs(hasCard: (id: string) => boolean): void {
  const isFirst = ({ name }: TabbedDatabase) => name === tabbed[0]?.name
  for (const database of tabbed) {
    const { name, tab, card } = database
    const controls = card !== undefined && hasCard(card) ? `${name} ${card}` : name
    const attributes = {
      ...{ type: 'button', role: 'tab', id: `${name}-tab`, 'aria-controls': controls },
      ...{ 'aria-selected': String(isFirst(database)), tabindex: isFirst(database) ? '0' : '-1' },
    }
    find(document, '#own-tab', HTMLElement).before(element('button', attributes, tab))
    const panel = { class: 'card', role: 'tabpanel', id: name, 'aria-labelledby': `${name}-tab`, hidden: '' }
    find(document, '#own', HTMLElement).before(element('section', panel))
  }
}

/** Calls `load` at the first use: for what is not needed before the first answer. */
function lazily<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined
  return () => {
    loading ??= load()
    return loading
  }
}

/** Tabs as in the ARIA Authoring Practices: arrow keys move between them. Calls `chosen` with the index of the chosen tab. */
function connectTabs(chosen: (index: number) => void): (index: number) => void {
  const tabs = [...document.querySelectorAll<HTMLButtonElement>('[role=tab]:not([hidden])')]
  const select = (index: number) => {
    for (const [i, tab] of tabs.entries()) {
      const selected = i === index
      tab.setAttribute('aria-selected', String(selected))
      tab.tabIndex = selected ? 0 : -1
      if (selected) bringIntoView(tab)
      // Its panel, and its card.
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

/** Scrolls the line of tabs, which is wider than a phone's screen, to show `tab`. The page itself does not scroll. */
function bringIntoView(tab: HTMLElement): void {
  const line = tab.parentElement!
  line.scrollLeft = tab.offsetLeft - line.offsetLeft - (line.clientWidth - tab.clientWidth) / 2
}

/** The switch between both servers and server A alone. */
function connectAsked(chosen: (one: boolean) => void): void {
  const form = find(document, '#asked', HTMLFormElement)
  const radios = form.elements.namedItem('asked') as RadioNodeList
  radios.value = 'two' // browsers restore the choice of before a reload
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
