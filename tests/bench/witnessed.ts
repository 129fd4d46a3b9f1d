// What witnesses cost: a publisher whose log three of them sign, and a client that checks the proof.

import { appendFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PublisherLog } from '@keyhush/server'
import { startWitness } from '@keyhush/server/testing'
import { verifies } from '../../packages/client/dist/servers/ed25519.js'
import { Witnesses } from '../../packages/client/dist/servers/witnesses.js'
import type { Options } from './options.js'
import type { Section } from './report.js'
import { Stage } from './stage.js'

const EPOCHS = 1000
const NAMES = ['A', 'B', 'C']
const CHECKS = 20

export async function witnessed({ repeats }: Options): Promise<Section> {
  const databaseId = new Uint8Array(16).fill(1)
  const loggedAt = (epoch: number) => ({ databaseId, epoch, manifestHash: new Uint8Array(32).fill(epoch) })
  const witnesses = await Promise.all(NAMES.map(name => startWitness(`${name.toLowerCase()}.example/w`)))
  try {
    return await Stage.with(async stage => {
      const folder = join(stage.folder, 'log')
      const line = await PublisherLog.create(folder, 'example.com/keys', databaseId)
      for (const witness of witnesses) witness.add(line)
      const lines = witnesses.map(({ key, url }, i) => `witness ${NAMES[i]} ${key} ${url}\n`)
      const quorum = `${lines.join('')}group all 2 ${NAMES.join(' ')}\nquorum all\n`
      await appendFile(join(folder, 'policy'), quorum)
      const log = await PublisherLog.open(folder)
      await log.append(loggedAt(EPOCHS - 1))
      await log.ask()
      const [provedMs, bytes]: [number[], number[]] = [[], []]
      let proof = Buffer.alloc(0)
      const epochs = 3 * repeats
      for (let epoch = EPOCHS; epoch < EPOCHS + epochs; epoch++) {
        const start = performance.now()
        await log.append(loggedAt(epoch))
        await log.ask()
        proof = Buffer.from(log.proof())
        provedMs.push(performance.now() - start)
        bytes.push(proof.length)
      }
      log.close()
      const checked = async (subtle: Parameters<typeof verifies>[3]) => {
        const map = Witnesses.of(`${line}\n${quorum}`, (...signed) => verifies(...signed, subtle)) as Witnesses
        const last = loggedAt(EPOCHS + epochs - 1)
        const samples: number[] = []
        for (let i = 0; i < CHECKS; i++) {
          const start = performance.now()
          if (!(await map.prove(proof, last))) throw new Error('expected a proof that holds, got another')
          samples.push(performance.now() - start)
        }
        return samples
      }
      const column = `${EPOCHS} epochs, ${NAMES.length} witnesses`
      return {
        title: 'Witnesses',
        figures: [
          { name: 'a proof', column, unit: 'bytes', target: ['≤', 1200], samples: bytes },
          { name: 'publisher: from the signature to the proof', column, unit: 'ms', samples: provedMs },
          { name: 'client: a proof, with WebCrypto', column, unit: 'ms', samples: await checked(crypto.subtle) },
          { name: '– in JavaScript', column, unit: 'ms', samples: await checked(undefined) },
        ],
      }
    })
  } finally {
    for (const witness of witnesses) await witness.close()
  }
}
