// A map of mode `filter` through many epochs, drawn from a seed: adds, deletes, keys that come back, growth, generations, and tabs that are
// killed while they follow.

import { Chance } from '../chance.js'
import { Batches } from '../living/batches.js'
import { Stage } from './stage.js'
import { Profile } from './tab.js'
import { linesOf } from './truth.js'

/** Throws if a listed key is excluded, or if few others are. Returns how much was met. */
export async function throughEpochs(seed: number, epochs: number) {
  const met = { epochs: 0, generations: 0, kills: 0, 'keys asked for': 0 }
  await Stage.play({ servers: 1, seed, ground: seed % 2 === 0 ? 'keyed' : 'packed' }, async stage => {
    const { truth } = stage.world
    const chance = new Chance(seed)
    const batches = new Batches(chance, truth.newest)
    const profile = new Profile()
    const open = () => stage.open({ mode: 'filter', storage: 'preferred', push: false }, profile)
    let tab = await open()
    while (met.epochs < epochs) {
      for (let several = chance.pick([1, 1, 1, 4]); several > 0; several--) {
        const isLaidOut = chance.happens(0.03)
        const generation = [{ op: 'generation', headroom: chance.below(12) }]
        const before = truth.newest
        await stage.publish(linesOf(isLaidOut ? generation : batches.next(before)), { again: true })
        met.epochs += truth.newest.epoch - before.epoch
        met.generations += truth.newest.shape.generation - before.shape.generation
      }
      if (chance.happens(0.1)) {
        tab.sync()
        await stage.pass(chance.below(300))
        tab.kill()
        met.kills++
        tab = await open()
      }
      await stage.done(tab.sync())
      const { epoch, keys } = truth.newest
      const map = tab.map!
      if (map.filter?.epoch !== epoch || map.filter.state !== 'ready') {
        throw new Error(`expected a filter at epoch ${epoch}, got ${JSON.stringify(map.filter)}`)
      }
      const excluded = keys.filter(key => map.excludes(key))
      if (excluded.length > 0) throw new Error(`epoch ${epoch}: listed, and excluded: ${excluded}`)
      const gone = [...new Set(batches.deleted)].filter(key => truth.newest.get(key) === undefined)
      if (gone.filter(key => !map.excludes(key)).length > 3) throw new Error(`epoch ${epoch}: too few are excluded`)
      met['keys asked for'] += keys.length + gone.length
    }
    await stage.done(tab.close())
  })
  return met
}
