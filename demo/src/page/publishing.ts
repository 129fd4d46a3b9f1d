// The form that changes the phishing list. The demo's own server passes the change to the publisher.

import { type Change, type Outcome, publish } from './backstage.js'
import { element, find } from './format.js'

export function connectPublishing(form: HTMLFormElement, outcome: HTMLElement): void {
  const input = find(form, '[name=domain]', HTMLInputElement)
  const button = find(form, 'button', HTMLButtonElement)
  const say = (kind: string, title: string, ...body: (Node | string)[]) => {
    outcome.dataset['kind'] = kind
    outcome.replaceChildren(element('p', { class: 'title' }, title), element('p', {}, ...body))
  }

  async function send(): Promise<void> {
    const { value: op } = form.elements.namedItem('op') as RadioNodeList
    button.disabled = true
    outcome.dataset['kind'] = 'none'
    outcome.replaceChildren('Publishing to both servers…')
    try {
      const reply = await publish({ op: op as Change['op'], domain: input.value })
      if ('published' in reply) {
        const { epoch, domain } = reply.published
        say('found', `Published as version ${epoch}`, ...changeInWords(op as Change['op'], domain), '. ', HAVE_IT)
      } else {
        say('error', 'Nothing was published', reasonsInWords(reply))
      }
    } catch {
      say('error', 'Nothing was published', 'The demo’s own server does not answer.')
    }
    button.disabled = false
  }

  form.addEventListener('submit', event => {
    event.preventDefault()
    if (!button.disabled) void send()
  })
}

/** `evil.example was added` */
export function changeInWords(op: Change['op'], domain: string): (Node | string)[] {
  return [element('code', {}, domain), op === 'add' ? ' was added' : ' was removed']
}

const HAVE_IT = 'Server A and server B both have it, signed.'

function reasonsInWords({ refusals }: Extract<Outcome, { refusals: unknown }>): string {
  const reasons = [...new Set(refusals.map(({ reason }) => reason))]
  const sentences = reasons.map(reason => {
    const who = refusals.flatMap(({ server, reason: its }) =>
      its === reason && server !== null ? [`server ${server}`] : [],
    )
    return who.length === 0 ? `${reason}.` : `${who.join(' and ')}: ${reason}.`
  })
  const text = sentences.join(' ').replaceAll('epoch', 'version') // the page's word for it
  return text.charAt(0).toUpperCase() + text.slice(1)
}
