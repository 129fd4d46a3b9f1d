// VitePress's configuration. KEYHUSH_SITE is what build.mjs gathered: `pages` is the folder of the gathered pages, which have the same
// paths there as in the repository.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, posix, relative } from 'node:path'
import { anchorOf } from '../../anchors.mjs'
import { classesForNarrowScreens, destinationOf, routesOf, siteLinks, titleOf } from '../pages.mjs'
import { sidebarsOf } from '../sidebar.mjs'

const { pages: folder, from, to, base, downloads, repository } = JSON.parse(process.env.KEYHUSH_SITE)

const theme = join(import.meta.dirname, 'theme')
const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter(path => path.endsWith('.md'))
  .sort()
const read = path => readFileSync(join(folder, path), 'utf8')
const routes = routesOf(paths)
const site = { routes, downloads: new Set(downloads), exists: path => existsSync(join(from, path)), repository }
const pages = paths.map(path => ({ path, route: routes.get(path), title: titleOf(read(path), path) }))

/** Pages in the order in which READMEs link them, the repository's own last. */
const mentions = paths
  .filter(path => /(^|\/)README\.md$/.test(path))
  .sort((a, b) => b.length - a.length)
  .flatMap(path =>
    [...read(path).matchAll(/\]\(([^)\s]+)\)/g)].map(([, href]) => destinationOf(href, path, site)?.href),
  )
  .map(href => pages.find(({ route }) => `/${route}` === href?.replace(/[?#].*$/, ''))?.path)
  .filter(path => path !== undefined)

const sidebar = sidebarsOf(pages, mentions)
/** A pattern for the paths of these items, which VitePress compares without `.html`, and of what is below them. */
function activeOn(items) {
  const links = items.flatMap(item => [item, ...(item.items ?? [])]).map(({ link }) => link)
  return `^(${links.map(link => (link === '/reference/' ? link : `${link.replace(/\.html$/, '')}$`)).join('|')})`
}
const nav = [
  ...sidebar['/'].map(({ text, items }) => ({ text, link: items[0].link, activeMatch: activeOn(items) })),
  ...(repository === undefined ? [] : [{ text: 'Source', link: repository }]),
]

/** Nothing comes from another host. VitePress has inline scripts and styles. */
const policy = [
  "default-src 'none'",
  "script-src 'self' 'unsafe-inline'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
]

export default {
  title: 'Keyhush',
  description: 'Private lookups: two servers answer, and neither learns the key.',
  lang: 'en',
  base,
  srcDir: folder,
  outDir: to,
  cacheDir: join(folder, '.vite'),
  rewrites: Object.fromEntries(routes),
  metaChunk: true,
  transformPageData({ relativePath, frontmatter }) {
    if (relativePath.startsWith('reference/')) frontmatter.pageClass = 'reference'
  },
  head: [
    ['meta', { 'http-equiv': 'Content-Security-Policy', content: policy.join('; ') }],
    ['link', { rel: 'icon', href: 'data:,' }],
  ],
  markdown: {
    anchor: { slugify: anchorOf },
    languageAlias: { caddyfile: 'nginx' },
    config(md) {
      const pageOf = ({ realPath, path }) => relative(folder, realPath ?? path).replaceAll('\\', posix.sep)
      siteLinks(md, { pageOf, site, base })
      classesForNarrowScreens(md)
      // Vue would take {{ for the beginning of an expression.
      const text = md.renderer.rules.text
      md.renderer.rules.text = (...args) => text(...args).replaceAll('{{', '&#123;&#123;')
    },
  },
  themeConfig: {
    nav,
    sidebar,
    outline: [2, 3],
    search: { provider: 'local' },
  },
  vite: {
    logLevel: 'warn',
    build: { chunkSizeWarningLimit: 10_000 }, // kB: the index of the search
    resolve: {
      alias: [{ find: /^.*\/VPSocialLinks\.vue$/, replacement: join(theme, 'nothing.mjs') }],
    },
  },
}
