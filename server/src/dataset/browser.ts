// What a browser needs to build a database of its own: no file, no Node.

export { BuildError } from '../base/errors.js'
export { CsvRows, parsing } from './ingest/csv.js'
export { type KeyedRecords, Table } from './ingest/table.js'
export { type Filled, manifestOf, named, place } from './keyed.js'
