#!/usr/bin/python3
"""Prints the numbers of frequency_test.cpp: the number of active experts against token frequency and surprisal.
Correlations are by numpy.corrcoef, partial correlations are those of the residuals of least squares, slopes are by
numpy.linalg.lstsq, and bins are by loops. The script shares nothing with Penstock but the made-up positions. Position n
has token 7n mod 5, which occurs FREQUENCY times in the corpus, and a surprisal of 2.6 + 2.5 sin(0.7 n) nats. Layer 0
has (n mod 2) active experts, and two more if the token is below 2. Layer 1 has (n mod 3) active experts, and one more
if the surprisal is 3 nats or more.
"""
import numpy as np

FREQUENCY = np.array([3.0, 8.0, 9.0, 100.0, 40.0])
LEASTS = [0, 0.5, 1, 2, 4, 8]

n = np.arange(40)
token = 7 * n % 5
x = np.log2(FREQUENCY[token])
s = 2.6 + 2.5 * np.sin(0.7 * n)
layers = [n % 2 + 2.0 * (token < 2), n % 3 + 1.0 * (s >= 3)]


def rest(y, of):
    basis = np.stack([np.ones_like(of), of], 1)
    return y - basis @ np.linalg.lstsq(basis, y, rcond=None)[0]


def correlations(a):
    def r(u, v):
        return np.corrcoef(u, v)[0, 1]
    slopes = np.linalg.lstsq(np.stack([np.ones_like(x), x, s], 1), a, rcond=None)[0]
    return [r(x, a), r(s, a), r(x, s), r(rest(x, s), rest(a, s)), r(rest(s, x), rest(a, x)), slopes[1], slopes[2]]


mean = (layers[0] + layers[1]) / 2
for name, a in [("layer 0", layers[0]), ("layer 1", layers[1]), ("whole", mean)]:
    print(name, ", ".join(f"{value:.12f}" for value in correlations(a)))
print("frequency bins: least, tokens, places, mean, sd")
for power in range(1, 8):
    inside = (x >= power) & (x < power + 1)
    if inside.any():
        print(2 ** power, len(set(token[inside])), inside.sum(), f"{mean[inside].mean():.12f}, {mean[inside].std():.12f}")
        for least, limit in zip(LEASTS, LEASTS[1:] + [np.inf]):
            cell = inside & (s >= least) & (s < limit)
            print("   from", least, cell.sum(), f"{mean[cell].mean():.12f}" if cell.any() else "-")
