// Compiles packages/pointproofs/rust/wasm to WebAssembly, into packages/pointproofs/generated/. It makes two variants: `pointproofs`
// verifies proofs and takes part in ceremonies, and is there as a string too; `prover` can make proofs as well, for servers.
import { join } from 'node:path'
import { buildVariants, inGenerated, inline } from './build-wasm.mjs'

const folder = 'packages/pointproofs/generated'
export const pointproofsOutputs = [
  ...['pointproofs.js', 'pointproofs.d.ts', 'pointproofs_bg.wasm', 'inline.js', 'inline.d.ts'],
  ...['prover.js', 'prover.d.ts', 'prover_bg.wasm'],
].map(name => `${folder}/${name}`)

export async function buildPointproofs() {
  await inGenerated(folder, async fresh => {
    await buildVariants('packages/pointproofs/rust', fresh, {
      pointproofs: [],
      prover: ['--features', 'prover'],
    })
    inline(join(fresh, 'pointproofs_bg.wasm'), join(fresh, 'inline'))
  })
}
