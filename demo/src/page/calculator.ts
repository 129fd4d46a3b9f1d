// Shows what a database of a given size would cost, while its size is typed. The core computes it (docs/costs.md), as it does for
// `keyhush plan`.

import { type ClientCore, loadCore, type ModeCosts, type Plan } from '@keyhush/wasm'
import { bytes, count, element, find, grouped, milliseconds } from './format.js'
import { MODES, type ModeName, modeOf } from './modes.js'

const DAYS = 30

/** A label, and a cell for each mode. */
type Row = readonly [label: string, cell: (costs: ModeCosts) => string]

const some = (write: (n: number) => string) => (n: number) => (n === 0 ? '–' : write(n))
const size = some(bytes)
const time = some(micros => milliseconds(micros / 1000))

const rows: readonly Row[] = [
  ['Before the first lookup', costs => size(costs.firstBytes)],
  ['The same at 20 Mbit/s', costs => time((costs.firstBytes * 8) / 20)],
  ['A lookup', costs => size(costs.lookupBytesUp + costs.lookupBytesDown)],
  ['A day of lookups', costs => size(costs.dayBytes)],
  ['Kept in memory', costs => size(costs.memoryBytes)],
  ['Kept on disk, at most', costs => size(costs.diskBytes)],
  ['Servers’ processors, a lookup', costs => time(costs.serverLookupMicros)],
]

export class Calculator {
  readonly #form: HTMLFormElement
  readonly #verdict = find(document, '#plan-verdict', HTMLElement)
  readonly #table = find(document, '#plan-costs', HTMLTableElement)

  constructor(form: HTMLFormElement) {
    this.#form = form
  }

  /** Plans when the form comes near the screen, at the latest after `answered`, and at each input. */
  start(answered: Promise<unknown>): void {
    const show = () =>
      void this.#plan().then(
        ([plan, mode]) => this.#show(plan, mode),
        (error: unknown) => this.#refuse(error instanceof Error ? error.message : String(error)),
      )
    this.#form.addEventListener('input', show)
    this.#form.addEventListener('submit', event => event.preventDefault())
    // Not at once: the planner's WebAssembly is larger than what the first lookup needs.
    let begun = false
    const begin = () => {
      if (begun) return
      begun = true
      near.disconnect()
      show()
    }
    const near = new IntersectionObserver(
      entries => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) begin()
      },
      { rootMargin: '200px' },
    )
    near.observe(this.#form)
    void answered.then(begin)
  }

  async #plan(): Promise<readonly [Plan, ModeName]> {
    const core = await loadCore()
    for (const input of this.#form.querySelectorAll('input')) {
      if (!input.checkValidity()) throw new Error(`${labelOf(input)}: ${input.validationMessage}`)
    }
    const number = (name: string) => find(this.#form, `[name=${name}]`, HTMLInputElement).valueAsNumber
    const plan = core.plan({
      records: number('records'),
      valueBytes: number('valueBytes'),
      lookupsPerDay: number('lookupsPerDay'),
      keyed: find(this.#form, '[name=keyed]', HTMLInputElement).checked,
    })
    return [plan, modeAfterAMonth(core, plan)]
  }

  #show(plan: Plan, mode: ModeName): void {
    const { records, recordBytes, partitions, partitionRecords } = plan.layout
    this.#say('found', `After a month: ${modeOf(mode)!.advice}`, [
      ...crossover(plan),
      `What checks the answers to a hint: ${plan.reason.charAt(0).toLowerCase()}${plan.reason.slice(1)}`,
      `${count(records, 'record')} of ${recordBytes} bytes, in ${count(partitions, 'partition')} of ` +
        `${grouped(partitionRecords)}.`,
    ])
    // Of the kinds of proofs for a hint, only the recommended one is shown.
    const shown = MODES.flatMap(({ name, title }) => {
      const costs = plan.modes.find(
        ({ mode, proofs }) => mode === name && (name !== 'full' || proofs === plan.recommended),
      )
      const attributes = name === mode ? { class: 'recommended' } : {}
      return costs === undefined ? [] : [{ title, costs, attributes }]
    })
    const titles = shown.map(({ title, attributes }) => element('th', { scope: 'col', ...attributes }, title))
    const head = element('tr', {}, element('td', {}), ...titles)
    const cells = ([label, cell]: Row) =>
      element(
        'tr',
        {},
        element('th', { scope: 'row' }, label),
        ...shown.map(({ costs, attributes }) => element('td', attributes, cell(costs))),
      )
    find(this.#table, 'thead', HTMLTableSectionElement).replaceChildren(head)
    find(this.#table, 'tbody', HTMLTableSectionElement).replaceChildren(...rows.map(cells))
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

/** How many instant lookups move as much as one download of everything. */
function crossover({ modes }: Plan): string[] {
  const [local, instant] = (['local', 'instant'] as const).map(name => modes.find(({ mode }) => mode === name))
  if (local === undefined || instant === undefined) return []
  const lookups = Math.ceil((local.firstBytes - instant.firstBytes) / (instant.lookupBytesUp + instant.lookupBytesDown))
  return [
    lookups > 0
      ? `To download it all moves as much as ${count(lookups, 'instant lookup')}.`
      : 'To download it all moves less than one instant lookup.',
  ]
}

/** The mode that the SDK chooses after DAYS of such lookups, if the servers offer all modes. */
function modeAfterAMonth(core: ClientCore, { layout, merkle, workload }: Plan): ModeName {
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = layout
  const handle = core.layout(records, recordBytes, partitions, partitionRecords, blockRecords)
  const lookups = DAYS * workload.lookupsPerDay
  const mode = core.chooseMode(handle, merkle, { instant: true }, lookups)
  handle.free()
  return mode
}

const labelOf = (input: HTMLInputElement) => input.labels?.[0]?.textContent?.trim() ?? input.name
