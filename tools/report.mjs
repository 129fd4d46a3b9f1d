// Vitest's JSON report, and in it what failed outside of any test (`outside`): a file that did not load, a hook, an error that no
// code caught. Vitest counts none of these.
import { relative } from 'node:path'
import { JsonReporter } from 'vitest/node'
import { root } from './steps.mjs'

export default class Report extends JsonReporter {
  async onTestRunEnd(modules, unhandled) {
    const ofModules = modules.flatMap(module =>
      [module, ...module.children.allSuites()].flatMap(part =>
        part.errors().map(error => said(module.moduleId, error)),
      ),
    )
    const caughtByNone = unhandled.map(error => said(error.VITEST_TEST_PATH, error))
    this.outside = [...ofModules, ...caughtByNone]
    await super.onTestRunEnd(modules)
  }

  async writeReport(report) {
    await super.writeReport(JSON.stringify({ ...JSON.parse(report), outside: this.outside }))
  }
}

/** The file that was tested then, and the error, with the lines of its stack that are ours. */
function said(file, { name, message, stack }) {
  const place = file === undefined ? 'in no file' : relative(root, file)
  const lines = (stack || `${name}: ${message}`).split('\n')
  return [`${place}: ${lines[0]}`, ...lines.slice(1).filter(line => !/^ +at .*node[_:]/.test(line))].join('\n')
}
