'use client'

import { useLookup, usePrivateMap } from '@keyhush/client/react/instant'
import { useEffect, useState } from 'react'
import { publisherKey, servers } from '../servers.js'

export function Check() {
  const opened = usePrivateMap({ servers, ...(publisherKey && { publisherKey }) })
  // What was submitted, not what is being typed: servers can count lookups.
  const [key, setKey] = useState('')
  const answer = useLookup(opened.map, key)
  const error = opened.error ?? answer.error
  // Before React has taken it, the form would go to this page's own server, with the key in its URL.
  const [isTaken, setIsTaken] = useState(false)
  useEffect(() => setIsTaken(true), [])
  return (
    <form
      onSubmit={event => {
        event.preventDefault()
        const submitted = String(new FormData(event.currentTarget).get('key'))
        if (opened.status === 'error') opened.retry()
        if (submitted === key) answer.refetch()
        setKey(submitted)
      }}
    >
      <label>
        What <input name="key" required />
      </label>
      <button type="submit" disabled={!isTaken}>
        Look up
      </button>
      <p role="status">
        {error && (error.retryable ? 'No answer. Try again.' : `No answer that you can rely on (${error.code}).`)}
        {answer.status === 'found' && 'Yes, it is.'}
        {answer.status === 'absent' && 'No, and that is proved.'}
      </p>
    </form>
  )
}
