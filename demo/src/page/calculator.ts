// What a database of one's own would cost, as one types its size. The formulas are the core's (docs/costs.md), the same
// that `pirouette plan` prints.

import { type Costs, loadCore, type Plan, type Proofs } from '@pirouette/wasm'
import { bytes, count, element, find, milliseconds } from './format.js'

const KINDS: readonly Proofs[] = ['merkle', 'tags']

/** A label, and what stands beside it for each kind of proof. */
type Row = readonly [label: string, cell: (costs: Costs, kind: Proofs) => string]

const rows: readonly Row[] = [
  ['Download, once', costs => bytes(costs.offlineBytes)],
  ['Download at 20 Mbit/s', costs => milliseconds(costs.offlineMicros / 1000)],
  ['A lookup', costs => bytes(costs.lookupBytesUp + costs.lookupBytesDown)],
  ['Hashes to check it', costs => costs.lookupHashes.toLocaleString('en')],
  ['A day of lookups', costs => bytes(costs.dayBytesUp + costs.dayBytesDown)],
  ['Kept in memory', costs => bytes(costs.memoryBytes)],
  ['Kept on disk', costs => bytes(costs.checkpointBytes + costs.journalBytes)],
  ['Memory of a server', costs => bytes(costs.serverBytes)],
]

export class Calculator {
  readonly #form: HTMLFormElement
  readonly #verdict = find(document, '#plan-verdict', HTMLElement)
  readonly #table = find(document, '#plan-costs', HTMLTableElement)

  constructor(form: HTMLFormElement) {
    this.#form = form
  }

  start(): void {
    const show = () =>
      void this.#plan().then(
        plan => this.#show(plan),
        (error: unknown) => this.#refuse(error instanceof Error ? error.message : String(error)),
      )
    this.#form.addEventListener('input', show)
    this.#form.addEventListener('submit', event => event.preventDefault())
    show()
  }

  async #plan(): Promise<Plan> {
    const { plan } = await loadCore()
    for (const input of this.#form.querySelectorAll('input')) {
      if (!input.checkValidity()) throw new Error(`${labelOf(input)}: ${input.validationMessage}`)
    }
    const number = (name: string) => find(this.#form, `[name=${name}]`, HTMLInputElement).valueAsNumber
    return plan({
      records: number('records'),
      valueBytes: number('valueBytes'),
      lookupsPerDay: number('lookupsPerDay'),
      keyed: find(this.#form, '[name=keyed]', HTMLInputElement).checked,
    })
  }

  #show(plan: Plan): void {
    const { records, recordBytes, partitions, partitionRecords } = plan.layout
    this.#say('found', plan.recommended === 'tags' ? 'Keep tags' : 'Take opening proofs', [
      plan.reason,
      `${count(records, 'record')} of ${recordBytes} bytes, in ${count(partitions, 'partition')} of ` +
        `${partitionRecords.toLocaleString('en')}.`,
    ])
    const cells = ([label, cell]: Row) =>
      element(
        'tr',
        {},
        element('th', { scope: 'row' }, label),
        ...KINDS.map(kind => element('td', { 'data-kind': kind }, cell(plan[kind], kind))),
      )
    find(this.#table, 'tbody', HTMLTableSectionElement).replaceChildren(...rows.map(cells))
    this.#table.dataset['recommended'] = plan.recommended
    this.#table.hidden = false
  }

  #refuse(reason: string): void {
    this.#say('error', 'There can be no such database', [reason.replace(/^layout: /, '')])
    this.#table.hidden = true
  }

  #say(kind: string, title: string, [first = '', ...rest]: readonly string[]): void {
    this.#verdict.dataset['kind'] = kind
    const more = rest.map(text => element('p', { class: 'quiet' }, text))
    this.#verdict.replaceChildren(element('p', { class: 'title' }, title), element('p', {}, first), ...more)
  }
}

const labelOf = (input: HTMLInputElement) => input.labels?.[0]?.textContent?.trim() ?? input.name
