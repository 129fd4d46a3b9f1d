// What a browser needs to build a database of its own: no file, no Node.

export { BuildError } from '../base/errors.js'
export { type CsvRecords, readCsv } from './ingest/csv-in-memory.js'
export { type Filled, manifestOf, named, type Placed, place } from './keyed.js'
