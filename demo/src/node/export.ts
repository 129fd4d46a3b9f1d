// Writes the page as a folder that any web server can serve; the two servers are elsewhere. The page then lacks what needs the
// demo's own server: a lying server, and publishing.

import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Config, DATABASES } from '../page/backstage.js'
import { policyOf } from './page-server.js'
import { pageFolder } from './paths.js'
import { readShapes } from './shape.js'

export interface ExportOptions {
  /** base URLs of two servers that have some of the demo's databases, under their names */
  readonly servers: readonly [string, string]
  /** 64 hex digits; undefined: the page checks no signatures */
  readonly publisherKey?: string | undefined
  /** a folder that does not exist yet, or is empty */
  readonly out: string
}

/** Writes the folder. Resolves to the names of the page's databases. Throws Error with a message for the user. */
export async function exportPage({ servers, publisherKey, out }: ExportOptions): Promise<string[]> {
  const [A, B] = servers.map(originAndPath) as [string, string]
  const databases = await readShapes([A, B])
  const names = Object.keys(databases)
  if (names.length === 0) throw new Error(`${A} and ${B} have none of ${DATABASES.join(', ')} in common`)
  const config: Config = {
    servers: { A, B },
    databases,
    ...(publisherKey !== undefined && { publisherKey }),
    hosted: false,
  }
  await mkdir(out, { recursive: true })
  if ((await readdir(out)).length > 0) throw new Error(`${out} is not empty; choose another folder`)
  await cp(pageFolder, out, { recursive: true })
  await writeFile(join(out, 'config.json'), `${JSON.stringify(config, undefined, 2)}\n`)
  await writeFile(join(out, 'index.html'), withServers(await readFile(join(pageFolder, 'index.html'), 'utf8'), [A, B]))
  return names
}

/** Puts into the page what the demo's own server sends as headers: its policy, and connections to open early. */
function withServers(html: string, urls: readonly string[]): string {
  const head = '<meta charset="utf-8" />'
  if (!html.includes(head)) throw new Error('index.html: expected the line <meta charset>')
  const tags = [
    `<meta http-equiv="content-security-policy" content="${policyOf(urls)}" />`,
    '<meta name="referrer" content="no-referrer" />',
    ...urls.map(url => `<link rel="preconnect" href="${new URL(url).origin}" crossorigin />`),
  ]
  return html.replace(head, [head, ...tags].join('\n    '))
}

/** An http(s) URL without a slash at its end. It has no character that could end an HTML attribute or a policy directive. */
function originAndPath(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol) || /[;,'"\s]/.test(url.pathname)) {
    throw new Error(`expected the URL of a server, got ${text}`)
  }
  return (url.origin + url.pathname).replace(/\/+$/, '')
}
