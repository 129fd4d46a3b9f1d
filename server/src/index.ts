// The server as a library: build a dataset, load it, serve it. The `pirouette` command is cli.ts.

export { type BuildOptions, type BuildSummary, buildDataset, type Progress } from './dataset/build.js'
export { BuildError, DatasetError } from './dataset/errors.js'
export { FORMATS, type Format } from './dataset/ingest/index.js'
export { VALUE_ENCODINGS, type ValueEncoding } from './dataset/ingest/values.js'
export { type Blob, type Dataset, loadDataset } from './dataset/load.js'
export { type PirouetteOptions, pirouettePlugin } from './plugin.js'
export { Readiness } from './readiness.js'
export { createServer, type MountedDataset, type ServerOptions } from './server.js'
