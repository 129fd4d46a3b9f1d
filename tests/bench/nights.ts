// A publisher's night: `keyhush publish --list` brings a whole new file of a list, in which some rows have changed, into a folder.

import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { command, runKeyhushProcess } from '../support/processes.js'
import type { Options } from './options.js'
import type { Section } from './report.js'
import { Stage } from './stage.js'

const NIGHTS = 3
/** One row in so many comes, one goes, and one is edited. */
const CHANGED_PART = 100
/** Writes what the process has used: the most memory, in KiB, and processor time, in microseconds. */
const TELLS = `data:text/javascript,process.on('exit',()=>console.error('used',JSON.stringify(process.resourceUsage())))`

export async function nights({ shape: { records } }: Options): Promise<Section[]> {
  const some = Math.floor(records / CHANGED_PART)
  return await Stage.with(async stage => {
    const path = (name: string) => join(stage.folder, name)
    /** Night by night the first keys go, others come behind the last, and those before them are edited. */
    const listOf = (night: number) => {
      const row = (i: number) => `${i.toString(36).padStart(8, '0')},${i % CHANGED_PART === 0 ? night : 0}\n`
      return `key,value\n${Array.from({ length: records }, (_, i) => row(i + night * some)).join('')}`
    }
    await runKeyhushProcess('keygen', '--out', path('key'))
    const room = ['--max-value-bytes', '14', '--headroom', `${NIGHTS * some}`]
    const dataset = await stage.build('csv', listOf(0), ...room, '--record', path('key.record'))
    const publish = async (...args: string[]) => {
      const where = ['--folder', path('www'), '--store', path('own'), '--key', path('key'), '--valid-days', '7']
      const start = performance.now()
      const all = ['--import', TELLS, command, 'publish', ...where, ...args]
      const { stdout, stderr } = await promisify(execFile)(process.execPath, all)
      const seconds = (performance.now() - start) / 1000
      const { maxRSS, userCPUTime, systemCPUTime } = JSON.parse(/used (.*)/.exec(stderr)![1]!)
      return { stdout, seconds, busy: (userCPUTime + systemCPUTime) / 1e6, mebibytes: maxRSS / 1024 }
    }
    await publish('--dataset', dataset)
    const changed: Awaited<ReturnType<typeof publish>>[] = []
    for (let night = 1; night <= NIGHTS; night++) {
      await writeFile(path('new.csv'), listOf(night))
      changed.push(await publish('--list', path('new.csv')))
      process.stdout.write(`nights: night ${night}: ${changed.at(-1)!.seconds.toFixed(1)} s\n`)
      const [, adds, deletes] = /adds: (\d+)[\s\S]*deletes: (\d+)/.exec(changed.at(-1)!.stdout)!.map(Number)
      if (adds !== some || deletes !== some)
        throw new Error(`expected ${some} adds and deletes, got ${adds}, ${deletes}`)
    }
    const same = await publish('--list', path('new.csv'))
    const column = `${records} rows`
    const figures = [
      { name: 'a night with 3 % changed', column, unit: 's', samples: changed.map(({ seconds }) => seconds) },
      { name: '– processor time', column, unit: 's', samples: changed.map(({ busy }) => busy) },
      { name: '– memory, at most', column, unit: 'MiB', samples: changed.map(({ mebibytes }) => mebibytes) },
      { name: 'a night without changes', column, unit: 's', samples: [same.seconds] },
    ]
    return [{ title: 'A new file each night', figures }]
  })
}
