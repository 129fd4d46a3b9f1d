// Checks each address that is opened against a phishing list. No server learns an address. A filter answers for most pages on the device.
//
// - Of pages that are not listed, one in eleven asks the servers: by chance, or because the filter does not exclude a name.
// - So a visit that asks is likelier to be of a listed page; docs/guide/filters.md has how much. Without `filter` every visit asks.
// - Every visit that asks has eight names, of any host. There is no cache: it would show repetitions.
// - No address is stored. The browser ends this worker when it is idle; the next visit starts it anew.
// - If a server is away or lies, nothing is blocked: the badge and the popup say so.

import { KeyhushError, open } from '@keyhush/client'
import { publisherKey, servers } from '../servers.js'
import { KEYS_PER_VISIT, namesOf } from './names.js'

const RETRY_MILLISECONDS = 5000 // well before an idle worker ends

let opening
function theMap() {
  const filter = { cover: 1 / 16, meanwhile: 'ask' }
  opening ??= open({ servers, publisherKey, mode: 'instant', filter, push: false }).catch(error => {
    opening = undefined // the next lookup tries again
    throw error
  })
  return opening
}

/** The newest visit of each tab: an answer that comes late is not for the page that is there by then. */
const newest = new Map()
/** What the user opened in spite of the warning, by tab. */
const accepted = new Map()
let checked = 0
let trouble // the error of the last check

chrome.webNavigation.onCommitted.addListener(({ tabId, frameId, url }) => {
  if (frameId !== 0) return
  const visit = { tabId, url }
  newest.set(tabId, visit)
  if (/^https?:/.test(url)) void check(visit)
})

async function check(visit) {
  const { tabId, url } = visit
  const isThere = () => newest.get(tabId) === visit
  try {
    const map = await theMap()
    const values = await map.getMany(namesOf(url), { padTo: KEYS_PER_VISIT })
    checked++
    say(undefined)
    const isListed = values.some(value => value !== undefined)
    if (!isListed || !isThere() || accepted.get(tabId) === new URL(url).hostname) return
    // Behind the #, where no server sees it.
    await chrome.tabs.update(tabId, { url: chrome.runtime.getURL(`warning.html#${encodeURIComponent(url)}`) })
  } catch (error) {
    say(error)
    if (error instanceof KeyhushError && error.retryable && isThere()) {
      setTimeout(() => isThere() && void check(visit), RETRY_MILLISECONDS)
    }
  }
}

function say(error) {
  trouble = error
  const isLie = ['tampered', 'servers_disagree', 'signature'].includes(error?.code)
  chrome.action.setBadgeText({ text: error === undefined ? '' : isLie ? '!' : '?' })
}

chrome.tabs.onRemoved.addListener(tabId => {
  newest.delete(tabId)
  accepted.delete(tabId)
})

chrome.runtime.onMessage.addListener((message, { tab }, reply) => {
  if (message.open === undefined) {
    void state().then(reply)
    return true // the reply comes later
  }
  accepted.set(tab.id, new URL(message.open).hostname)
  chrome.tabs.update(tab.id, { url: message.open })
})

theMap().catch(say) // now, so that the first visit need not wait for it

/** For the popup. */
async function state() {
  try {
    const map = await theMap()
    await map.sync()
    const list = { entries: map.size, version: map.epoch }
    return { list, checked, last: trouble?.code, servers: servers.map(server => ({ server, says: 'answers' })) }
  } catch (error) {
    const failed = [error, error.other].filter(one => one?.server !== undefined)
    const says = server =>
      failed.find(one => one.server === server)?.code ?? (failed.length > 0 ? 'answers' : error.code)
    return { checked, last: error.code, servers: servers.map(server => ({ server, says: says(server) })) }
  }
}
