// Writes tables into docs/benchmarks.md, each below its heading. What stands around them is written by hand.

import { readFile, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { type Section, tablesOf } from './report.js'

/** Readers do not know the design's figures. */
const withoutDesign = (section: Section): Section => ({
  ...section,
  figures: section.figures.map(figure => (figure.target?.[0] === 'design' ? { ...figure, target: undefined } : figure)),
})

/** Lines of cells, and empty lines between them. */
const TABLES = /(?:^\|.*\n+)+/m

/** Sections for which the document has no heading are printed only. */
export async function writeTables(sections: readonly Section[]): Promise<void> {
  const file = new URL('../../docs/benchmarks.md', import.meta.url)
  const parts = (await readFile(file, 'utf8')).split(/^(?=##)/m)
  for (const section of sections) {
    const at = parts.findIndex(part => nameOf(part.replace(/^#+ /, '')) === nameOf(section.title))
    if (at >= 0) parts[at] = withTables(parts[0]!, parts[at]!, section)
  }
  await writeFile(file, `${parts.join('').trimEnd()}\n`)
}

/** A title without the unit that may stand in brackets at its end. */
function nameOf(title: string): string {
  return title.split('\n', 1)[0]!.replace(/ \([^ ]+\)$/, '')
}

/** The head of the document names the machine that most of it was measured on; another stands below its heading. */
function withTables(head: string, part: string, section: Section): string {
  const machine = `${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB`
  const measured = head.includes(machine) ? '' : `\nMeasured on ${machine}.\n`
  const [level] = part.split(' ', 1)
  const text = part.replace(/^.*\n/, '').replace(/\nMeasured on .*\n/, '')
  return `${level} ${section.title}\n${measured}${text.replace(TABLES, () => `${tablesOf(withoutDesign(section))}\n\n`)}`
}
