// Checks the built site: links lead to pages and anchors that exist, each page is in its side bar, nothing is loaded from elsewhere.
import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'

/** `{ pages, faults }`: how many pages there are besides 404.html, and a line for each fault. */
export function faultsOf(folder, base = '/') {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(folder.replace(/\/$/, '').length + 1))
  const text = new Map(
    files.filter(file => /\.(html|css|js)$/.test(file)).map(file => [file, readFileSync(join(folder, file), 'utf8')]),
  )
  const pages = new Map([...text].filter(([file]) => file.endsWith('.html')))
  const anchors = new Map([...pages].map(([file, html]) => [file, anchorsIn(html)]))
  const faults = [...text].flatMap(([file, content]) => foreignIn(file, content).map(url => `${file} loads ${url}`))
  for (const [file, html] of pages) {
    const links = linksIn(html)
    for (const href of new Set(links)) {
      const fault = faultOf(href, file)
      if (fault !== undefined) faults.push(`${file}: link to ${href}: ${fault}`)
    }
    if (file === '404.html') continue
    const bar = /<aside class="VPSidebar[\s\S]*?<\/aside>/.exec(html)?.[0] ?? ''
    if (!linksIn(bar).some(href => targetOf(href, file).file === file)) faults.push(`${file} is not in its side bar`)
  }
  return { pages: pages.size - (pages.has('404.html') ? 1 : 0), faults }

  function targetOf(href, page) {
    const { pathname, hash } = new URL(href, `http://site${base}${page}`)
    const path = decodeURIComponent(pathname)
    if (!path.startsWith(base)) return { file: undefined, hash }
    const file = path.slice(base.length)
    return { file: file === '' || file.endsWith('/') ? posix.join(file, 'index.html') : file, hash }
  }

  function faultOf(href, page) {
    if (/^([a-z][a-z\d+.-]*:|\/\/)/i.test(href)) return undefined
    const { file, hash } = targetOf(href, page)
    if (file === undefined || !files.includes(file)) return 'no such page'
    const anchor = decodeURIComponent(hash.slice(1))
    if (anchor === '' || !pages.has(file) || anchors.get(file).has(anchor)) return undefined
    return 'no such heading'
  }
}

const plain = attribute => attribute.replaceAll('&amp;', '&').replaceAll('&quot;', '"').replaceAll('&#39;', "'")

function anchorsIn(html) {
  return new Set([...html.matchAll(/\sid="([^"]*)"/g)].map(([, id]) => plain(id)))
}

function linksIn(html) {
  return [...html.matchAll(/<a\b[^>]*?\shref="([^"]*)"/g)].map(([, href]) => plain(href))
}

/** Addresses on other hosts that a file makes the browser load. Links to follow are none. */
function foreignIn(file, text) {
  const url = String.raw`((?:https?:)?//[^"'\`)\s>]+)`
  const signs = {
    html: [
      String.raw`<(?!a\b)[a-z][\w-]*\b[^>]*?\s(?:src|href|data|poster|action)\s*=\s*["']?${url}`,
      String.raw`\ssrcset\s*=\s*["'][^"']*?${url}`,
    ],
    css: [],
    js: [String.raw`\b(?:fetch|import|importScripts|open|Worker|EventSource|WebSocket|sendBeacon)\(\s*["'\`]${url}`],
  }
  const always = [String.raw`\burl\(\s*["']?${url}`, String.raw`@import\s+["']${url}`, String.raw`\bfrom\s*["']${url}`]
  const own = signs[file.split('.').at(-1)]
  return [...own, ...always].flatMap(sign => [...text.matchAll(new RegExp(sign, 'gi'))].map(([, found]) => found))
}
