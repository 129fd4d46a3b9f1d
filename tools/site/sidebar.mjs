// The side bar, made from the folders: a page's title is its first heading.
import { posix } from 'node:path'

/** A page belongs to the first group that matches its path. */
export const groups = [
  { text: 'Guide', paths: /^(README\.md$|docs\/guide\/)/ },
  { text: 'Apps', paths: /^(packages\/client\/README\.md$|docs\/common-errors[./]|reference\/index\.md$)/ },
  { text: 'Servers', paths: /^(docs\/operations[./]|server\/README\.md$)/ },
  { text: 'Protocol and security', paths: /^docs\/(protocol|threat-model|SECURITY)[./]/ },
  { text: 'Figures', paths: /^docs\/(costs|benchmarks|papers)[./]/ },
  { text: 'Project', paths: /./ },
]

/**
 * VitePress's side bars, by path: one for the documents, and one for each module of the reference.
 * - `pages`: `{ path, route, title }`
 * - `mentions`: paths in the order in which READMEs link them; the last mention of each counts
 *
 * @typedef {{ text: string, link?: string, items?: Item[] }} Item
 * @returns {Record<string, Item[]>}
 */
export function sidebarsOf(pages, mentions) {
  const documents = pages.filter(page => !page.path.startsWith('reference/') || isTop(page))
  const place = new Map(mentions.map((path, index) => [path, index]))
  place.set('README.md', -1)
  const sorted = documents.toSorted(
    (a, b) => (place.get(a.path) ?? Number.POSITIVE_INFINITY) - (place.get(b.path) ?? Number.POSITIVE_INFINITY) || 0,
  )
  return { '/': grouped(sorted), ...referenceSidebars(pages.filter(({ path }) => path.startsWith('reference/'))) }
}

const linkTo = ({ route }) => `/${route.replace(/(^|\/)index\.md$/, '$1').replace(/\.md$/, '.html')}`
const itemOf = page => ({ text: page.title, link: linkTo(page) })

function grouped(pages) {
  const items = groups.map(({ text }) => ({ text, items: [] }))
  // The other pages of a folder in docs/ are below its README.
  const heads = new Map()
  for (const page of pages.filter(({ path }) => /^docs\/.*\/README\.md$/.test(path))) {
    heads.set(posix.dirname(page.path), { ...itemOf(page), items: [], collapsed: true })
  }
  for (const page of pages) {
    const head = heads.get(posix.dirname(page.path))
    if (head !== undefined && !page.path.endsWith('/README.md')) head.items.push(itemOf(page))
    else items[groups.findIndex(({ paths }) => paths.test(page.path))].items.push(head ?? itemOf(page))
  }
  return items.filter(({ items }) => items.length > 0)
}

/** `/reference/client/`: all modules, and the pages of this one by kind. */
function referenceSidebars(pages) {
  const isIndex = ({ path }) => path.endsWith('/index.md')
  const modules = pages.filter(isIndex).toSorted(byTitle)
  const list = [...modules.filter(isTop), ...modules.filter(module => !isTop(module))].map(itemOf)
  const entries = modules.map(module => {
    const folder = posix.dirname(module.path)
    const kinds = new Map()
    for (const page of pages.toSorted(byTitle)) {
      const kind = posix.dirname(page.path)
      if (posix.dirname(kind) !== folder || page.path.endsWith('/index.md')) continue
      if (!kinds.has(kind)) kinds.set(kind, [])
      kinds.get(kind).push(itemOf(page))
    }
    const own = [...kinds]
      .toSorted()
      .map(([kind, items]) => ({ text: kindOf(kind), items, collapsed: items.length > 20 }))
    return [`/${folder}/`, [{ text: 'Modules', items: list }, ...own]]
  })
  return Object.fromEntries(entries)
}

const isTop = ({ path }) => path === 'reference/index.md'
const byTitle = (a, b) => (a.title < b.title ? -1 : 1)

/** `type-aliases`: Type aliases */
function kindOf(folder) {
  const name = posix.basename(folder).replaceAll('-', ' ')
  return name[0].toUpperCase() + name.slice(1)
}
