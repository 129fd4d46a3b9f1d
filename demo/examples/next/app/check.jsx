'use client'

import { useState } from 'react'
import { useLookup } from './use-lookup'

export function Check() {
  const [key, setKey] = useState('')
  const said = useLookup(key)
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
      <button type="submit">Look up</button>
      <p role="status">{said?.error?.message ?? (said && (said.found ? 'Yes, it is.' : 'No, and that is proved.'))}</p>
    </form>
  )
}
