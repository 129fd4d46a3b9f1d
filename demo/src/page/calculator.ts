// What a database of one's own would cost, as one types its size. The formulas are the core's (docs/costs.md), the same
// that `keyhush plan` prints.

import { type ClientCore, loadCore, type Mode, type ModeCosts, type Plan } from '@keyhush/wasm'
import { bytes, count, element, find, grouped, milliseconds } from './format.js'

const DAYS = 30

const TITLES: Record<Mode, string> = {
  local: 'keep it all',
  instant: 'look up instantly',
  full: 'make a hint of the whole database',
  single: 'ask one server alone',
}

/** A label, and what stands beside it for each mode. */
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

  /** Plans when it comes near, after `answered` at the latest, and whenever something else is typed. */
  start(answered: Promise<unknown>): void {
    const show = () =>
      void this.#plan().then(
        ([plan, mode]) => this.#show(plan, mode),
        (error: unknown) => this.#refuse(error instanceof Error ? error.message : String(error)),
      )
    this.#form.addEventListener('input', show)
    this.#form.addEventListener('submit', event => event.preventDefault())
    // Not at once: what plans databases is more WebAssembly than what answers the first lookup.
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

  async #plan(): Promise<readonly [Plan, Mode]> {
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

  #show(plan: Plan, mode: Mode): void {
    const { records, recordBytes, partitions, partitionRecords } = plan.layout
    this.#say('found', `After a month: ${TITLES[mode]}`, [
      ...crossover(plan),
      `What checks the answers to a hint: ${plan.reason.charAt(0).toLowerCase()}${plan.reason.slice(1)}`,
      `${count(records, 'record')} of ${recordBytes} bytes, in ${count(partitions, 'partition')} of ` +
        `${grouped(partitionRecords)}.`,
    ])
    // A hint takes the proofs that suit it.
    const shown = plan.modes.filter(({ mode, proofs }) => mode !== 'full' || proofs === plan.recommended)
    const cells = ([label, cell]: Row) =>
      element(
        'tr',
        {},
        element('th', { scope: 'row' }, label),
        ...shown.map(costs => element('td', { 'data-kind': costs.mode }, cell(costs))),
      )
    find(this.#table, 'tbody', HTMLTableSectionElement).replaceChildren(...rows.map(cells))
    this.#table.dataset['recommended'] = mode
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

/** After how many instant lookups as much was moved as by downloading everything, which may then be kept. */
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

/** What a map that chooses is in after so many days, at servers that offer everything. */
function modeAfterAMonth(core: ClientCore, { layout, merkle, workload }: Plan): Mode {
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = layout
  const handle = core.layout(records, recordBytes, partitions, partitionRecords, blockRecords)
  const lookups = DAYS * workload.lookupsPerDay
  const mode = core.chooseMode(handle, merkle, { instant: true }, lookups)
  handle.free()
  return mode
}

const labelOf = (input: HTMLInputElement) => input.labels?.[0]?.textContent?.trim() ?? input.name
