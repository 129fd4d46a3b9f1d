// The page *What it costs*: the costs of a list of a given size, for three known lists and while a size is typed. The core
// computes and recommends (docs/costs.md), as it does for the SDK's estimate() and for `keyhush plan`.

import { loadCore, type ModeCosts, type Plan } from '@keyhush/wasm'
import { loadOneServerCore, oneServerPlan } from '@keyhush/wasm/one-server'
import { bytes, count, element, find, messageOf, milliseconds } from './format.js'
import { MODES } from './modes.js'

/** Lists that people know, in round numbers. */
const LISTS = [
  { name: 'Names of npm packages', records: 4_500_000, valueBytes: 0, lookupsPerDay: 10 },
  { name: 'Titles of the English Wikipedia', records: 7_000_000, valueBytes: 0, lookupsPerDay: 20 },
  { name: 'Domains of a phishing list', records: 14_000, valueBytes: 0, lookupsPerDay: 100 },
] as const
type Size = Pick<(typeof LISTS)[number], 'records' | 'valueBytes' | 'lookupsPerDay'>

/** A label, and a cell for each mode. */
type Row = readonly [label: string, cell: (costs: ModeCosts) => string]

const some = (write: (n: number) => string) => (n: number) => (n === 0 ? 'nothing' : write(n))
const size = some(bytes)
const time = some(micros => milliseconds(micros / 1000))

const rows: readonly Row[] = [
  ['Before the first lookup', costs => size(costs.firstBytes)],
  ['The same at 20 Mbit/s', costs => time((costs.firstBytes * 8) / 20)],
  ['A lookup', costs => size(costs.lookupBytesUp + costs.lookupBytesDown)],
  ['A day of lookups', costs => size(costs.dayBytes)],
  ['Kept in memory', costs => size(costs.memoryBytes)],
  ['Kept on disk, at most', costs => size(costs.diskBytes)],
  ['Servers’ processor time, a lookup', costs => time(costs.serverLookupMicros)],
]

export class Calculator {
  readonly #form: HTMLFormElement
  readonly #verdict: HTMLElement
  readonly #table: HTMLTableElement

  constructor(page: HTMLElement) {
    this.#form = find(page, 'form', HTMLFormElement)
    this.#verdict = find(page, '#plan-verdict', HTMLElement)
    this.#table = find(page, 'table', HTMLTableElement)
    const choices = LISTS.map(({ name, ...size }) => {
      const choice = element('button', { type: 'button' }, name)
      choice.addEventListener('click', () => this.#fill(size))
      return choice
    })
    find(page, '.examples', HTMLElement).append(...choices)
    this.#form.addEventListener('input', () => void this.#plan())
    this.#form.addEventListener('submit', event => event.preventDefault())
  }

  start(): void {
    const { name: _, ...size } = LISTS[0]
    this.#fill(size)
  }

  #fill(size: Size): void {
    for (const [name, value] of Object.entries(size)) this.#input(name).value = String(value)
    this.#input('keyed').checked = true
    void this.#plan()
  }

  async #plan(): Promise<void> {
    try {
      const [core, oneServer] = await Promise.all([loadCore(), loadOneServerCore()])
      for (const input of this.#form.querySelectorAll('input')) {
        if (!input.checkValidity()) throw new Error(`${labelOf(input)}: ${input.validationMessage}`)
      }
      const number = (name: string) => this.#input(name).valueAsNumber
      const [records, valueBytes, lookupsPerDay] = [number('records'), number('valueBytes'), number('lookupsPerDay')]
      const plan = core.plan({ records, valueBytes, lookupsPerDay, keyed: this.#input('keyed').checked })
      this.#show(plan, oneServerPlan(oneServer, plan))
    } catch (error) {
      this.#say('error', 'There can be no such list', messageOf(error).replace(/^layout: /, ''))
      this.#table.hidden = true
    }
  }

  #show(plan: Plan, oneServer: readonly ModeCosts[]): void {
    const { records, recordBytes } = plan.layout
    const { mode } = plan.recommended
    const { advice } = MODES.find(({ name }) => name === mode)!
    const held = `${count(records, 'record')} of ${recordBytes} bytes.`
    this.#say('found', `Recommended: ${advice}`, `${held} ${plan.reason}`)
    // Of the kinds of proofs for a hint, only the suitable one is shown.
    const shown = MODES.flatMap(({ name, title }) => {
      const isIt = (costs: ModeCosts) => costs.mode === name && (name !== 'full' || costs.proofs === plan.proofs)
      const costs = plan.modes.find(isIt)
      const attributes = name === mode ? { class: 'recommended' } : {}
      return costs === undefined ? [] : [{ title, costs, attributes }]
    })
    shown.splice(
      1,
      0,
      ...oneServer.map(costs => ({ title: 'One server, instant: experimental', costs, attributes: {} })),
    )
    const titles = rows.map(([label]) => element('th', { scope: 'col' }, label))
    const body = shown.map(({ title, costs, attributes }) => {
      const cells = rows.map(([label, cell]) => element('td', { 'data-label': label }, cell(costs)))
      return element('tr', attributes, element('th', { scope: 'row' }, title), ...cells)
    })
    const head = element('tr', {}, element('td', {}), ...titles)
    find(this.#table, 'thead', HTMLTableSectionElement).replaceChildren(head)
    find(this.#table, 'tbody', HTMLTableSectionElement).replaceChildren(...body)
    this.#table.hidden = false
  }

  #say(kind: string, title: string, text: string): void {
    this.#verdict.dataset['kind'] = kind
    this.#verdict.replaceChildren(element('h2', {}, title), element('p', {}, text))
  }

  #input(name: string): HTMLInputElement {
    return find(this.#form, `[name=${name}]`, HTMLInputElement)
  }
}

const labelOf = (input: HTMLInputElement) => input.labels?.[0]?.textContent?.trim() ?? input.name
