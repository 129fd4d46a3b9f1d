// Counts words and long sentences of the documents against the limits below. `npm run lint` runs it.
// `node tools/words.mjs` prints the counts; `node tools/words.mjs FILE…` lists the long sentences of these files.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ask, Failure, root } from './steps.mjs'

/** A sentence with more words is long. */
export const LONG = 30

/**
 * Each document belongs to the first row that matches its path.
 * - `long`: at most this share of their sentences is long
 * - `words`: at most so many in each; only of pages that are read from top to bottom
 */
export const limits = [
  { what: 'README', paths: /^README\.md$/, long: 0, words: 900 },
  { what: 'guide', paths: /^docs\/guide\//, long: 0, words: 800 },
  { what: 'protocol', paths: /^docs\/protocol[./]/, long: 0.03 },
  { what: 'threat model', paths: /^docs\/threat-model[./]/, long: 0.03 },
  { what: 'review of one server', paths: /^docs\/review-one-server\.md$/, long: 0 },
  { what: 'operations', paths: /^docs\/operations[./]/, long: 0.03 },
  { what: 'common errors', paths: /^docs\/common-errors[./]/, long: 0.03 },
  { what: 'client README', paths: /^packages\/client\/README\.md$/, long: 0.03 },
  { what: 'benchmarks', paths: /^docs\/benchmarks\.md$/, long: 0 },
  { what: 'costs', paths: /^docs\/costs\.md$/, long: 0 },
  { what: 'papers', paths: /^docs\/papers\.md$/, long: 0 },
  { what: 'React Native', paths: /^packages\/react-native\//, long: 0 },
  { what: 'examples', paths: /^demo\/examples\//, long: 0 },
  { what: 'other documents', paths: /./, long: 0.04 },
]

const wordsIn = text => text.split(/[\s|]+/).filter(part => /[\p{L}\p{N}]/u.test(part)).length

/** Blanks out code fences and comments, and leaves the lines where they are. */
const withoutCode = markdown =>
  markdown
    .replace(/^([ \t]*)(```+|~~~+)[\s\S]*?^[ \t]*\2[ \t]*$/gm, blank)
    .replace(/<!--[\s\S]*?-->/g, blank)
    .replace(/\r/g, '')

function blank(text) {
  return text.replace(/[^\n]/g, '')
}

/** Words of a document, without code blocks, targets of links, and comments. A word has a letter or a digit. */
export function countWords(markdown) {
  return wordsIn(withoutCode(markdown).replace(/\]\([^)]*\)/g, ']'))
}

/** The sentences of the prose: no headings, tables, code blocks, images. Inline code is one word. */
export function sentencesOf(markdown) {
  return blocksOf(withoutCode(markdown)).flatMap(({ line, text }) => {
    const plain = text
      .replace(/(`+)[^`]([\s\S]*?[^`])?\1/g, code => `‹code${code.replace(/[^\n]/g, '')}›`)
      .replace(/!\[[^\]]*\]\([^)]*\)/g, blank)
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .replace(/[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}/g, '')
    let at = 0
    return plain.split(/((?<=[.!?][)"”’]?)\s+(?=["“‘(]?[\p{Lu}‹]))/u).flatMap(part => {
      const starts = at
      at += part.length
      const words = wordsIn(part)
      return words === 0
        ? []
        : [
            {
              line: line + plain.slice(0, starts).split('\n').length - 1,
              words,
              text: part.replace(/\s+/g, ' ').trim(),
            },
          ]
    })
  })
}

/** Paragraphs and list items, each with the line that it begins in. */
function blocksOf(text) {
  const blocks = []
  let open
  for (const [index, raw] of text.split('\n').entries()) {
    const line = raw.replace(/^[ \t]*(>[ \t]?)+/, '')
    const item = /^[ \t]*(?:[-*+]|\d+[.)])[ \t]+(.*)$/.exec(line)
    if (line.trim() === '' || /^[ \t]*(#|\||(?:[-*_][ \t]*){3,}$)/.test(line)) open = undefined
    else if (item !== null || open === undefined) {
      open = { line: index + 1, text: item?.[1] ?? line }
      blocks.push(open)
    } else open.text += `\n${line}`
  }
  return blocks
}

/** What a document has, by its text. */
export function measure(markdown) {
  const sentences = sentencesOf(markdown)
  return {
    words: countWords(markdown),
    sentences: sentences.length,
    long: sentences.filter(({ words }) => words > LONG),
  }
}

/** What is over its limit, in words. `documents`: texts by path. */
export function overLimits(documents, rows = limits) {
  const groups = rows.map(row => ({ ...row, members: [] }))
  for (const [path, text] of Object.entries(documents)) {
    groups.find(({ paths }) => paths.test(path))?.members.push({ path, ...measure(text) })
  }
  return groups.flatMap(({ what, words: most = Number.POSITIVE_INFINITY, long: share, members }) => {
    const faults = members
      .filter(({ words }) => words > most)
      .map(({ path, words }) => `${path}: ${words} words, at most ${most}`)
    const sentences = members.reduce((total, member) => total + member.sentences, 0)
    const found = members.flatMap(({ path, long }) => long.map(sentence => ({ path, ...sentence })))
    if (found.length <= share * sentences) return faults
    const may = Math.floor(share * sentences)
    return [
      ...faults,
      `${what}: ${found.length} of ${sentences} sentences have more than ${LONG} words; at most ${may} may:`,
      ...found.map(({ path, line, words, text }) => `  ${path}:${line}: ${words} words: ${text}`),
    ]
  })
}

/** The repository's documents: texts by path. */
function documents() {
  const paths = ask('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*.md']).trim().split('\n')
  const there = paths.filter(path => existsSync(join(root, path)) && !/(^|\/)fixtures?\//.test(path))
  return Object.fromEntries(there.map(path => [path, readFileSync(join(root, path), 'utf8')]))
}

/** Throws a Failure that lists what is over its limit. */
export function checkWords() {
  const faults = overLimits(documents())
  if (faults.length > 0) throw new Failure(`Too many words, or sentences that are too long:\n${faults.join('\n')}`)
}

function print(paths) {
  if (paths.length > 0) {
    for (const path of paths) {
      for (const { line, words, text } of measure(readFileSync(path, 'utf8')).long) {
        console.log(`${path}:${line}: ${words} words: ${text}`)
      }
    }
    return
  }
  const rows = Object.entries(documents()).map(([path, text]) => ({ path, ...measure(text) }))
  const total = { words: 0, sentences: 0, long: [] }
  for (const { words, sentences, long } of rows) {
    total.words += words
    total.sentences += sentences
    total.long.push(...long)
  }
  console.log(' words  sentences  long')
  for (const { path, words, sentences, long } of [...rows, { path: 'all', ...total }]) {
    const share = sentences === 0 ? 0 : (100 * long.length) / sentences
    console.log(
      `${String(words).padStart(6)}${String(sentences).padStart(11)}${String(long.length).padStart(6)} ${share.toFixed(1).padStart(5)} %  ${path}`,
    )
  }
}

if (process.argv[1] === import.meta.filename) print(process.argv.slice(2))
