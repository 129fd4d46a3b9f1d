// Node's fetch takes no notice of HTTPS_PROXY and the like, unless it is told to.

/** What to add to an error about a server that gave no answer; nothing, where no proxy is ignored. */
export function ignoredProxy(env = process.env): string {
  const name = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy'].find(name => env[name])
  if (name === undefined || env['NODE_USE_ENV_PROXY'] === '1') return ''
  return `. Node does not use the proxy in ${name}: set NODE_USE_ENV_PROXY=1, with Node from 22.21 or 24`
}
