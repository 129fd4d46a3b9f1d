// The sessions that a map with a filter loads.

export { filteredSession } from './filtered.js'
export { filterSession } from './session.js'
