// The native side of an app's network: it follows redirects, and gives whole replies.

export interface Request {
  readonly url: string
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Uint8Array<ArrayBuffer> | undefined
}

export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** where it came from */
  readonly url: string
  readonly body: Uint8Array<ArrayBuffer>
}

const { fetch } = globalThis // before a test puts another in its place

/** Rejects if there is no reply. */
export async function ask(request: Request, signal?: AbortSignal | null): Promise<Reply> {
  const { url, method, headers, body } = request
  const init: RequestInit = { method, headers, redirect: 'manual', ...(body && { body }), ...(signal && { signal }) }
  const reply = await fetch(url, init)
  const location = reply.headers.get('location') // Node 20 fails to follow with a body
  if (location !== null) return await ask({ ...request, url: location }, signal)
  return {
    status: reply.status,
    headers: Object.fromEntries(reply.headers),
    url: reply.url,
    body: new Uint8Array(await reply.arrayBuffer()),
  }
}
