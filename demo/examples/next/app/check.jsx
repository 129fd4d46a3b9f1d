'use client'

import { useEffect, useState } from 'react'
import { useLookup } from './use-lookup'

export function Check() {
  const [key, setKey] = useState('')
  const said = useLookup(key)
  // Until React has taken over, the form would send the key to this page's own server, in the URL.
  const [isTaken, setIsTaken] = useState(false)
  useEffect(() => setIsTaken(true), [])
  return (
    <form
      onSubmit={event => {
        event.preventDefault()
        setKey(String(new FormData(event.currentTarget).get('key')))
      }}
    >
      <label>
        What <input name="key" required />
      </label>
      <button type="submit" disabled={!isTaken}>
        Look up
      </button>
      <p role="status">{said?.error?.message ?? (said && (said.found ? 'Yes, it is.' : 'No, and that is proved.'))}</p>
    </form>
  )
}
