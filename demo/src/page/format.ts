// Formats numbers, and makes and finds elements.

const UNITS = ['B', 'kB', 'MB', 'GB'] as const

/** `1.3 MB`, in powers of 1000 */
export function bytes(n: number): string {
  const power = n < 1000 ? 0 : n < 1_000_000 ? 1 : n < 1_000_000_000 ? 2 : 3
  const value = n / 1000 ** power
  return `${value.toFixed(power === 0 || value >= 100 ? 0 : 1)} ${UNITS[power]}`
}

export function milliseconds(ms: number): string {
  if (ms > 0 && ms < 0.1) return `${Math.ceil(1000 * ms)} µs`
  return ms < 1000 ? `${ms.toFixed(ms < 10 ? 1 : 0)} ms` : `${(ms / 1000).toFixed(1)} s`
}

/** `1,234,567`, of a whole number. The platform's own formatting takes 20 ms the first time. */
export const grouped = (n: number) => String(n).replace(/\B(?=(\d{3})+$)/g, ',')

/** `1 vector`, `2 vectors` */
export function count(n: number, noun: string): string {
  return `${grouped(n)} ${noun}${n === 1 ? '' : 's'}`
}

export const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))

/** An element with attributes and children; strings become text. */
export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Record<string, string>,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  made.append(...children)
  return made
}

/** A framed part of the page that says what came of a call. */
export function card(
  kind: string,
  title: string,
  body: readonly (Node | string)[],
  more: readonly Node[] = [],
): HTMLElement {
  return element(
    'section',
    { class: 'card answer', 'data-kind': kind, tabindex: '-1' },
    element('h2', {}, title),
    element('p', {}, ...body),
    ...more,
  )
}

/** Figures with their names. */
export function facts(rows: readonly (readonly [string, string])[]): HTMLElement {
  return element(
    'dl',
    { class: 'facts' },
    ...rows.map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, value))),
  )
}

export function button(text: string, act: () => void): HTMLButtonElement {
  const made = element('button', { type: 'button' }, text)
  made.addEventListener('click', act)
  return made
}

/** The only element below `parent` that matches. */
export function find<E extends Element>(parent: ParentNode, selector: string, type: new () => E): E {
  const found = parent.querySelector(selector)
  if (!(found instanceof type)) throw new Error(`the page lacks ${selector}`)
  return found
}
