// One map for all tabs of a site, in its service worker. Service workers cannot import modules dynamically, so this uses the SDK in
// one file: a copy of node_modules/@keyhush/client/dist/keyhush.js.

import { publisherKey, servers } from '../servers.js'
import { open } from './keyhush.js'

let opening
function theMap() {
  opening ??= open({ servers, publisherKey }).catch(error => {
    opening = undefined // the next lookup tries again
    throw error
  })
  return opening
}

addEventListener('install', () => skipWaiting())
addEventListener('activate', event => event.waitUntil(clients.claim()))

// What is watched: the key, its mark, and what was told. It names the key, and stays on this device.
const STATE = 'watched.json'
const cache = () => caches.open('watched')
const kept = async () => (await (await cache()).match(STATE))?.json()
const keep = async state => await (await cache()).put(STATE, Response.json(state))

const replies = {
  find: async key => ({ found: await (await theMap()).has(key) }),
  watch: async key => {
    await keep({ key, told: [] })
    await visit()
    return {}
  },
  told: async () => {
    await visit().catch(() => {}) // the next visit tells
    return { told: (await kept())?.told ?? [] }
  },
}

// Keys come by message, which stays on the machine. A fetch would reach the network if no worker ran yet.
addEventListener('message', event => {
  const [reply] = event.ports
  const { call, key } = event.data
  event.waitUntil(
    replies[call](key).then(
      answer => reply.postMessage(answer),
      ({ retryable }) =>
        reply.postMessage({ message: `No answer${retryable ? '. Try again.' : ' that you can rely on.'}` }),
    ),
  )
})

// The browser wakes this worker now and then; or a push does, which goes to all clients alike: a push to one asks that one.
addEventListener('periodicsync', event => event.waitUntil(wake()))
addEventListener('push', event => event.waitUntil(wake()))

async function wake() {
  if (await visit()) await registration.showNotification('What you watch has changed', { tag: 'watched' })
}

/** Resolves to whether something has changed since the last visit. */
const visit = () => navigator.locks.request('watched', look)
async function look() {
  const { key, mark, told } = (await kept()) ?? {}
  if (key === undefined) return false
  const changes = []
  let last = mark
  const map = await open({ servers, publisherKey })
  const save = saved => {
    last = saved
  }
  await map.watch(key, change => changes.push(change), { since: mark, save })
  await map.sync()
  // Listeners are called by now. The pause is always as long: the servers do not see whether something was told.
  await new Promise(resolve => setTimeout(resolve, 1000))
  await map.close()
  for (const { value, epoch, how } of changes) {
    const text =
      how === 'list' ? (value === undefined ? 'It is not on the list now.' : 'It is on the list now.') : 'Look.'
    told.unshift(`Version ${epoch}: ${text}`)
  }
  await keep({ key, mark: last, told })
  return changes.length > 0
}

// The page shows everything, not only what has changed: it makes the same requests whatever that was.
addEventListener('notificationclick', event => {
  event.notification.close()
  event.waitUntil(clients.openWindow('./'))
})
