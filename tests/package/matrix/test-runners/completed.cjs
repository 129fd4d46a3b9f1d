// jsdom, with what it lacks of browsers: Node has it. Node's fetch() takes no signal of jsdom.

const { TestEnvironment } = require('jest-environment-jsdom')

function fetchWith(url, { signal, ...init }) {
  const aborting = new AbortController()
  signal?.addEventListener('abort', () => aborting.abort(signal.reason))
  return fetch(url, { ...init, signal: aborting.signal })
}

module.exports = class extends TestEnvironment {
  async setup() {
    await super.setup()
    Object.assign(this.global, { MessageChannel, TextDecoder, TextEncoder, fetch: fetchWith })
  }
}
