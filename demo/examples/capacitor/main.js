// An app in a web view. Its page has the origin capacitor://localhost (iOS) or https://localhost (Android), so start the servers with
// `--allow-origin capacitor://localhost https://localhost`.
//
// iOS may evict the IndexedDB of a web view, for example when the disk is full: the map then opens with instant lookups, and begins anew.

import { KeyhushError, open } from '@keyhush/client'
import { publisherKey, servers } from '../servers.js'

const status = document.querySelector('[role=status]')
const opening = open({ servers, publisherKey })
opening.catch(() => {}) // the first lookup shows it

document.querySelector('form').addEventListener('submit', async event => {
  event.preventDefault()
  try {
    const map = await opening
    const isLeaked = await map.has(String(new FormData(event.target).get('key')))
    status.textContent = isLeaked ? 'Yes, it is.' : 'No, and that is proved.'
  } catch (error) {
    if (!(error instanceof KeyhushError)) throw error
    status.textContent = `It could not be looked up (${error.code}).`
  }
})
document.querySelector('button').disabled = false
