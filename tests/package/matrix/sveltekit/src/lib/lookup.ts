import type { KeyhushMap } from '@keyhush/client'

/** `value` undefined: proved absent. `outdated`: the list has changed since. */
export type Answer = 'idle' | 'loading' | { value?: string | undefined; error?: unknown; outdated: boolean }

/** Shows what a map says about a key, until `end()`. With `follow` it looks up again when the list has changed. */
export function showing(map: KeyhushMap, key: string, follow: boolean, show: (answer: Answer) => void) {
  const ended = new AbortController()
  let now: Answer
  const tell = (answer: Answer) => {
    if (ended.signal.aborted) return
    now = answer
    show(answer)
    if (follow && typeof answer === 'object' && answer.outdated) ask()
  }
  const ask = () => {
    const { epoch } = map
    map.getText(key, { signal: ended.signal }).then(
      value => tell({ value, outdated: map.epoch !== epoch }),
      error => tell({ error, outdated: false }),
    )
  }
  const off = map.on('updated', () => {
    if (typeof now === 'object' && !now.error && !now.outdated) tell({ ...now, outdated: true })
  })
  tell(key === '' ? 'idle' : 'loading')
  if (key !== '') ask()
  return {
    refetch: () => {
      if (typeof now !== 'object') return
      tell('loading')
      ask()
    },
    end: () => {
      ended.abort()
      off()
    },
  }
}
