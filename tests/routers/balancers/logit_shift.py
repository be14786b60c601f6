#!/usr/bin/python3
"""Prints the expected numbers of logit_shift_test.cpp and held_sparsity_test.cpp, by the shift's formula in Python."""

from math import exp, log


def follow(actives, targets, k, gain):
    """The shift and the gain after each step. actives[i] and targets[i] are step i's experts per token and target."""
    shift, owed, square, last, out = 0.0, 0.0, 0.0, 0.0, []
    for active, target in zip(actives, targets):
        if target == k:
            owed = min(1.5, max(-1.5, owed + min(1, max(-1, active / k - 1))))
        error = min(1, max(-1, log(max(active / target, 1e-3)) + owed / 3))
        square = 0.8 * square + 0.2 * error ** 2
        if last:
            gain *= exp(0.2 * (min(1, max(-1, error * last / max(square, 1e-6))) + 0.1))
            gain = min(1, max(1e-4, gain))
        last = error
        shift -= gain * error
        out.append((round(shift, 6), round(gain, 6)))
    return out


def ramp(first, k, steps):
    """The targets of the steps 1..steps-1 on the way from `first` to k, and then k."""
    return [k * (first / k) ** (1 - i / steps) for i in range(1, steps)] + [k]


print("layer 0:", follow([4, 3, 1.6, 2.4, 2, 0], [2] * 6, 2, 0.5))
print("layer 1:", follow([1.6, 1.2, 2.4, 8, 2.4, 2], [2] * 6, 2, 0.5))
print("hold:", follow([4, 4, 3, 2], ramp(4, 2, 4), 2, 0.05), ramp(4, 2, 4))
