// A log of ours and C2SP's own programs: two `litewitness` sign it, and two implementations in Go, torchwood and transparency-dev's, accept
// proofs and tiles, and refuse what we refuse. A client in Go gets from a cosigning auditor what it gets from a `litewitness`.

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { fromHex, toHex } from '@keyhush/protocol'
import { encodeNoteKey, logEntry, noteKey, WITNESS_KEY } from '@keyhush/protocol/log'
import { createKeyFile, PublisherLog } from '@keyhush/server'
import { ed25519 } from '@noble/curves/ed25519.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { audited, edit, useDataset } from '../../server/test/audit-world.js'
import { freePort } from '../../server/test/helpers.js'
import { command, started as spawned } from '../../server/test/spawned.js'
import { findWitnesses } from '../../tools/programs.mjs'
import { needs } from '../support/needs.js'
import { PUBLISHER_KEY } from '../support/publishing.js'

useDataset()

const programs = await findWitnesses()
const run = promisify(execFile)
const databaseId = new Uint8Array(16).fill(0xcd)
const loggedAt = (epoch: number, of = 0) => ({ databaseId, epoch, manifestHash: new Uint8Array(32).fill(epoch + of) })

describe('witnesses of C2SP', needs(programs !== undefined, 'Go, and its modules'), () => {
  let dir: string
  let line: string
  const path = (name: string) => join(dir, name)
  const processes: ChildProcess[] = []
  const names = ['a', 'b']
  const witnesses: { database: string; key: string; url: string }[] = []

  /** Resolves to the first line that matches, of either stream. */
  function started(program: string, args: readonly string[], shows: RegExp): Promise<string> {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    processes.push(child)
    return new Promise((resolve, reject) => {
      let text = ''
      const take = (chunk: Buffer) => {
        text += chunk
        const [found] = shows.exec(text) ?? []
        if (found !== undefined) resolve(found)
      }
      child.stdout.on('data', take)
      child.stderr.on('data', take)
      child.on('exit', () => reject(new Error(text)))
    })
  }

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'keyhush-'))
    line = await PublisherLog.create(path('log'), 'example.com/keys', databaseId)
    let policy = `${line}\n`
    for (const [i, name] of names.entries()) {
      await mkdir(path(name))
      const seed = new Uint8Array(32).fill(i + 1)
      const [socket, database] = [path(`${name}/s`), path(`${name}/db`)]
      const key = await started(programs!.witnesses, ['agent', socket, toHex(seed)], /SHA256:\S+/)
      const address = `127.0.0.1:${await freePort()}`
      const flags = { name: `${name}.example/w`, db: database, 'ssh-agent': socket, listen: address, key }
      const args = Object.entries(flags).map(([flag, value]) => `-${flag}=${value}`)
      await started(programs!.litewitness, args, /listening/)
      await run(programs!.witnesses, ['add-log', database, line.slice('log '.length)])
      const vkey = encodeNoteKey(noteKey(flags.name, WITNESS_KEY, ed25519.getPublicKey(seed)))
      policy += `witness ${name} ${vkey} http://${address}\n`
      witnesses.push({ database, key: vkey, url: `http://${address}` })
    }
    await writeFile(path('log/policy'), `${policy}group both all a b\nquorum both\n`)
  })
  afterAll(async () => {
    const over = processes.map(child => new Promise(resolve => child.once('exit', resolve)))
    for (const child of processes) child.kill()
    await Promise.all(over)
    await rm(dir, { recursive: true })
  })

  /** Adds an epoch and resolves to its proof. */
  async function proved(folder: string, epoch: number, of = 0): Promise<string> {
    const log = await PublisherLog.open(path(folder))
    try {
      await log.ask()
      await log.append(loggedAt(epoch, of))
      await log.ask()
      return log.proof()
    } finally {
      log.close()
    }
  }
  const accepts = async (proof: string, epoch: number, of = 0) => {
    await writeFile(path('proof'), proof)
    const entry = toHex(logEntry(loggedAt(epoch, of)))
    const say = run(programs!.witnesses, ['proof', path('log/policy'), entry, path('proof')])
    const { stdout, isRight } = await say.then(
      ({ stdout }) => ({ stdout, isRight: true }),
      ({ stdout }) => ({ stdout, isRight: false }),
    )
    expect(stdout).toBe('') // both implementations say the same
    return isRight
  }

  test('both sign each epoch; proofs and tiles are accepted, and of another manifest, epoch or quorum refused', async () => {
    for (const epoch of [3, 4, 5, 6, 7, 8]) {
      const proof = await proved('log', epoch)
      expect([epoch, await accepts(proof, epoch)]).toEqual([epoch, true])
      expect(await accepts(proof, epoch, 1)).toBe(false)
      expect(await accepts(proof, epoch - 1)).toBe(false)
      expect(await accepts(proof.replace(/— b\.example.*\n/, ''), epoch)).toBe(false)
      expect(await accepts(proof.replace(/(?<=\nindex )\d+/, '0'), epoch)).toBe(false)
    }
    const { stdout } = await run(programs!.witnesses, ['tiles', path('log/policy'), path('log/public')])
    const entries = [3, 4, 5, 6, 7, 8].map(epoch => toHex(logEntry(loggedAt(epoch))))
    expect(stdout).toBe(['', '', ...entries, ''].join('\n'))
  })

  test('neither signs a fork, nor a log that has gone back', async () => {
    await cp(path('log'), path('fork'), { recursive: true })
    await proved('log', 9)
    await expect(proved('fork', 9, 1)).rejects.toThrow('it has seen 9 entries, and this log has 8')
    // One that asks nobody first, and signs all the same.
    const fork = await PublisherLog.open(path('fork'))
    await fork.append(loggedAt(9, 1))
    await expect(fork.ask()).rejects.toThrow('it has seen another log')
    fork.close()
  })

  test('a client gets from an auditor what it gets from another witness, but signatures of checked epochs only', async () => {
    const world = await audited()
    const { databaseId } = world.updatable.newest.manifest
    const audit = await PublisherLog.create(path('audited'), 'example.com/audited', databaseId)
    const [name, keyFile] = ['auditor.example/w', path('cosign.key')]
    const key = encodeNoteKey(noteKey(name, WITNESS_KEY, (await createKeyFile(keyFile)).publicKey))
    const servers = world.servers.map(({ url }) => url).join()
    const from = ['--servers', servers, '--publisher-key', PUBLISHER_KEY, '--store', world.store, '--every', '3600']
    const how = ['--cosign', `${name}=${keyFile}`, '--log', audit, '--listen', '0']
    const { printed } = spawned(process.execPath, [command, 'audit', ...from, ...how])
    await expect.poll(() => printed.stderr).toMatch(/answers the log at \S+\n/)
    const [, url] = /answers the log at (\S+)/.exec(printed.stderr)!
    const [other] = witnesses as [(typeof witnesses)[number]]
    await run(programs!.witnesses, ['add-log', other.database, audit.slice('log '.length)])

    const replies = async (folder: string, old: number) => {
      const all = [{ key, url: url! }, other].map(async witness => {
        const args = ['submit', witness.url, witness.key, path(`${folder}/public`), `${old}`]
        const { stdout } = await run(programs!.witnesses, args)
        return stdout.trim().replaceAll('\n', ' ')
      })
      return await Promise.all(all)
    }
    const both = (statuses: string) => [statuses, statuses]
    const append = async (folder: string, epoch: number, fork = 0) => {
      await writeFile(path(`${folder}/policy`), `${audit}\nwitness w ${key}\nquorum w\n`)
      const log = await PublisherLog.open(path(folder))
      const hash = fromHex(world.updatable.newest.manifestHash).map(byte => byte ^ fork)
      await log.append({ databaseId, epoch, manifestHash: hash })
      log.close()
    }
    await append('audited', 1)
    expect(await replies('audited', 0)).toEqual(both('200'))
    for (const epoch of [2, 3]) {
      await world.publish([edit(epoch)])
      await append('audited', epoch)
    }
    expect(await replies('audited', 0)).toEqual(both('409 200'))
    expect(await replies('audited', 3)).toEqual(both('200'))
    expect(await replies('audited', 4)).toEqual(both('400'))
    await world.publish([edit(4)])
    await cp(path('audited'), path('forked'), { recursive: true })
    await append('forked', 4, 1)
    await append('audited', 4)
    expect(await replies('audited', 3)).toEqual(both('200'))
    expect(await replies('forked', 4)).toEqual(both('422'))

    await cp(path('audited'), path('ahead'), { recursive: true })
    await append('ahead', 5)
    expect(await replies('ahead', 4)).toEqual(['503', '200'])
    await world.publish([edit(5)])
    await append('audited', 5)
    expect(await replies('audited', 4)).toEqual(['200', '409 422'])

    for (const [log, status] of [
      ['example.com/audited', '403'],
      ['example.com/another', '404'],
    ] as const) {
      const line = await PublisherLog.create(path(status), log, databaseId)
      await writeFile(path(`${status}/policy`), `${line}\nwitness w ${key}\nquorum w\n`)
      const stranger = await PublisherLog.open(path(status))
      await stranger.append({ databaseId, epoch: 6, manifestHash: new Uint8Array(32) })
      stranger.close()
      expect(await replies(status, 5)).toEqual(both(status))
    }
  })

  test('tiles of many entries', async () => {
    const log = await PublisherLog.open(path('log'))
    await log.append(loggedAt(600))
    await log.append(loggedAt(601))
    log.close()
    expect(await accepts(await proved('log', 602), 602)).toBe(true)
    const { stdout } = await run(programs!.witnesses, ['tiles', path('log/policy'), path('log/public')])
    expect(stdout.split('\n').filter(entry => entry !== '')).toHaveLength(10)
  })
})
