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

// Keys come by message, which stays on the machine. A fetch would reach the network if no worker ran yet.
addEventListener('message', event => {
  const [reply] = event.ports
  const answer = theMap().then(map => map.has(event.data))
  event.waitUntil(
    answer.then(
      found => reply.postMessage({ found }),
      ({ retryable }) =>
        reply.postMessage({ message: `No answer${retryable ? '. Try again.' : ' that you can rely on.'}` }),
    ),
  )
})
