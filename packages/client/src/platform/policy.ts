// Whether the page's content security policy refuses a request. fetch() does not say so: it fails as if the server were away. But an
// event comes, to the page or to the worker.

import { pause } from './environment.js'

export interface PolicyWatch {
  /** Called once the request has failed. */
  refused(): Promise<boolean>
  end(): void
}

const NEVER: PolicyWatch = { refused: async () => false, end: () => {} }

/** To be begun before the request. */
export function watchPolicy(url: string): PolicyWatch {
  if (typeof addEventListener !== 'function') return NEVER
  let refused = false
  const listener = ({ blockedURI, disposition, effectiveDirective }: SecurityPolicyViolationEvent) => {
    refused ||= blockedURI === url && disposition === 'enforce' && effectiveDirective === 'connect-src'
  }
  addEventListener('securitypolicyviolation', listener as (event: Event) => void)
  return {
    async refused() {
      if (!refused) await pause('background') // the event is a task of its own
      return refused
    },
    end: () => removeEventListener('securitypolicyviolation', listener as (event: Event) => void),
  }
}
