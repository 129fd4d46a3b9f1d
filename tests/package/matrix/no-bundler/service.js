import { open } from '../node_modules/@keyhush/client/dist/keyhush.js'
import { probe } from '../probe.js'

addEventListener('activate', event => event.waitUntil(clients.claim()))
addEventListener('fetch', event => {
  if (!event.request.url.endsWith('/ask')) return
  event.respondWith(
    probe(open).then(
      said => new Response(said),
      error => new Response(`failed: ${error}`),
    ),
  )
})
