// Refuses a password that is on a list of known ones. Neither server learns the password, nor whether it was on the list.

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
    // The list is a help, and no gate: who cannot be asked must not keep people out.
    if (!(error instanceof KeyhushError)) throw error
    status.textContent = `It could not be checked (${error.code}).`
  }
})

// Not before: a form that no script has taken yet would go to this page's own server, with the password in its URL.
form.querySelector('button').disabled = false
