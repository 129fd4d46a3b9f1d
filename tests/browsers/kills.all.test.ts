// Chromium is killed with SIGKILL during lookups or the offline phase, and reopened with the same profile. It sends the same
// bytes again, finds every value, and downloads nothing twice.

import { test } from 'vitest'
import { needsBrowser } from '../support/browsers.js'
import { THOROUGH } from '../support/thorough.js'
import { killMidDownload, killMidLookup } from './kills.js'
import { onStage } from './stage.js'

const CHROMIUM = await needsBrowser('chromium')
const [LOOKUPS, DOWNLOADS] = THOROUGH ? [5, 2] : [2, 1]

test(`state survives ${LOOKUPS} kills in the middle of lookups`, CHROMIUM, async () => {
  await onStage(4096, stage => killMidLookup(stage, 1, LOOKUPS))
})

test(`state survives ${DOWNLOADS} kills in the middle of the offline phase`, CHROMIUM, async () => {
  await onStage(65_536, stage => killMidDownload(stage, 1, DOWNLOADS))
})
