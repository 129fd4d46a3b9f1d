// Which Markdown files are pages of the site, where they stand on it, and where their links lead. The files' own links work on GitHub.
import { posix } from 'node:path'

/** The path on the site, with `.md`: docs/ is the root, README.md the index of its folder. Throws if two files have the same. */
export function routesOf(paths) {
  const routes = new Map(
    paths.map(path => [path, path.replace(/^docs\//, '').replace(/(^|\/)README\.md$/, '$1index.md')]),
  )
  if (new Set(routes.values()).size < routes.size)
    throw new Error('two pages would stand at the same place of the site')
  return routes
}

/** The first heading, without marks. */
export function titleOf(markdown, otherwise) {
  const heading = /^# +(.*)$/m.exec(markdown)?.[1]
  return heading?.replace(/\[([^\]]*)\]\([^)]*\)|[`\\*]/g, '$1').trim() ?? otherwise
}

/**
 * Where the web shows the repository's files, if package.json names a repository.
 * @param {{ repository?: string | { url: string } }} packageJson
 */
export function repositoryUrl({ repository }) {
  const url = typeof repository === 'string' ? repository : repository?.url
  return url
    ?.replace(/^git\+/, '')
    .replace(/^(github:|git@github\.com:|git:\/\/github\.com\/|ssh:\/\/git@github\.com\/)/, 'https://github.com/')
    .replace(/\.git$/, '')
}

/**
 * Where a link leads on the site, or undefined: it stays as it is. A package's README is read without the repository, too, and so links its
 * files by their address on the web.
 * - `{ href }`: a page
 * - `{ download }`: a file that the site has
 * - `{ source }`: the path of a file that it does not have
 */
export function destinationOf(href, page, { routes, downloads, exists, repository }) {
  const fromRoot = href.replace(new RegExp(`^${repository}/(blob|tree)/[^/]+/`), '/')
  const isOnWeb = fromRoot !== href
  if (!isOnWeb && /^([a-z][a-z\d+.-]*:|\/\/|#|\/)/i.test(href)) return undefined
  const [, path, rest] = /^([^?#]*)(.*)$/.exec(fromRoot)
  const target = posix.join(isOnWeb ? '' : posix.dirname(page), decodeURI(path)).replace(/^\/|\/$/g, '')
  const route = routes.get(target) ?? routes.get(posix.join(target, 'README.md'))
  if (route !== undefined) return { href: `/${route}${rest}` }
  if (downloads.has(target)) return { download: `/${target.replace(/^docs\//, '')}` }
  // What does not exist is left to VitePress, which fails.
  return exists(target) ? { source: target } : { href: `/${target}${rest}` }
}

/** A plugin of markdown-it, which leads links to where their files stand on the site. `pageOf`: the path of the page. */
export function siteLinks(md, { pageOf, site, base }) {
  const { repository } = site
  md.core.ruler.push('site_links', state => {
    const page = pageOf(state.env)
    for (const block of state.tokens) {
      if (block.type === 'inline') block.children = relinked(block.children, page, state.Token)
    }
  })

  function relinked(tokens, page, Token) {
    let after // what stands instead of the end of a link
    return tokens.flatMap((token, index) => {
      if (token.type === 'link_close' && after !== undefined) {
        const instead = after
        after = undefined
        return instead
      }
      if (token.type === 'text' && page.startsWith('reference/')) return mentioned(token, Token)
      if (token.type !== 'link_open') return [token]
      const to = destinationOf(token.attrGet('href') ?? '', page, site)
      if (to?.href !== undefined) token.attrSet('href', to.href)
      else if (to?.download !== undefined) {
        token.attrSet('href', base.slice(0, -1) + to.download)
        token.attrSet('download', '')
      } else if (to?.source !== undefined && repository !== undefined) {
        token.attrSet('href', `${repository}/blob/HEAD/${to.source}`)
      } else if (to?.source !== undefined) {
        after = saysPath(tokens[index + 1]?.content ?? '', to.source) ? [] : pathTokens(to.source, Token)
        return []
      }
      return [token]
    })
  }

  /** Docstrings name documents (docs/protocol.md). */
  function mentioned(token, Token) {
    return token.content.split(/\b(docs\/[\w/-]+\.md)\b/).flatMap(part => {
      const text = Object.assign(new Token('text', '', 0), { content: part })
      const route = site.routes.get(part)
      if (route === undefined) return [text]
      const open = Object.assign(new Token('link_open', 'a', 1), { attrs: [['href', `/${route}`]] })
      return [open, text, new Token('link_close', 'a', -1)]
    })
  }
}

/** Whether the text of a link says already where it leads: the path, its end, or a folder around it. */
const saysPath = (text, path) => path.startsWith(text.replace(/\/?$/, '/')) || `/${path}`.endsWith(`/${text}`)

/** ` (path)`, the path as code */
function pathTokens(path, Token) {
  const of = (type, tag, content) => Object.assign(new Token(type, tag, 0), { content })
  return [of('text', '', ' ('), of('code_inline', 'code', path), of('text', '', ')')]
}

/** A plugin of markdown-it: classes for cells with a sentence or a figure, and for code that is not to be broken (style.css). */
export function classesForNarrowScreens(md) {
  md.core.ruler.push('classes_for_narrow_screens', ({ tokens }) => {
    for (const [index, token] of tokens.entries()) {
      if (token.type === 'td_open') {
        const { length } = tokens[index + 1].content
        if (length > 30) token.attrJoin('class', 'wide')
        else if (token.attrGet('style') === 'text-align:right') token.attrJoin('class', 'figure')
      }
      const code = token.children?.filter(({ type, content }) => type === 'code_inline' && content.length < 25) ?? []
      for (const short of code) short.attrJoin('class', 'short')
    }
  })
}
