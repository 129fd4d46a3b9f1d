// The visitor's own database: two workers, which stand for two operators, each build it from a CSV file that never leaves the
// browser. Then it has lookups like any other.

import type { Config } from '../backstage.js'
import type { Database } from '../databases.js'
import { bytes, count, element, find, messageOf } from '../format.js'
import { Lookup } from '../lookup.js'
import type { Sightings } from '../sightings.js'
import type { Explorer } from '../wire/explorer.js'
import { MOST_BYTES } from './messages.js'
import type { Built, Stage } from './server.js'
import { FileError, OwnServers, progressOf, URLS } from './servers.js'

const SAMPLE =
  'key,value\nalice@example.org,+44 20 7946 0018\nbob@example.org,+44 20 7946 0123\ncarol@example.org,+44 20 7946 0456\n'

const STAGES: Readonly<Record<Stage['stage'], string>> = {
  reading: 'Reading the lines…',
  placing: 'Giving every key its place…',
  hashing: 'Hashing, so that a lie would show…',
}

export class OwnDatabase {
  readonly #panel: HTMLElement
  readonly #sightings: Sightings
  readonly #wire: () => Promise<Explorer>
  #building = new AbortController()
  #servers: OwnServers | undefined
  #lookup: Lookup | undefined

  constructor(panel: HTMLElement, sightings: Sightings, wire: () => Promise<Explorer>) {
    this.#panel = panel
    this.#sightings = sightings
    this.#wire = wire
    const text = find(panel, 'textarea', HTMLTextAreaElement)
    const file = find(panel, 'input[type=file]', HTMLInputElement)
    text.value = SAMPLE
    file.addEventListener('change', () => {
      const [chosen] = file.files ?? []
      if (chosen !== undefined) void this.#build(chosen)
      file.value = ''
    })
    find(panel, 'form', HTMLFormElement).addEventListener('submit', event => {
      event.preventDefault()
      void this.#build(new Blob([text.value]))
    })
    find(panel, '#own-cancel', HTMLButtonElement).addEventListener('click', () => this.#building.abort())
    const drop = find(panel, '#own-drop', HTMLElement)
    for (const type of ['dragover', 'dragleave', 'drop'] as const) {
      drop.addEventListener(type, event => {
        event.preventDefault()
        drop.classList.toggle('over', type === 'dragover')
        const [dropped] = (event as DragEvent).dataTransfer?.files ?? []
        if (type === 'drop' && dropped !== undefined) void this.#build(dropped)
      })
    }
  }

  async #build(file: Blob): Promise<void> {
    this.#building.abort() // of an earlier file
    const building = new AbortController()
    this.#building = building
    const progress = find(this.#panel, '#own-building', HTMLElement)
    const bar = find(progress, 'progress', HTMLProgressElement)
    this.#say('none', '', '')
    await this.#forget()
    progress.hidden = false
    bar.value = 0
    try {
      if (file.size > MOST_BYTES) {
        throw new FileError({
          reason: `the file has ${bytes(file.size)}; here at most ${bytes(MOST_BYTES)} are built`,
          ...{ line: undefined, memory: false },
        })
      }
      const csv = new Uint8Array(await file.arrayBuffer())
      const onStage = (stage: Stage) => {
        find(progress, '#own-stage', HTMLElement).textContent = STAGES[stage.stage]
        bar.value = progressOf(stage)
      }
      const servers = await OwnServers.build(csv, onStage, building.signal)
      if (this.#building !== building) return servers.stop()
      this.#servers = servers
      await this.#open(servers)
    } catch (error) {
      if (this.#building !== building) return
      if (building.signal.aborted) this.#say('none', '', 'Cancelled. Nothing was built.')
      else if (error instanceof FileError && error.memory) {
        this.#say('error', 'Too large for this browser', sentence(messageOf(error)))
      } else this.#say('error', 'This cannot be a database', sentence(messageOf(error)))
    } finally {
      if (this.#building === building) progress.hidden = true
    }
  }

  async #open(servers: OwnServers): Promise<void> {
    const { built } = servers
    const config: Config = {
      ...{ servers: URLS, databases: {}, liar: null, seen: { A: 0, B: 0 } },
      watched: false,
    }
    const place = element('div', { class: 'card-part' })
    find(this.#panel, '#own-lookup', HTMLElement).replaceChildren(place)
    this.#say('found', `Built twice: ${count(built.records, 'record')}, ${bytes(built.bytes)}`, wordsOf(built))
    this.#lookup = new Lookup(place, databaseOf(built), config, this.#sightings, this.#wire, servers.fetch)
    await this.#lookup.open()
  }

  async #forget(): Promise<void> {
    find(this.#panel, '#own-lookup', HTMLElement).replaceChildren()
    const [lookup, servers] = [this.#lookup, this.#servers]
    this.#lookup = undefined
    this.#servers = undefined
    await lookup?.close()
    servers?.stop()
  }

  #say(kind: string, title: string, text: string): void {
    const outcome = find(this.#panel, '#own-outcome', HTMLElement)
    outcome.dataset['kind'] = kind
    outcome.replaceChildren(
      ...(title === '' ? [] : [element('p', { class: 'title' }, title)]),
      ...(text === '' ? [] : [element('p', {}, text)]),
    )
  }
}

const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)

function wordsOf({ manifestHash }: Built): string {
  return `Each worker read the file for itself, and both came to ${manifestHash.slice(0, 16)}…: that is what two operators compare.`
}

function databaseOf({ examples }: Built): Database {
  return {
    name: 'own',
    title: 'Look it up',
    about: 'Your own records, at two servers in this page.',
    records: 'records',
    mode: 'instant', // stores nothing
    question: 'Key',
    examples: [...examples, 'no-such-key'],
    read: typed => typed || undefined,
    unreadable: 'Type a key of your file.',
    plainRequest: key => `GET /own?key=${encodeURIComponent(key)}`,
    async ask(map, key) {
      const value = await map.get(key)
      if (value === undefined) {
        return {
          kind: 'absent',
          title: 'Not there, and that is proved',
          body: [element('code', {}, key), ' is no key of your file.'],
          plain: 'not there',
        }
      }
      const text = new TextDecoder().decode(value)
      return {
        kind: 'found',
        title: 'Found',
        body: [element('code', {}, key), ' has the value ', element('code', { class: 'key' }, text)],
        plain: text,
      }
    },
  }
}
