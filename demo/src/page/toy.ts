// The scheme in small: two servers have the same sixteen letters, and the page asks for one. It shows what is sent.

import { element, find } from './format.js'

const LETTERS = 'OTERHNWLDUCKSAIB'

/** The two requests, a bit a letter: a random one, and the same with the bit of `index` flipped. */
function draw(index: number): readonly [a: number, b: number] {
  const [a] = crypto.getRandomValues(new Uint16Array(1)) as unknown as [number]
  return [a, a ^ (1 << index)]
}

const isAsked = (of: number, index: number) => ((of >> index) & 1) === 1

/** XOR of the requested letters. */
function sum(of: number): number {
  return [...LETTERS].reduce((sum, letter, i) => (isAsked(of, i) ? sum ^ letter.charCodeAt(0) : sum), 0)
}

const bits = (n: number) => n.toString(2).padStart(7, '0')

export function connectToy(card: HTMLElement): void {
  const letters = find(card, '.letters', HTMLElement)
  let index = 0
  const rows = (['a', 'b'] as const).map(server => find(card, `.toy-row.${server}`, HTMLElement))

  const show = () => {
    const asked = draw(index)
    for (const [i, row] of rows.entries()) {
      const marks = [...LETTERS].map((letter, j) =>
        element('span', { class: isAsked(asked[i]!, j) ? 'asked-for' : 'left-out' }, letter),
      )
      const told = [...LETTERS].filter((_, j) => isAsked(asked[i]!, j)).join(', ') || 'nothing'
      const picture = element('span', { class: 'marks', role: 'img', 'aria-label': `adds up ${told}` }, ...marks)
      find(row, '.told', HTMLElement).replaceChildren(picture)
      find(row, 'code', HTMLElement).textContent = bits(sum(asked[i]!))
    }
    const both = sum(asked[0]) ^ sum(asked[1])
    const answer = element('strong', { id: 'toy-answer' }, String.fromCharCode(both))
    find(card, '.toy-row.both', HTMLElement).replaceChildren(
      element('span', {}, 'Both sums together: ', element('code', {}, bits(both)), ' = '),
      answer,
    )
  }

  letters.append(
    ...[...LETTERS].map((letter, i) => {
      const radio = element('input', { type: 'radio', name: 'letter', value: String(i) })
      radio.checked = i === index
      radio.addEventListener('change', () => {
        index = i
        show()
      })
      return element('label', {}, radio, element('span', {}, letter))
    }),
  )
  find(card, '#toy-again', HTMLButtonElement).addEventListener('click', show)
  show()
}
