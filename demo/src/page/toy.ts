// The scheme in small: two servers have the same sixteen letters, and the page asks for one. It shows what is sent.

import { element, find, grouped } from './format.js'

const LETTERS = 'OTERHNWLDUCKSAIB'
const MANY_DRAWS = 1000

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
  const said = find(card, '#toy-said', HTMLElement)
  let index = 0
  const rows = (['a', 'b'] as const).map(server => find(card, `.toy-row.${server}`, HTMLElement))

  const show = () => {
    const asked = draw(index)
    for (const [i, row] of rows.entries()) {
      const marks = [...LETTERS].map((letter, j) =>
        element('span', { class: isAsked(asked[i]!, j) ? 'asked-for' : 'left-out' }, letter),
      )
      const told = [...LETTERS].filter((_, j) => isAsked(asked[i]!, j)).join(', ') || 'nothing'
      const picture = element(
        'span',
        { class: 'marks', role: 'img', 'aria-label': `is told to add up ${told}` },
        ...marks,
      )
      find(row, '.told', HTMLElement).replaceChildren(picture)
      find(row, 'code', HTMLElement).textContent = bits(sum(asked[i]!))
    }
    const both = sum(asked[0]) ^ sum(asked[1])
    find(card, '.toy-row.both code', HTMLElement).textContent = bits(both)
    find(card, '#toy-answer', HTMLElement).textContent = String.fromCharCode(both)
    said.textContent = ''
  }

  const choose = (chosen: number) => {
    index = chosen
    show()
  }
  letters.append(
    ...[...LETTERS].map((letter, i) => {
      const radio = element('input', { type: 'radio', name: 'letter', value: String(i) })
      radio.checked = i === index
      radio.addEventListener('change', () => choose(i))
      return element('label', {}, radio, element('span', {}, letter))
    }),
  )
  find(card, '#toy-draw', HTMLButtonElement).addEventListener('click', show)
  find(card, '#toy-many', HTMLButtonElement).addEventListener('click', () => {
    const draws = Array.from({ length: MANY_DRAWS }, () => draw(index))
    const times = (server: 0 | 1, record: number) => draws.filter(asked => isAsked(asked[server], record)).length
    const [a, b] = ([0, 1] as const).map(server => {
      const all = [...LETTERS].map((_, record) => times(server, record))
      const others = all.filter((_, record) => record !== index)
      return `your ${LETTERS[index]} ${all[index]} times, the others ${Math.min(...others)} to ${Math.max(...others)}`
    })
    said.textContent = `Of ${grouped(MANY_DRAWS)} draws, server A was told to add up ${a}; server B ${b}. By that, none stands out.`
  })
  show()
}
