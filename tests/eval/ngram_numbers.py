#!/usr/bin/python3
"""Writes ngram_numbers.txt: probabilities of an interpolated modified Kneser-Ney model of a small text.

  tests/eval/ngram_numbers.py > tests/eval/ngram_numbers.txt

The script follows Chen & Goodman's formulas directly, with dictionaries of tuples over the whole text. It shares
nothing with the C++ code, which numbers contexts and never forms an n-gram. A fixed linear congruential generator draws
the text from a skewed distribution. In the middle orders, n-grams with counts 1 to 4 all exist, so the discounts'
formula is used. In the lowest order some of these counts do not occur, so the fallback is used.
Lines: order, context (oldest first), token, probability.
"""
from collections import Counter

VOCAB, LENGTH = 12, 700


def text():
    x, out = 12345, []
    for _ in range(LENGTH):
        x = (1103515245 * x + 12345) % 2**31
        u = x / 2**31
        out.append((int(VOCAB * u**2.5) + (out[-1] if out else 0)) % (VOCAB - 1))  # token 11 never occurs
    return out


TEXT = text()


def counts(order):
    """Counts of n-grams by length, 1 to `order`: occurrences for length `order`, different predecessors below."""
    table = {order: Counter(tuple(TEXT[i:i + order]) for i in range(LENGTH - order + 1))}
    for n in range(1, order):
        before = {}
        for i in range(LENGTH - n + 1):
            before.setdefault(tuple(TEXT[i:i + n]), set()).add(TEXT[i - 1] if i else 'begin')
        table[n] = Counter({gram: len(left) for gram, left in before.items()})
    return table


def discounts(counter):
    n = [sum(1 for c in counter.values() if c == i) for i in range(1, 5)]
    if 0 in n:
        return [0.5, 1.0, 1.5]
    y = n[0] / (n[0] + 2 * n[1])
    d = [i + 1 - (i + 2) * y * n[i + 1] / n[i] for i in range(3)]
    return d if all(0 <= d[i] <= i + 1 for i in range(3)) else [0.5, 1.0, 1.5]


def probability(table, order, context, token):
    p = 1 / VOCAB
    for n in range(1, order + 1):
        if n - 1 > len(context):
            break
        h = tuple(context[len(context) - (n - 1):])
        after = {gram[-1]: c for gram, c in table[n].items() if gram[:-1] == h}
        if not after:
            break
        d, total = discounts(table[n]), sum(after.values())
        kept_back = sum(d[min(c, 3) - 1] for c in after.values())
        c = after.get(token, 0)
        p = (c - d[min(c, 3) - 1] if c else 0) / total + kept_back / total * p
    return p


print('# text', *TEXT)
for order in range(1, 6):
    table = counts(order)
    for context in (TEXT[100:100 + order - 1], TEXT[0:2], [11, 3], [0, 11], [], TEXT[-5:]):
        for token in (0, 4, 9, 11):
            print(order, len(context), *context, token, repr(probability(table, order, context, token)))
