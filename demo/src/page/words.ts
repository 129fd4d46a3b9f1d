// What is said of a lookup, by the servers that answer it.

import type { ServerName } from './backstage.js'

export interface Words {
  /** the server that can be made to lie */
  readonly liar: ServerName
  readonly asking: string
  /** above an answer, and above a refusal */
  readonly joined: string
  readonly apart: string
  /** `Known to nobody`, and to whom the rest is known */
  readonly unless: string
  readonly all: string
  readonly them: string
  /** of a lie: what happened, what caught it, and what that tells of who lied */
  readonly title: string
  readonly caught: string
  readonly culprit: string
}

export const BOTH: Words = {
  liar: 'B',
  asking: 'Asking both servers…',
  joined: 'Each alone looks random. The two replies together give the answer:',
  apart: 'Each alone looks random. The two replies do not fit together:',
  unless: 'unless the two servers share what they saw',
  all: 'both servers',
  them: 'the servers',
  title: 'A server lied. The answer was refused.',
  caught:
    'The proof in the replies caught it: both replies together must match the fingerprint of the list that both servers gave before you asked.',
  culprit: 'Your app cannot tell which of the two lied: the proof shows only that the replies do not fit.',
}

export const ALONE: Words = {
  liar: 'A',
  asking: 'Asking server A…',
  joined: 'Both look random. Only this page can decrypt the reply:',
  apart: 'Both look random. The reply does not fit the list:',
  unless: 'unless whoever signs the list helps the server',
  all: 'the server',
  them: 'the server',
  title: 'Server A lied. The answer was refused.',
  caught: 'The proof in the reply caught it: it must match the public hint that the publisher has signed.',
  culprit: 'There is one server, so it is known who lied.',
}
