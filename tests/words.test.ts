// tools/words.mjs counts what a reader reads, and names what is over its limit.

import { expect, test } from 'vitest'
import { countWords, LONG, limits, overLimits, sentencesOf } from '../tools/words.mjs'

/** A sentence of so many words. */
const sentence = (words: number) => `${['The', ...Array.from({ length: words - 1 }, () => 'word')].join(' ')}.`

test.each([
  ['One two, three.', 3],
  ['# A heading\n\nand 2 words', 5],
  ['| a | b |\n| --- | --- |\n| 1 | – |', 3],
  ['before\n\n```js\nlet not = counted\n```\n\nafter', 2],
  ['- item\n\n  ~~~\n  not counted\n  ~~~\n- item', 2],
  ['[two words](not/counted.md#at-all)', 2],
  ['one <!-- not\ncounted --> two', 2],
  ['`code` counts', 2],
])('%j has %d words', (markdown, words) => {
  expect(countWords(markdown)).toBe(words)
})

test.each([
  ['One. Two! Three? And four', ['One.', 'Two!', 'Three?', 'And four']],
  ['Version 0.1 of a.b stays one. "Quoted" is another.', ['Version 0.1 of a.b stays one.', '"Quoted" is another.']],
  ['A line\nand the next. An end', ['A line and the next.', 'An end']],
  ['# No heading\n\nText\n# No heading. None', ['Text']],
  [
    '| no. | Table |\n\nText:\n- first item\n- second.\n  Its rest\n1. third',
    ['Text:', 'first item', 'second.', 'Its rest', 'third'],
  ],
  ['```\nNo code. None\n```\n![No image. None](a.png)\n\nText', ['Text']],
  ['**Bold.** Then [a link. Two](b.md#c) more', ['Bold.', 'Then a link.', 'Two more']],
])('%j has the sentences %j', (markdown, sentences) => {
  expect(sentencesOf(markdown).map(({ text }) => text)).toEqual(sentences)
})

test('inline code is one word, and may begin a sentence', () => {
  const [first, second, ...more] = sentencesOf('It is `a b c. D`. `open()` opens it.')
  expect([first!.words, second!.words, more.length]).toEqual([3, 3, 0])
})

test('a sentence knows its line', () => {
  const lines = sentencesOf('# Title\n\nOne.\nTwo\n\n```\ncode\n```\n\n- Three').map(({ line }) => line)
  expect(lines).toEqual([3, 4, 10])
})

const rows = [
  { what: 'short', paths: /^short/, words: 2 * LONG, long: 0 },
  { what: 'pages', paths: /^pages\//, words: 40, long: 1 },
  { what: 'rest', paths: /./, long: 0.5 },
]

test('nothing is over its limit at the limit', () => {
  const documents = {
    'short.md': sentence(LONG),
    'pages/a.md': sentence(40),
    'pages/b.md': sentence(40),
    'rest.md': `${sentence(LONG + 1)} ${sentence(LONG)}`,
  }
  expect(overLimits(documents, rows)).toEqual([])
})

test.each([
  ['a long sentence', { 'short.md': `One.\n${sentence(LONG + 1)}` }, 'short.md:2: 31 words'],
  ['words of one page', { 'pages/a.md': sentence(41) }, 'pages/a.md: 41 words, at most 40'],
  ['a share of long sentences', { 'a.md': sentence(31), 'b.md': `One. ${sentence(31)}` }, 'rest: 2 of 3 sentences'],
])('%s over the limit is named', (_, documents, fault) => {
  const faults = overLimits(documents, rows)
  expect(faults.join('\n')).toContain(fault)
})

test('each document has a limit', () => {
  const of = (path: string) => limits.find(({ paths }) => paths.test(path))?.what
  expect(of('docs/operations/README.md')).toBe('operations')
  expect(of('docs/protocol.md')).toBe('protocol')
  expect(of('server/README.md')).toBe('other documents')
})
