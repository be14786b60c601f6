#!/usr/bin/python3
"""Writes blocks_expected.h: blocks of GGUF's quantised types and their values.

  tests/io/blocks.py > tests/io/blocks_expected.h

The script reads each type bit by bit, as the format's description lists its fields, with whole-array NumPy operations
in f64. Each result is exact in f32 or is rounded to f32 once.
"""
import sys

import numpy as np

generator = np.random.default_rng(7)


def halves(raw, at):
    """The f16 at byte `at` of each block, as a column."""
    return raw[:, at:at + 2].copy().view(np.float16).astype(np.float64)


def nibbles(raw):
    """[n, b] bytes -> [n, 2, b]: the low and the high four bits."""
    return np.stack([raw & 15, raw >> 4], axis=1).astype(np.float64)


def bits(raw):
    """[n, b] bytes -> [n, b, 8] bits, the lowest bit first."""
    return np.unpackbits(raw[:, :, None], axis=2, bitorder="little")


def q4_0(raw):
    return (nibbles(raw[:, 2:]).reshape(-1, 32) - 8) * halves(raw, 0)


def q4_1(raw):
    return nibbles(raw[:, 4:]).reshape(-1, 32) * halves(raw, 0) + halves(raw, 2)


def q5_0(raw):
    fifth = bits(raw[:, 2:6]).reshape(-1, 32)
    return (nibbles(raw[:, 6:]).reshape(-1, 32) + 16.0 * fifth - 16) * halves(raw, 0)


def q5_1(raw):
    fifth = bits(raw[:, 4:8]).reshape(-1, 32)
    return (nibbles(raw[:, 8:]).reshape(-1, 32) + 16.0 * fifth) * halves(raw, 0) + halves(raw, 2)


def q8_0(raw):
    return raw[:, 2:].copy().view(np.int8).astype(np.float64) * halves(raw, 0)


def six_bit_pairs(packed):
    """[n, 12] bytes, three groups of four -> scales and minima [n, 8]."""
    a, b, c = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scale = np.concatenate([a % 64, c % 16 + 16 * (a // 64)], axis=1)
    minimum = np.concatenate([b % 64, c // 16 + 16 * (b // 64)], axis=1)
    return scale.astype(np.float64), minimum.astype(np.float64)


def scaled(raw, codes):
    """The values [n, 256] of codes [n, 8, 32], with the scales and minima at the front of the block."""
    scale, minimum = six_bit_pairs(raw[:, 4:16])
    by, off = halves(raw, 0) * scale, halves(raw, 2) * minimum
    return (codes * by[:, :, None] - off[:, :, None]).reshape(-1, 256)


def q4_k(raw):
    return scaled(raw, nibbles(raw[:, 16:].reshape(-1, 32)).reshape(-1, 8, 32))


def q5_k(raw):
    fifth = bits(raw[:, 16:48]).transpose(0, 2, 1)  # [n, 8, 32]
    return scaled(raw, nibbles(raw[:, 48:].reshape(-1, 32)).reshape(-1, 8, 32) + 16.0 * fifth)


def q6_k(raw):
    low = nibbles(raw[:, :128].reshape(-1, 64)).reshape(-1, 2, 4, 32)  # halves, rows
    pairs = bits(raw[:, 128:192]).reshape(-1, 2, 32, 4, 2).astype(np.float64)
    high = (pairs[..., 0] + 2 * pairs[..., 1]).transpose(0, 1, 3, 2)  # [n, 2, 4, 32]
    codes = (low + 16 * high - 32).reshape(-1, 16, 16)
    by = raw[:, 192:208].copy().view(np.int8).astype(np.float64) * halves(raw, 208)
    return (codes * by[:, :, None]).reshape(-1, 256)


# Type, bytes of a block, offsets of its f16 numbers, number of blocks.
TYPES = ((q4_0, 18, (0,), 3), (q4_1, 20, (0, 2), 3), (q5_0, 22, (0,), 3), (q5_1, 24, (0, 2), 3),
         (q8_0, 34, (0,), 3), (q4_k, 144, (0, 2), 3), (q5_k, 176, (0, 2), 2), (q6_k, 210, (208,), 2))


def blocks(size, places, count):
    raw = generator.integers(0, 256, (count, size), dtype=np.uint8)
    for at in places:  # draws scales of both signs, from subnormal to large
        scale = generator.standard_normal(count) * 10.0 ** generator.integers(-7, 3, count)
        raw[:, at:at + 2] = scale.astype(np.float16)[:, None].view(np.uint8)
    return raw


def main():
    print("// Written by blocks.py; do not edit.\n// clang-format off\n#pragma once\n")
    print("#include <string>\n#include <vector>\n\nnamespace penstock::testing {\n")
    print("/// The name of a GGUF type, some blocks of this type, and their values in f32. Blocks and values are hexadecimal bytes.")
    print("struct BlocksCase {\n  const char* name;\n  std::string blocks, values;\n};")
    print("inline const std::vector<BlocksCase> kBlocks = {")
    for read, size, places, count in TYPES:
        raw = blocks(size, places, count)
        values = read(raw).astype("<f4")
        print(f'    {{"{read.__name__.upper()}", "{raw.tobytes().hex()}",\n     "{values.tobytes().hex()}"}},')
    print("};\n\n}  // namespace penstock::testing")


if __name__ == "__main__":
    sys.exit(main())
