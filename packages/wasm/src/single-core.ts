// The part of the core's interface for lookups with one server, for the glue of the two builds that have it.

import type * as singleGlue from '../generated/single.js'
import type { ClientCore, LayoutHandle, ReceivedFormHandle, SingleCore } from './core.js'

/** The classes and functions that both builds export. */
type SingleGlue = Pick<
  typeof singleGlue,
  'SingleBuilderHandle' | 'SingleReopeningHandle' | 'singleBytes' | 'singleFollows'
>

/** The glue's parameters have its own classes as types; our interface has those classes' public parts. */
function own(layout: LayoutHandle): singleGlue.LayoutHandle {
  return layout as singleGlue.LayoutHandle
}

function form(stored: ReceivedFormHandle): singleGlue.ReceivedFormHandle {
  return stored as singleGlue.ReceivedFormHandle
}

/** What a core for one server has in addition to a client's. */
export function singleHalf(glue: SingleGlue): Omit<SingleCore, keyof ClientCore> {
  return {
    singleBytes: layout => glue.singleBytes(own(layout)),
    singleFollows: (before, after) => glue.singleFollows(own(before), own(after)),
    newSingleBuilder: (layout, ...rest) => new glue.SingleBuilderHandle(own(layout), ...rest),
    resumeSingleBuilder: (partial, layout, ...rest) =>
      glue.SingleBuilderHandle.resume(form(partial), own(layout), ...rest),
    reopenSingle: (checkpoint, layout, binding) =>
      new glue.SingleReopeningHandle(form(checkpoint), own(layout), binding),
  }
}
