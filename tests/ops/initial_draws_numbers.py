#!/usr/bin/env python3
"""Prints values of penstock/ops/initial_draws.h, computed by the definition in double precision.

For a few (seed, name), the script prints the first values of N(0, 1). initial_draws_test.cpp compares with them. The
hash is from Debian's python3-xxhash, and the bits are by SplitMix64.
"""
import math

import xxhash

MASK = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def values(seed, name, count):
    stream = xxhash.xxh64(name.encode()).intdigest()
    out = []
    for pair in range((count + 1) // 2):
        bits = mix((mix(mix(seed) ^ stream) + pair) & MASK)
        radius = math.sqrt(-2 * math.log(((bits >> 32) + 0.5) / 2**32))
        angle = 2 * math.pi * (bits & 0xFFFFFFFF) / 2**32
        out += [radius * math.cos(angle), radius * math.sin(angle)]
    return out[:count]


if __name__ == "__main__":
    for seed, name in [(1, "embed_tokens"), (7, "layer_0.mlp.experts.gate_up")]:
        print(seed, name, ", ".join(f"{value:.7f}" for value in values(seed, name, 5)))
