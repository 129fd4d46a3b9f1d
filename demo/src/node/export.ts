// The page as a folder of files that any web server can serve, with the two servers elsewhere. What only the demo's own server
// can do (have a server lie, publish, tell what servers saw) is not on it.

import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config, DatabaseName } from '../page/backstage.js'
import { policyOf } from './page-server.js'
import { pageFolder } from './paths.js'
import { readFirstBytes, readShape } from './shape.js'

export interface ExportOptions {
  /** base URLs of two servers that have some of the demo's databases, under their names */
  readonly servers: readonly [string, string]
  /** whose signatures are asked for, 64 hex digits; without it none are */
  readonly publisherKey?: string | undefined
  /** a folder that does not exist or is empty */
  readonly out: string
}

const NAMES: readonly DatabaseName[] = ['phishing', 'keys', 'passwords', 'names']

/** Writes the folder; resolves to the databases that the page will have. Throws Error, in words. */
export async function exportPage({ servers, publisherKey, out }: ExportOptions): Promise<DatabaseName[]> {
  const [A, B] = servers.map(originAndPath) as [string, string]
  const found = await Promise.all(
    NAMES.map(async name => {
      const [shape, other] = await Promise.all([readShape(A, name), readShape(B, name)])
      return shape && other && ([name, shape] as const)
    }),
  )
  const shapes = found.filter(each => each !== undefined)
  if (shapes.length === 0) throw new Error(`${A} and ${B} have none of ${NAMES.join(', ')} in common`)
  const first = shapes.map(async ([name]) => [name, await readFirstBytes([A, B], name)] as const)
  const config: Config = {
    servers: { A, B },
    partitionRecords: Object.fromEntries(shapes.map(([name, { partitionRecords }]) => [name, partitionRecords])),
    slots: Object.fromEntries(shapes.map(([name, { slots }]) => [name, slots])),
    firstBytes: Object.fromEntries(await Promise.all(first)),
    ...(publisherKey !== undefined && { publisherKey }),
    liar: null,
    seen: { A: 0, B: 0 },
    watched: false,
  }
  await mkdir(out, { recursive: true })
  if ((await readdir(out)).length > 0) throw new Error(`${out} is not empty; choose another folder`)
  await cp(pageFolder, out, { recursive: true })
  await writeFile(join(out, 'config.json'), `${JSON.stringify(config, undefined, 2)}\n`)
  await writeFile(join(out, 'index.html'), withServers(await readFile(join(pageFolder, 'index.html'), 'utf8'), [A, B]))
  return shapes.map(([name]) => name)
}

/** As headers would: whom the page may talk to, and connections that are opened ahead. */
function withServers(html: string, urls: readonly string[]): string {
  const head = '<meta charset="utf-8" />'
  if (!html.includes(head)) throw new Error('index.html: expected the line that says its charset')
  const tags = [
    `<meta http-equiv="content-security-policy" content="${policyOf(urls)}" />`,
    '<meta name="referrer" content="no-referrer" />',
    ...urls.map(url => `<link rel="preconnect" href="${new URL(url).origin}" crossorigin />`),
  ]
  return html.replace(head, [head, ...tags].join('\n    '))
}

/** Of an http(s) URL, without a slash at its end; nothing in it can end an attribute or a directive. */
function originAndPath(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol) || /[;,'"\s]/.test(url.pathname)) {
    throw new Error(`expected the URL of a server, got ${text}`)
  }
  return (url.origin + url.pathname).replace(/\/+$/, '')
}
