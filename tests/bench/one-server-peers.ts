// What the authors' code of schemes for one server takes: docs/benchmarks.md has it below ours.

export const ONE_SERVER_PEERS = `The authors' code, native (AVX-512, nightly Rust), on the same machine in the same hour, 27 November 2026 (two rounds):

| | records | up | down | server | client asks | prepare |
| --- | --- | --: | --: | --: | --: | --: |
| YPIR+SP (menonsamir/ypir at a73e550, its spiral-rs at 6929441) | 2¹⁶ × 32 B | 487 kB | 12.3 kB | 46–49 ms | 37–41 ms | 1 s |
| | 2²⁰ × 32 B | 588 kB | 12.3 kB | 55–61 ms | 38–43 ms | 1.3 s |
| | 2²² × 32 B | 703 kB | 24.6 kB | 114–123 ms | 42 ms | 3.3 s |
| | 2²⁰ × 256 B | 703 kB | 49.2 kB | 204–224 ms | 41–43 ms | 6.3 s |
| InsPIRe (google/private-membership at 89f0451) | 2²⁰ × 32 B | 186 kB | 12.3 kB | 136–142 ms | 95–97 ms | 47 s |

\`\`\`sh
run --is-simplepir 9363 28672 1 5
inspire --num-items 1048576 --item-size-bits 256 --dim0 2048 --trials 5
\`\`\`

Neither needs a hint, nor verifies answers. Ours: 45.7 kB up, 10.3 kB down, 34.8 kB of hint an epoch.`
