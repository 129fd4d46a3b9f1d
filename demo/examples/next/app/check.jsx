'use client'

import { useEffect, useState } from 'react'
import { useLookup } from './use-lookup'

export function Check() {
  const [key, setKey] = useState('')
  const said = useLookup(key)
  // Before React has taken it, the form would go to this page's own server, with the key in its URL.
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
