// The checks of `open({ filter })`, and of `fakeMap()`.

import { checkNames, checkOptions, expected, oneOf } from '../base/boundary.js'
import { UsageError } from '../base/errors.js'
import type { FilteredParts, FilterOptions, Schedule } from './opening.js'

const DAY_MS = 86_400_000

/** Throws UsageError. */
export function checkWishes(
  { mode, apart, experimental }: Pick<FilteredParts, 'mode' | 'apart' | 'experimental'>,
  wishes: FilterOptions,
): void {
  if (mode !== 'instant' && !(mode === 'auto' && (apart > 1 || experimental)))
    throw new UsageError(
      `filter: expected mode 'instant', or 'auto' that begins with it, got mode '${mode}'; leave the option out`,
    )
  checkOptions('filter', wishes)
  checkNames('filter', wishes, ['cover', 'meanwhile'])
  const { cover, meanwhile } = wishes
  if (typeof cover === 'object' && cover !== null) checkSchedule(mode, cover)
  else if (!(typeof cover === 'number' && cover >= 0 && cover <= 1))
    throw new UsageError(`filter: cover: ${expected('a share from 0 to 1, or a schedule', cover)}; it has no default`)
  oneOf('filter: meanwhile', ['ask', 'wait'], meanwhile)
}

/** Throws UsageError. */
function checkSchedule(mode: string, schedule: Schedule): void {
  if (mode === 'auto')
    throw new UsageError("filter: cover: expected a share in mode 'auto', got a schedule; use mode 'instant'")
  checkNames('filter: cover', schedule, ['everyMs', 'queries'])
  const { everyMs, queries } = schedule
  if (!(Number.isInteger(everyMs) && everyMs >= 1_000 && everyMs <= DAY_MS))
    throw new UsageError(`filter: everyMs: ${expected(`a whole number from 1000 to ${DAY_MS}`, everyMs)}`)
  if (!(Number.isInteger(queries) && queries >= 1))
    throw new UsageError(`filter: queries: ${expected('a whole number from 1', queries)}`)
}

/** Throws UsageError for a call of more queries than a lookup of the schedule has. */
export function assertScheduled(cover: FilterOptions['cover'], queries: number): void {
  if (typeof cover === 'object' && queries > cover.queries)
    throw new UsageError(
      `keys: expected at most ${cover.queries} keys at once, by the schedule, got ${queries}; make several calls`,
    )
}
