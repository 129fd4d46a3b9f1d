// A hook that says whether a key is on the list. All components share one map, which the first one opens.

import { open } from '@keyhush/client'
import { useEffect, useState } from 'react'
import { publisherKey, servers } from '../servers.js'

let opening
function theMap() {
  opening ??= open({ servers, publisherKey }).catch(error => {
    opening = undefined // the next lookup tries again
    throw error
  })
  return opening
}

/**
 * Returns `{ found }` or `{ error }`, and undefined until then or without a key. Every new key is a lookup, which servers can count:
 * pass what was submitted, not what is being typed.
 */
export function useLookup(key) {
  const [said, setSaid] = useState()
  useEffect(() => {
    setSaid(undefined)
    if (key === '') return
    let wanted = true
    const tell = what => wanted && setSaid(what)
    theMap()
      .then(map => map.has(key))
      .then(
        found => tell({ found }),
        error => tell({ error }),
      )
    // A lookup that has begun is not aborted: the servers would see that.
    return () => {
      wanted = false
    }
  }, [key])
  return said
}
