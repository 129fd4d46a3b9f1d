// Refuses a password that is on a list of leaked ones. Neither server learns the password, or whether it is on the list.

import { KeyhushError, open } from '@keyhush/client'
import { publisherKey, servers } from '../servers.js'

const form = document.querySelector('form')
const status = document.querySelector('[role=status]')
const opening = open({ servers, publisherKey })

form.addEventListener('submit', async event => {
  event.preventDefault()
  const password = String(new FormData(form).get('password'))
  try {
    const map = await opening
    if (await map.has(password))
      status.textContent = 'This password is known to whoever tries passwords. Choose another.'
    else status.textContent = 'Nobody is known to know this one.'
  } catch (error) {
    // If the servers fail, the password is accepted unchecked.
    if (!(error instanceof KeyhushError)) throw error
    status.textContent = `It could not be checked (${error.code}).`
  }
})

// Enabled only now: without the script, the form would send the password to this page's own server, in the URL.
form.querySelector('button').disabled = false
