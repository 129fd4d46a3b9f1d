// Builds the site of the documents: gathers the pages, makes the reference from the docstrings, runs VitePress, checks the result.
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { npm } from '../machine.mjs'
import { ask, cache, cachedStep, Failure, root, run, step } from '../steps.mjs'
import { faultsOf } from './check.mjs'
import { repositoryUrl } from './pages.mjs'

const packages = join(import.meta.dirname, 'node_modules')

/** Whether a path is a picture. VitePress takes these along with their pages. */
const isPicture = path => /\.(png|svg|jpe?g|webp|gif)$/.test(path)

/**
 * Returns how many pages the site has. Throws a Failure that lists dead links, dead anchors and what is loaded from elsewhere.
 * - `from`: the folder that links are relative to
 * - `files`: paths of Markdown files in it, and of what they show or offer
 * - `reference`: whether the site has one
 * - `base`: the site's path on its host
 */
export async function buildSite({ to, from = root, files = filesOf(from), reference = true, base = '/' }) {
  if (!/^\/(.*\/)?$/.test(base)) throw new Failure(`--base: expected a path that begins and ends with /, got ${base}`)
  await install()
  mkdirSync(cache, { recursive: true })
  const pages = mkdtempSync(join(cache, 'site-'))
  try {
    for (const file of files) copy(join(from, file), join(pages, file))
    const downloads = files.filter(file => file.startsWith('docs/') && !file.endsWith('.md') && !isPicture(file))
    for (const file of downloads) copy(join(from, file), join(pages, 'public', file.replace(/^docs\//, '')))
    if (reference) await step('Writing the reference', () => writeReference(join(pages, 'reference')))
    const repository = repositoryUrl(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')))
    const site = { pages, from, to, base, downloads, repository }
    await step('Building the site', () => runVitePress(site))
  } finally {
    rmSync(pages, { recursive: true, force: true })
  }
  const { pages: count, faults } = faultsOf(to, base)
  if (faults.length > 0) throw new Failure(`The site is not as it should be:\n${faults.join('\n')}`)
  return count
}

/** Installs VitePress and TypeDoc. Nothing else needs them, so they are no packages of the workspace. */
function install() {
  return cachedStep(
    'site',
    'Installing VitePress and TypeDoc',
    { inputs: ['tools/site/package-lock.json'], outputs: ['tools/site/node_modules/.package-lock.json'] },
    () => npm(['ci', '--no-audit', '--no-fund', '--prefix', 'tools/site']),
  )
}

/** Every Markdown file of the repository, and what is in docs/. */
function filesOf(folder) {
  const list = ask('git', ['-C', folder, 'ls-files', '--cached', '--others', '--exclude-standard']).trim().split('\n')
  const wanted = list.filter(file => file.endsWith('.md') || file.startsWith('docs/'))
  return wanted.filter(file => existsSync(join(folder, file)) && !/(^|\/)fixtures?\//.test(file))
}

function copy(from, to) {
  mkdirSync(dirname(to), { recursive: true })
  cpSync(from, to)
}

function writeReference(to) {
  const options = ['--options', join(import.meta.dirname, 'typedoc.json'), '--out', to]
  return run(process.execPath, [join(packages, 'typedoc/bin/typedoc'), ...options])
}

function runVitePress(site) {
  rmSync(site.to, { recursive: true, force: true })
  return run(process.execPath, [join(packages, 'vitepress/bin/vitepress.js'), 'build', import.meta.dirname], {
    env: { KEYHUSH_SITE: JSON.stringify(site), NODE_ENV: 'production', NO_COLOR: '1' },
  })
}
