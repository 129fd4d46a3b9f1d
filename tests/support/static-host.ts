// A host of files, as there are thousands: it ignores what stands behind `?`, and knows nothing of Keyhush.

import { readFile } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { type Site, serve } from './web.js'

/** The bytes at a path that begins with `/`; undefined: there are none. */
export type Files = (path: string) => Uint8Array | undefined | Promise<Uint8Array | undefined>

export interface StaticHost extends Site {
  /** what it was asked for, with its query */
  readonly asked: string[]
  /** what answers from now on: files, or something else altogether */
  files: Files | RequestListener
}

const PAGE = '<!doctype html><title>A page</title><p>This is a page.'

/** The files in a folder. */
export const filesIn =
  (folder: string): Files =>
  path =>
    readFile(join(folder, path)).catch(() => undefined)

/** Where there is no file, `everything` replies 200 with a page, `forbidding` 403, as S3 does; `gzip` compresses. */
export async function startStaticHost(
  files: StaticHost['files'],
  how: 'plain' | 'everything' | 'forbidding' | 'gzip' = 'plain',
): Promise<StaticHost> {
  const asked: string[] = []
  const site = await serve(async (request, response) => {
    if (host.files.length === 2) return (host.files as RequestListener)(request, response)
    asked.push(request.url!)
    const bytes = await (host.files as Files)(new URL(request.url!, 'http://host').pathname)
    const headers = { 'access-control-allow-origin': '*', etag: '"a validator that must not come back"' }
    if (bytes === undefined || request.method !== 'GET') {
      const status = { everything: 200, forbidding: 403, gzip: 404, plain: 404 }[how]
      response.writeHead(status, { ...headers, 'content-type': 'text/html' }).end(PAGE)
    } else if (how === 'gzip') {
      response.writeHead(200, { ...headers, 'content-encoding': 'gzip' }).end(gzipSync(bytes))
    } else response.writeHead(200, headers).end(bytes)
  })
  const host = { ...site, asked, files }
  return host
}
