// What the authors' code of schemes for one server takes: docs/benchmarks.md has it below ours.

export const ONE_SERVER_PEERS = `The authors' code, native (AVX-512, nightly Rust), 2²⁰ × 32 B, on 2 × Intel Xeon on 23 November 2026 (three rounds):

|                                                                 |     up |    down |    server | client asks | prepare |
| --------------------------------------------------------------- | -----: | ------: | --------: | ----------: | ------: |
| YPIR+SP (menonsamir/ypir at a73e550, its spiral-rs at 6929441)  | 588 kB | 12.3 kB |  52–61 ms |    55–60 ms | 1.5–2 s |
| InsPIRe (google/private-membership at 89f0451)                  | 186 kB | 12.3 kB | 90–128 ms |       69 ms |    52 s |

\`\`\`sh
run --is-simplepir 9363 28672 1 3
inspire --num-items 1048576 --item-size-bits 256 --dim0 2048 --trials 5
\`\`\`

Neither needs a hint, nor verifies answers. Ours: 45.7 kB up, 10.3 kB down, 34.8 kB of hint an epoch.`
