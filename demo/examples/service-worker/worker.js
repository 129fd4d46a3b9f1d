// One map for all tabs of a site, in its service worker. Service workers may not load parts, so this is the one file of the package,
// node_modules/@keyhush/client/dist/keyhush.js, copied beside it.

import { publisherKey, servers } from '../servers.js'
import { open } from './keyhush.js'

let opening
function theMap() {
  opening ??= open({ servers, publisherKey }).catch(error => {
    opening = undefined // the next who asks tries again
    throw error
  })
  return opening
}

addEventListener('install', () => skipWaiting())
addEventListener('activate', event => event.waitUntil(clients.claim()))

// Asked by message, which stays on the machine. A request that the worker was to answer would go out where there is none yet.
addEventListener('message', event => {
  const [reply] = event.ports
  const answer = theMap().then(map => map.has(event.data))
  event.waitUntil(
    answer.then(
      found => reply.postMessage({ found }),
      ({ message }) => reply.postMessage({ message }),
    ),
  )
})
