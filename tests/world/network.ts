// The network between simulated clients and servers: names, and responses in pieces.

/** The servers' URLs. One has a path. */
export const SERVERS = ['https://a.example/pir', 'https://b.example'] as const
export type ServerName = (typeof SERVERS)[number]

/** Where a request goes. */
export function splitUrl(url: string): { readonly server: ServerName; readonly path: string; readonly letter: string } {
  const server = SERVERS.find(name => url.startsWith(name))!
  return { server, path: url.slice(server.length), letter: server === SERVERS[0] ? 'A' : 'B' }
}

/** A response whose body `next` gives in pieces; undefined: the end. The platform's own would depend on the event loop. */
export function responseOf(
  status: number,
  headers: Readonly<Record<string, string>>,
  next: () => Promise<Uint8Array | undefined>,
  cancel: () => Promise<void> = async () => {},
): Response {
  const read = async () => {
    const value = await next()
    return value === undefined ? { done: true } : { done: false, value }
  }
  const body = { getReader: () => ({ read, cancel }), cancel }
  return { status, headers: new Headers(headers), redirected: false, body } as unknown as Response
}
