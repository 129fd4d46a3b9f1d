// A scheme that only some maps load, with a WebAssembly module of its own. Import this where it is loaded on demand.

export { startOneServer } from './one-server/one-server.js'
