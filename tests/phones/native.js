// The native side of an app with React Native: this is run in Hermes before the app's bundle. Time, network and randomness are the
// host's (hermes.ts), which hears lines that begin with @, and calls `phone`.
//
// React Native's own JavaScript runs on it unchanged: XMLHttpRequest and fetch, Blob and FileReader, AbortController, URL, AppState.
// TextEncoder and TextDecoder are Hermes's since React Native 0.74 and 0.85. This Hermes is older. It lacks Array.prototype.at and Promise.allSettled
// too, and classes and async functions: Metro compiles them away, but not those of this file.

const tell = (...message) => print(`@${JSON.stringify(message)}`)
const timers = new Map()
const blobs = new Map()
const callables = new Map()
let named = 0
let asleepMs = 0
let pool = new Uint8Array()

const emit = (event, given) => callables.get('RCTDeviceEventEmitter')().emit(event, given)

globalThis.phone = {
  ring(timer) {
    const callback = timers.get(timer)
    timers.delete(timer)
    callback?.()
  },
  reply(id, reply) {
    if (reply === undefined) return emit('didCompleteNetworkResponse', [id, 'no reply', false])
    const blobId = `blob ${id}`
    blobs.set(blobId, reply.body)
    emit('didReceiveNetworkResponse', [id, reply.status, reply.headers, reply.url])
    emit('didReceiveNetworkData', [id, { blobId, offset: 0, size: reply.size }])
    emit('didCompleteNetworkResponse', [id, null, false])
  },
  slept(ms) {
    asleepMs += ms
  },
  activate: () => emit('appStateDidChange', { app_state: 'active' }),
  /** Randomness for one command, in hexadecimal digits. */
  provide(digits) {
    pool = Uint8Array.from({ length: digits.length / 2 }, (_, i) => Number.parseInt(digits.slice(2 * i, 2 * i + 2), 16))
  },
  /** `app.run` answers a command of the tests. */
  command(id, digits, command) {
    phone.provide(digits)
    app.run(command).then(outcome => tell('outcome', id, outcome))
  },
  /** as the app does that has installed react-native-get-random-values */
  withRandomness() {
    globalThis.crypto = {
      getRandomValues(bytes) {
        if (pool.length < bytes.length) throw new Error('the host has given too little randomness')
        bytes.set(pool.subarray(0, bytes.length))
        pool = pool.subarray(bytes.length)
        return bytes
      },
    }
  },
}

const { now } = Date
Date.now = () => now() + asleepMs

const modules = {
  Networking: {
    // Android's refuses bodies without a content type.
    sendRequest(method, url, id, headers, { base64 }) {
      const typed = headers.some(([name]) => name.toLowerCase() === 'content-type')
      if (base64 === undefined || typed) tell('request', id, { method, url, headers, base64 })
      else phone.reply(id, undefined)
    },
    abortRequest: id => tell('abort', id),
  },
  BlobModule: {
    getConstants: () => ({ BLOB_URI_SCHEME: 'content', BLOB_URI_HOST: null }),
    addNetworkingHandler() {},
    createFromParts() {},
    release: id => void blobs.delete(id),
  },
  FileReaderModule: {
    readAsDataURL: ({ blobId }) => Promise.resolve(`data:application/octet-stream;base64,${blobs.get(blobId)}`),
  },
  AppState: {
    getConstants: () => ({ initialAppState: 'active' }),
    getCurrentAppState: found => found({ app_state: 'active' }),
  },
  NativePerformanceCxx: { now: () => Date.now() },
  NativeMicrotasksCxx: { queueMicrotask: work => void Promise.resolve().then(work) },
  PlatformConstants: { getConstants: () => ({ reactNativeVersion: { major: 0, minor: 88, patch: 1 }, Version: 35 }) },
  ExceptionsManager: { reportException: ({ message, stack }) => tell('exception', message, stack) },
}

/** React Native asks each module for more than an app without a screen needs. */
const nothing = new Proxy({}, { get: (_, name) => (name === 'getConstants' ? () => ({}) : () => {}) })

Object.assign(globalThis, {
  RN$Bridgeless: true,
  RN$registerCallableModule: (name, make) => callables.set(name, make),
  __turboModuleProxy: name => modules[name] ?? nothing,
  nativeModuleProxy: {},
  nativeLoggingHook: message => tell('log', message),
  setTimeout(callback, ms = 0, ...given) {
    timers.set(++named, () => callback(...given))
    tell('timer', named, ms)
    return named
  },
  clearTimeout: timer => void timers.delete(timer),
  TextEncoder: function () {
    this.encode = text => Uint8Array.from(unescape(encodeURIComponent(text)), character => character.charCodeAt(0))
  },
  TextDecoder: function () {
    this.decode = bytes => {
      let text = ''
      for (const byte of bytes) text += String.fromCharCode(byte)
      return decodeURIComponent(escape(text))
    }
  },
})

const at = {
  value(index) {
    return this[index < 0 ? this.length + index : index]
  },
}
for (const type of [Array, Object.getPrototypeOf(Uint8Array)]) Object.defineProperty(type.prototype, 'at', at)

Promise.allSettled ??= works =>
  Promise.all(
    Array.from(works, work =>
      Promise.resolve(work).then(
        value => ({ status: 'fulfilled', value }),
        reason => ({ status: 'rejected', reason }),
      ),
    ),
  )
