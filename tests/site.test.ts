// The site of the documents (tools/site): where links lead, what is in the side bar, and the check of what was built.
// site.all.test.ts builds the whole site.

import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { faultsOf } from '../tools/site/check.mjs'
import { destinationOf, repositoryUrl, routesOf, titleOf } from '../tools/site/pages.mjs'
import { sidebarsOf } from '../tools/site/sidebar.mjs'
import { temporaryFolder } from './support/servers.js'

const PAGES = ['README.md', 'docs/costs.md', 'docs/operations/README.md', 'docs/operations/keys.md', 'server/README.md']

test('docs/ is the root of the site, and README.md the index of its folder', () => {
  const routes = ['index', 'costs', 'operations/index', 'operations/keys', 'server/index']
  expect([...routesOf(PAGES).values()]).toEqual(routes.map(route => `${route}.md`))
  expect(() => routesOf(['docs/operations/README.md', 'operations/README.md'])).toThrow('same place')
})

const SITE = {
  routes: routesOf(PAGES),
  downloads: new Set(['docs/samples/nginx.conf']),
  exists: (path: string) => path === 'rust-core/core/src/lib.rs' || path === 'tests',
  repository: 'https://forge.example/some/repository',
}
const BLOB = `${SITE.repository}/blob/main`

test.each([
  ['docs/costs.md#what', 'README.md', { href: '/costs.md#what' }],
  ['docs/operations/', 'README.md', { href: '/operations/index.md' }],
  ['../README.md', 'docs/costs.md', { href: '/index.md' }],
  ['../../server/README.md', 'docs/operations/keys.md', { href: '/server/index.md' }],
  ['samples/nginx.conf', 'docs/costs.md', { download: '/samples/nginx.conf' }],
  ['../rust-core/core/src/lib.rs', 'docs/costs.md', { source: 'rust-core/core/src/lib.rs' }],
  ['../tests/', 'docs/costs.md', { source: 'tests' }],
  ['missing.md#a', 'docs/costs.md', { href: '/docs/missing.md#a' }],
  // As a package's README has them, which npm shows, too.
  [`${BLOB}/docs/costs.md#what`, 'server/README.md', { href: '/costs.md#what' }],
  [`${BLOB}/docs/operations/README.md`, 'server/README.md', { href: '/operations/index.md' }],
  [`${BLOB}/README.md`, 'server/README.md', { href: '/index.md' }],
  [`${BLOB}/docs/samples/nginx.conf`, 'docs/costs.md', { download: '/samples/nginx.conf' }],
  [`${SITE.repository}/tree/main/tests`, 'docs/costs.md', { source: 'tests' }],
  [`${BLOB}/docs/missing.md`, 'docs/costs.md', { href: '/docs/missing.md' }],
  [`${SITE.repository}/issues`, 'docs/costs.md', undefined],
  ['https://forge.example/other/repository/blob/main/docs/costs.md', 'docs/costs.md', undefined],
  ['#anchor', 'docs/costs.md', undefined],
  ['https://elsewhere.example/costs.md', 'docs/costs.md', undefined],
  ['mailto:somebody@elsewhere.example', 'docs/costs.md', undefined],
])('%s in %s leads to %j', (href, page, destination) => {
  expect(destinationOf(href, page, SITE)).toEqual(destination)
})

test.each([
  [{ repository: 'github:some/repository' }, 'https://github.com/some/repository'],
  [{ repository: { url: 'git+https://forge.example/some/repository.git' } }, 'https://forge.example/some/repository'],
  [{}, undefined],
])('%j: files are at %s', (packageJson, url) => {
  expect(repositoryUrl(packageJson)).toBe(url)
})

test('a title is the first heading without marks', () => {
  expect(titleOf('<!-- -->\n\n# `keyhush` and [more](a.md)\n\n# Second', '')).toBe('keyhush and more')
  expect(titleOf('## Not this', 'file.md')).toBe('file.md')
})

test('the side bar is made from the folders, in the order in which READMEs link the pages', () => {
  const paths = [
    ...[
      'README.md',
      'docs/guide/modes.md',
      'docs/guide/trust.md',
      'docs/operations/README.md',
      'docs/operations/keys.md',
    ],
    ...['docs/operations/limits.md', 'docs/CHANGELOG.md', 'reference/index.md', 'reference/client/index.md'],
    ...['reference/client/functions/open.md', 'reference/client/instant/index.md'],
  ]
  const routes = routesOf(paths)
  const pages = paths.map(path => ({ path, route: routes.get(path)!, title: path }))
  const sidebars = sidebarsOf(pages, ['docs/operations/limits.md', 'docs/operations/keys.md', 'docs/guide/trust.md'])
  const links = (items: (typeof sidebars)[string]): unknown =>
    items.map(({ link, items = [] }) => (items.length > 0 ? [link, links([...items])] : link))
  expect(links(sidebars['/']!)).toEqual([
    [undefined, ['/', '/guide/trust.html', '/guide/modes.html']],
    [undefined, ['/reference/']],
    [undefined, [['/operations/', ['/operations/limits.html', '/operations/keys.html']]]],
    [undefined, ['/CHANGELOG.html']],
  ])
  expect(links(sidebars['/reference/client/']!)).toEqual([
    [undefined, ['/reference/', '/reference/client/', '/reference/client/instant/']],
    [undefined, ['/reference/client/functions/open.html']],
  ])
})

async function folderOf(files: Record<string, string>): Promise<string> {
  const folder = await temporaryFolder()
  onTestFinished(() => folder.remove())
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder.path, path)), { recursive: true })
    await writeFile(join(folder.path, path), text)
  }
  return folder.path
}

const bar = (...links: string[]) =>
  `<aside class="VPSidebar">${links.map(link => `<a class="x" href="${link}">x</a>`).join('')}</aside>`
const GOOD = {
  'index.html': `${bar('/', '/folder/')}<h2 id="a&amp;b">x</h2><a href="folder/">x</a><a href="#a&amp;b">x</a>`,
  'folder/index.html': `${bar('/folder/index.html')}<a href="../#a%26b">x</a><a href="https://elsewhere.example/">x</a>`,
  'main.js': 'const text = "https://elsewhere.example/"; import("./other.js")',
  'main.css': 'a { background: url(data:,) }',
}

test('a site without faults has none', async () => {
  expect(faultsOf(await folderOf(GOOD))).toEqual({ pages: 2, faults: [] })
})

test('links are below the base of the site', async () => {
  const folder = await folderOf({ 'index.html': `${bar('/base/')}<a href="/base/index.html">x</a><a href="/">x</a>` })
  expect(faultsOf(folder, '/base/').faults).toEqual(['index.html: link to /: no such page'])
})

const page = (body: string) => ({ 'page.html': `${bar('/page.html')}${body}` })

test.each([
  ['a dead link', page('<a href="missing.html">x</a>'), 'page.html: link to missing.html: no such page'],
  ['a dead anchor', page('<a href="/#missing">x</a>'), 'page.html: link to /#missing: no such heading'],
  ['a page missing in the side bar', { 'page.html': bar('/') }, 'page.html is not in its side bar'],
  ['an image', page('<img alt="" src="https://a.example/x.png">'), 'page.html loads https://a.example/x.png'],
  ['a script', page('<script async src=//a.example/x.js></script>'), 'page.html loads //a.example/x.js'],
  ['a style sheet', page('<link rel="stylesheet" href="http://a.example/x">'), 'page.html loads http://a.example/x'],
  ['a source set', page('<img srcset="a.png 1x, https://a.example/x 2x">'), 'page.html loads https://a.example/x'],
  ['a font', { 'x.css': '@font-face { src: url("https://a.example/x") }' }, 'x.css loads https://a.example/x'],
  ['an imported style', { 'x.css': '@import "//a.example/x";' }, 'x.css loads //a.example/x'],
  ['a request', { 'x.js': 'fetch(`https://a.example/x`)' }, 'x.js loads https://a.example/x'],
  ['a module', { 'x.js': 'import{x}from"https://a.example/x"' }, 'x.js loads https://a.example/x'],
])('%s is a fault', async (_, files, fault) => {
  expect(faultsOf(await folderOf({ ...GOOD, ...files })).faults).toEqual([fault])
})
