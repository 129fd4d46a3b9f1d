// What proves an answer, to choose from, and what a lookup came to with each.

import type { Proofs } from './databases.js'
import { bytes, find } from './format.js'
import type { Lookup } from './lookup.js'

/** `card` has a radio button and a row for each kind. */
export function connectProofs(card: HTMLElement, lookup: Lookup): void {
  const form = find(card, 'form', HTMLFormElement)
  const radios = form.elements.namedItem('proofs') as RadioNodeList
  radios.value = 'merkle' // not what was chosen before the page was loaded again
  form.addEventListener('change', () => void lookup.proveBy(radios.value as Proofs))
  lookup.onCosts = (proofs, received, held) => {
    const cells = card.querySelectorAll<HTMLElement>(`[data-proofs=${proofs}] td`)
    for (const [i, text] of [bytes(received), bytes(held)].entries()) cells[i]!.textContent = text
  }
}
