# The security estimates of lookups with one server (docs/review-one-server.md). Parameters come from docs/protocol/one-server.md.
#
#   git clone https://github.com/malb/lattice-estimator && git -C lattice-estimator checkout 27a581bb8e9d49f5e9e2db315bd48ac769d5f5f5
#   python3 -m venv sage && sage/bin/pip install passagemath-standard-no-symbolics==10.8.13 passagemath-symbolics==10.8.13
#   sage/bin/python -W ignore tools/estimate-one-server.py lattice-estimator
#
# It takes a minute, in Python 3.11. Figures are binary logarithms of operations, for as many samples as an attack wants. `hybrid` is the
# dual hybrid attack. `once` is the block size of a reduction after which requests under the same matrix need none.
import re
import sys
from math import log2, sqrt
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from estimator import LWE, ND, RC, schemes
from estimator.lwe_primal import PrimalHybrid
from sage.all import oo
from sage.version import version

page = (Path(__file__).parent.parent / 'docs/protocol/one-server.md').read_text()
degree, *primes = map(int, re.search(r'n = (\d+) .* q = (\d+)·(\d+) ', page).groups())
modulus = primes[0] * primes[1]
secret, error, digit = map(float, re.search(r'deviation ([\d.]+), ([\d.]+) and ([\d.]+)\n', page).groups())
own_noise = digit * sqrt(sum(64**i for i in range(11)) + 36 * 64**10)


def request(tag, secret=secret, error=error):
    gauss = ND.DiscreteGaussian
    return LWE.Parameters(n=degree, q=modulus, Xs=gauss(secret), Xe=gauss(error), m=oo, tag=tag)


def left(tag, norm):
    """After the reduction, for a largest singular value of 2^norm, scaled (protocol, Norms)."""
    factor = 1 / sqrt(2 * (1 + (2**norm / own_noise) ** 2))
    return request(tag, secret * factor, error * factor)


def once(params):
    """The least block size after which rounding (Babai) decodes half of all requests under one matrix, without another reduction."""
    low, high = 40, 2000  # below this fails, above it works
    while high - low > 1:
        middle = (low + high) // 2
        found = PrimalHybrid.beta_params(middle, params, babai=True)['babai_probability'] >= 0.5
        low, high = (low, middle) if found else (middle, high)
    return high


# Scaled norms: measured (three databases each, equal to 0.01), and the most that the builder lets pass.
cases = [
    request('a request'),
    left('left at 2 outputs', 36.73),
    left('left at 8 outputs', 37.24),
    left('left at 16 outputs', 37.57),
    left("left at the builder's limit", 37.7),
    schemes.Kyber512.updated(tag='ML-KEM-512'),
]
attacks = LWE.primal_usvp, LWE.primal_bdd, LWE.dual, LWE.dual_hybrid
core = {'red_cost_model': RC.ADPS16}

print(f'passagemath {version}, n = {degree}, log2 q = {log2(modulus):.2f}, own noise 2^{log2(own_noise):.2f}')
print('                                               core-SVP        default model')
print('                             secret  errors   usvp  hybrid     usvp    bdd   dual  hybrid    once')
for params in cases:
    bits = [
        log2(cost['rop'])
        for cost in (
            LWE.primal_usvp(params, red_shape_model='gsa', **core),
            LWE.dual_hybrid(params, **core),
            *(attack(params) for attack in attacks),
        )
    ]
    figures = '{:7.1f} {:7.1f}  {:7.1f}{:7.1f}{:7.1f} {:7.1f}'.format(*bits)
    print(f'{params.tag:28} {params.Xs.stddev:6.2f}  {params.Xe.stddev:6.2f}{figures}   {once(params):5}', flush=True)
