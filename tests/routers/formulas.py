#!/usr/bin/python3
"""Prints the constants in the tests of selectors and balancers, by the formulas alone (no Penstock, no tensors)."""
import math
from fractions import Fraction

Z = [[1.0, 0.5, -0.3, 0.2], [-0.7, 0.4, 0.9, 0.1], [0.3, -1.2, 0.8, 0.6], [2.0, -0.5, 0.0, -1.0]]
T, E, K = 4, 4, 2


def softmax(row):
    total = sum(math.exp(x) for x in row)
    return [math.exp(x) / total for x in row]


def show(name, rows):
    print(f"// {name}")
    for row in rows:
        print("{" + ", ".join(f"{x:.15g}" for x in row) + "},")


P = [softmax(row) for row in Z]
KEPT = [sorted(range(E), key=lambda e: (-row[e], e))[:K] for row in Z]
before = [[P[t][e] if e in KEPT[t] else 0 for e in range(E)] for t in range(T)]
show("top-2, softmax before", before)
show("renormalised", [[x / sum(row) for x in row] for row in before])
after = []
for t in range(T):
    kept = softmax([Z[t][e] for e in sorted(KEPT[t])])
    after.append([kept[sorted(KEPT[t]).index(e)] if e in KEPT[t] else 0 for e in range(E)])
show("softmax after", after)

counts = [sum(e in kept for kept in KEPT) for e in range(E)]
means = [sum(P[t][e] for t in range(T)) / T for e in range(E)]
print("load-balance 0.01:", f"{0.01 * E * sum(c / (K * T) * m for c, m in zip(counts, means)):.15g}")
print("z-loss 0.001:", f"{0.001 * sum(math.log(sum(map(math.exp, r))) ** 2 for r in Z) / T:.15g}")

# ReMoE at nominal k = 1, λ = 0.5.
k, lam = 1, 0.5
R = [[max(x, 0) for x in row] for row in Z]
on = [sum(R[t][e] > 0 for t in range(T)) for e in range(E)]
column = [sum(R[t][e] for t in range(T)) for e in range(E)]
print("relu: active", sum(on), "of", T * E, "by expert", on)
print("adaptive-l1:", f"{lam * E / (k * T * T) * sum(c * s for c, s in zip(on, column)):.15g}")
f = [E * c / (k * T) for c in on]
print("f squared:", f"{lam / T * sum(x * x * s for x, s in zip(f, column)):.15g}")
print("plain:", f"{lam / T * sum(column):.15g}")
print("gradient on each positive gate:", [lam * E * c / (k * T * T) for c in on])

columns = [[P[t][e] for t in range(T)] for e in range(E)]
taken = [sorted(range(T), key=lambda t: (-col[t], t))[:T * K // E] for col in columns]
show("expert choice", [[P[t][e] if t in taken[e] else 0 for e in range(E)] for t in range(T)])

print("lowest taken:", [f"{min(P[t][e] for t in taken[e]):.15g}" for e in range(E)])
THRESHOLDS = [0.125, 0.25, 0.375, 0.1875]
show("expert choice by thresholds",
     [[P[t][e] if P[t][e] >= THRESHOLDS[e] else 0 for e in range(E)] for t in range(T)])

# Lory: the rows of Z are the logits of the segments, 2 sequences of 2 segments each.
show("lory", [P[0], P[0], P[2], P[2]])

# SMoE-Dropout's schedules, k from 8 to 16 over 400000 steps: prints the first step of each value of k.
def linear(step, total, low=8, high=16):
    return round(Fraction((high - low) * step, total)) + low


def cosine(step, total, low=8, high=16):
    return round(high - (high - low) * math.cos(math.pi * step / (2 * total)))


def switches(schedule, total):
    return [s for s in range(1, total + 1) if schedule(s, total) != schedule(s - 1, total)]


print("linear 8 to 16:", switches(linear, 400_000))
print("cosine 8 to 16 over 1000:", switches(cosine, 1000))


# Draws k at each step: SplitMix64's finaliser over seed, stream 0x6b and step, then multiply-shift.
def mix64(x):
    mask = 2 ** 64 - 1
    x = (x + 0x9e3779b97f4a7c15) & mask
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & mask
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & mask
    return x ^ (x >> 31)


def drawn(seed, step, values):
    bits = mix64((mix64(mix64(seed) ^ 0x6b) + step) % 2 ** 64)
    return values[bits * len(values) >> 64]


for seed in (0, 7):
    print(f"drawn of 1, 2, 4, 8, 16, seed {seed}:", [drawn(seed, s, [1, 2, 4, 8, 16]) for s in range(16)])
