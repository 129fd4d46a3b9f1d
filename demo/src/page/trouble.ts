// What the page says where there is no answer: what happened, the SDK's error for developers, and a button that tries again.

import { KeyhushError, UnsupportedError } from '@keyhush/client'
import type { Outcome } from './backstage.js'
import { button, card, element, messageOf } from './format.js'

export function trouble(error: unknown, again: () => void): HTMLElement {
  const { title, text } = inWords(error)
  if (error instanceof UnsupportedError) return card('error', title, [text]) // it will not be another one
  const code = error instanceof KeyhushError ? `${error.name}, code “${error.code}”: ` : ''
  return card(
    'error',
    title,
    [text],
    [
      element('div', { class: 'actions' }, button('Try again', again)),
      element('details', {}, element('summary', {}, 'What your app gets'), element('p', {}, code, messageOf(error))),
    ],
  )
}

/** For everybody. */
export function inWords(error: unknown): { readonly title: string; readonly text: string } {
  if (!navigator.onLine) return { title: 'You are offline', text: 'There is no answer without a line to the servers.' }
  const isAway = !(error instanceof KeyhushError) || error.retryable
  if (isAway) return { title: 'The servers do not answer', text: 'Is the demo still running?' }
  if (error instanceof UnsupportedError) return { title: 'No answer', text: `${error.message}.` }
  return { title: 'No answer', text: 'A server replied, and this page cannot use the reply.' }
}

/** Of what servers or the publisher have refused. */
export function refused({ refusals }: Extract<Outcome, { readonly refusals: unknown }>): string {
  const reasons = [...new Set(refusals.map(({ reason }) => reason.replace('epoch', 'version')))]
  return `Nothing was published: ${reasons.join('; ')}.`
}
