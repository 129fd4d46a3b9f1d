// The package's one file in a page, in a module worker (`?worker`) or in a service worker (`?service`).

import { open } from '../node_modules/@keyhush/client/dist/keyhush.js'
import { probe, show } from '../probe.js'

async function inWorker() {
  const worker = new Worker('worker.js', { type: 'module' })
  return await new Promise(resolve => {
    worker.onmessage = ({ data }) => resolve(data)
  })
}

async function inServiceWorker() {
  const controlled = new Promise(resolve => {
    navigator.serviceWorker.oncontrollerchange = resolve
  })
  await navigator.serviceWorker.register('service.js', { type: 'module' })
  await controlled
  return await (await fetch('ask')).text()
}

if (location.search === '?worker') show(inWorker())
else if (location.search === '?service') show(inServiceWorker())
else show(probe(open))
