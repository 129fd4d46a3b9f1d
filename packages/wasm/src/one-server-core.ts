// The part of the core's interface for instant lookups with one server, for the glue of the two builds that have it.

import type * as oneServerGlue from '../generated/one-server.js'
import type { OneServerCore, OneServerSizes } from './core.js'

/** The classes and functions that both builds export. */
type OneServerGlue = Pick<typeof oneServerGlue, 'OneServerQueryHandle' | 'oneServerSizes'>

export function oneServerHalf(glue: OneServerGlue): OneServerCore {
  return {
    oneServerSizes: ({ records, recordBytes }) => sizes(glue.oneServerSizes(records, recordBytes)),
    newOneServerQuery: ({ records, recordBytes }, { databaseId, generation, of }, ...rest) =>
      new glue.OneServerQueryHandle(records, recordBytes, databaseId, generation, of === 'directory', ...rest),
  }
}

function sizes(numbers: Float64Array): OneServerSizes {
  const [requestBytes = 0, answerBytes = 0, hintBytes = 0, columns = 0, outputs = 0, maxQueries = 0, serverBytes = 0] =
    numbers
  return { requestBytes, answerBytes, hintBytes, columns, outputs, maxQueries, serverBytes }
}
