// The choice of proofs, and a table of what a lookup costs with each.

import type { Proofs } from './databases.js'
import { bytes, find } from './format.js'
import type { Lookup } from './lookup.js'

/** `card` has a radio button and a row for each kind of proofs. */
export function connectProofs(card: HTMLElement, lookup: Lookup): void {
  const form = find(card, 'form', HTMLFormElement)
  const radios = form.elements.namedItem('proofs') as RadioNodeList
  radios.value = 'merkle' // browsers restore the choice of before a reload
  form.addEventListener('change', () => void lookup.proveBy(radios.value as Proofs))
  lookup.onCosts = (proofs, received, held) => {
    const cells = card.querySelectorAll<HTMLElement>(`[data-proofs=${proofs}] td`)
    for (const [i, text] of [bytes(received), bytes(held)].entries()) cells[i]!.textContent = text
  }
}
