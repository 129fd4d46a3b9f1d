const { transformSync } = require('esbuild')

exports.process = (source, file) =>
  transformSync(source, {
    ...{ format: 'cjs', platform: 'node', sourcefile: file },
    supported: { 'dynamic-import': false },
  })
