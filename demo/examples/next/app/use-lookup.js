// A hook: whether a key is on the list. One map for the page, opened by the first component that asks, and shared by all.

import { open } from '@keyhush/client'
import { useEffect, useState } from 'react'
import { publisherKey, servers } from '../servers.js'

let opening
function theMap() {
  opening ??= open({ servers, publisherKey }).catch(error => {
    opening = undefined // the next who asks tries again
    throw error
  })
  return opening
}

/**
 * `{ found }`, or `{ error }` if it could not be looked up; undefined until then, and of no key. Each key that is given is a lookup,
 * which servers can count: give what was submitted, not what is being typed.
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
    // A lookup that has begun is not called off: giving up would show.
    return () => {
      wanted = false
    }
  }, [key])
  return said
}
