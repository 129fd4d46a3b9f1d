// Checks that whatever documents and comments refer to exists: files and headings behind links, files named in prose, and sections
// named after a file (`docs/protocol.md, Updates`). Lists what does not exist, and fails.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { anchorOf } from './anchors.mjs'
import { ask, Failure, root } from './steps.mjs'

const textFile = /\.(md|rs|ts|mts|mjs|toml|html|css)$/

/** Throws a Failure that lists every dangling reference. */
export function checkDocs() {
  const files = ask('git', ['ls-files']).trim().split('\n')
  const faults = files.filter(file => textFile.test(file) && existsSync(join(root, file))).flatMap(faultsOf)
  if (faults.length > 0) throw new Failure(`These refer to what is not in the repository:\n${faults.join('\n')}`)
}

function faultsOf(file) {
  const text = readFileSync(join(root, file), 'utf8')
  const found = []
  const blame = (at, what) => found.push(`${file}:${text.slice(0, at).split('\n').length}: ${what}`)
  if (file.endsWith('.md')) {
    for (const { index, 1: target } of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      const [path, anchor] = target.split('#')
      const full = path === '' ? join(root, file) : join(root, dirname(file), path)
      if (!existsSync(full)) blame(index, `link to ${target}`)
      else if (anchor !== undefined && statSync(full).isFile() && !anchorsOf(full).has(anchor))
        blame(index, `link to ${target}: no such heading`)
    }
  }
  // A comment may continue in the next line.
  const prose = text.replace(/\n[ \t]*(\/\/[/!]?|\*|#)?[ \t]*/g, lines => ' '.padEnd(lines.length))
  for (const { index, 0: path } of prose.matchAll(
    /(?<![\w/.-])(docs|tests|tools|server|demo|packages|rust-core)\/[\w./-]*\.(md|ts|rs|mjs)\b/g,
  )) {
    if (!isThere(path, file)) blame(index, path)
  }
  for (const { index, 1: path, 2: quoted, 3: plain } of prose.matchAll(
    /\b(docs\/[\w/-]+\.md), +(?:"([A-Z][^"]*)"|([A-Z]\w*(?: \w+)*))/g,
  )) {
    // More of the sentence may follow the section's name.
    const name = (quoted ?? plain).replace(/\s+/g, ' ').replace(/,$/, '')
    if (existsSync(join(root, path)) && !isSection(name, sectionsOf(path), quoted !== undefined)) {
      blame(index, `${path} has no section ${name}`)
    }
  }
  for (const [what, sign] of Object.entries(foreign)) {
    for (const { index, 0: words } of prose.matchAll(sign)) blame(index, `${words}: ${what}`)
  }
  return file === relative(root, import.meta.filename) ? [] : found
}

/** What readers of the repository do not have. */
const foreign = {
  'a page outside the repository': /\bdesign\/\w+|\b(?:the )?architecture,? (?:point|[SP]\d)|⚑|\bpitfalls? \d/gi,
  'name the paper, its authors and where in it': /\bpapers\/\d\d\d\b/g,
}

/** Whether a path exists, from the root or from a folder around `file`. */
function isThere(path, file) {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    // Short for a test of the server: `server/publish.test.ts`.
    if (existsSync(join(root, path.replace(/^server\/(?=[\w-]+(\.all)?\.test\.ts$)/, 'server/test/')))) return true
    if (existsSync(join(root, folder, path)) || existsSync(join(root, folder, path.replace(/\.js$/, '.ts'))))
      return true
    if (folder === '.') return false
  }
}

const isSection = (name, sections, whole) =>
  whole ? sections.has(name) : [...sections].some(section => name === section || name.startsWith(`${section} `))

/** A document's headings, and bold words at the start of paragraphs. */
function sectionsOf(path) {
  const text = readFileSync(join(root, path), 'utf8')
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, name]) => name.replaceAll('`', ''))
  const bold = [...text.matchAll(/^(?:[-\d|].*?)?\*\*([^*]+?)[.:]?\*\*/gm)].map(([, name]) => name)
  // "Suite 1: Merkle over BLAKE3" may be referred to as "Suite 1".
  return new Set([...headings, ...headings.map(name => name.split(/: | \(/)[0]), ...bold])
}

function anchorsOf(path) {
  const headings = [...readFileSync(path, 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, name]) => name)
  return new Set(headings.map(anchorOf))
}

if (process.argv[1] === import.meta.filename) {
  try {
    checkDocs()
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}
