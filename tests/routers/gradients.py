#!/usr/bin/python3
"""Writes gradients_expected.h: gradients of selectors' weights and of balancers' losses with respect to the logits.

  tests/routers/gradients.py > tests/routers/gradients_expected.h

The script applies the published formulas token by token to the logits of gating.py. torch draws THOR's expert and
differentiates. A selector's gradient is that of sum(weights * probe). gating.py has the gradients of selectors with a
capacity and of the load loss.
"""
import math

import torch

from gating import CLEAN, E, PROBE, T, best, cv_squared, flat, gradient, over, softmax

IDS = [5, 0, 4, 11, 7, 2, 9, 3]
SEGMENT, SEQUENCE = 2, 4


def dense(rows):
    """Makes a table [T, E] from rows, which has a dict of gates by expert for each token."""
    weights = torch.zeros(len(rows), E)
    for t, gates in enumerate(rows):
        for e, gate in gates.items():
            weights[t, e] = gate
    return weights


def topk(k, form):
    def weights(z):
        rows = []
        for row in z:
            p, chosen = softmax(row), best(row, k)
            total = sum(p[e] for e in chosen) if form == "renormalised" else 1
            rows.append(over(row, chosen) if form == "after" else {e: p[e] / total for e in chosen})
        return dense(rows)
    return weights


def sigmoid_topk(k, divided):
    def weights(z):
        rows = []
        for row in z:
            s, chosen = [1 / (1 + torch.exp(-x)) for x in row], best(row, k)
            total = sum(s[e] for e in chosen) if divided else 1
            rows.append({e: s[e] / total for e in chosen})
        return dense(rows)
    return weights


def relu(z):
    """ReMoE, Eq. 5."""
    return dense([{e: x for e, x in enumerate(row) if x > 0} for row in z])


def capped_relu(most):
    """ReMoE, Eq. 5, over the `most` largest logits of each token."""
    def weights(z):
        return dense([{e: row[e] for e in best(row, most) if row[e] > 0} for row in z])
    return weights


def expert_choice(k):
    """Expert choice, Eq. 1-2: S = softmax over experts. Each expert takes its k·T/E best tokens of S transposed."""
    def weights(z):
        p = [softmax(row) for row in z]
        rows = [{} for _ in range(T)]
        for e in range(E):
            for t in sorted(range(T), key=lambda t: -float(p[t][e]))[:k * T // E]:
                rows[t][e] = p[t][e]
        return dense(rows)
    return weights


def lory(hidden):
    """Lory: a segment's router input is the mean of its rows, used here directly as logits.

    It routes the next segment. The first segment has no predecessor and uses its own input without a gradient."""
    own = []
    for start in range(0, T, SEGMENT):
        mean = sum(hidden[t] for t in range(start, start + SEGMENT)) / SEGMENT
        own.append(torch.stack(softmax(mean)))
    first = SEQUENCE // SEGMENT
    return torch.stack([own[s].detach() if s % first == 0 else own[s - 1] for s in range(len(own))])


def by_id(z):
    return dense([{i % E: 1.0} for i in IDS])


def thor(z):
    generator = torch.Generator().manual_seed(5)
    draw = torch.empty(1, dtype=torch.float32).uniform_(generator=generator).item()
    return dense([{int(draw * E): 1.0}] * T)


class Estimated(torch.autograd.Function):
    """For one token, forward B · p_s and backward p_s · (1[e = s] - p_e). GRIN's gradient estimate leaves B out."""

    @staticmethod
    def forward(ctx, row, p, s, b):
        ctx.save_for_backward(p)
        ctx.s = s
        return b * p[s]

    @staticmethod
    def backward(ctx, grad):
        p, s = ctx.saved_tensors[0], ctx.s
        return torch.stack([grad * p[s] * (float(e == s) - p[e]) for e in range(E)]), None, None, None


def sparsemixer(k, jitter):
    """SparseMixer-v2, one expert of the k after another. Each takes f32 draws of [T, E] and [T]."""
    def weights(z):
        generator = torch.Generator().manual_seed(5)

        def uniform(n):
            return torch.empty(n, dtype=torch.float32).uniform_(generator=generator).tolist()
        rows, taken = [{} for _ in range(T)], [set() for _ in range(T)]
        for _ in range(k):
            first, second = uniform(T * E), uniform(T)
            for t in range(T):
                row = [float(x) for x in z[t]]
                left = [e for e in range(E) if e not in taken[t]]
                top = max(left, key=lambda e: row[e])
                near = [e for e in left
                        if row[top] - row[e] <= 2 * jitter * max(abs(row[e]), row[top])]
                total = sum(math.exp(row[e]) for e in near)
                p = torch.tensor([math.exp(row[e]) / total if e in near else 0 for e in range(E)])
                s = max(near, key=lambda e: row[e] - math.log(-math.log(first[t * E + e])))
                b = 1 if s == top or second[t] > 0.75 else 1 / 3
                rows[t][s] = Estimated.apply(z[t], p, s, b)
                taken[t].add(s)
        return dense(rows)
    return weights


def mean_probability(z):
    return [sum(softmax(row)[e] for row in z) / T for e in range(E)]


def counts(weights):
    return (weights.detach() != 0).sum(0).tolist()


def load_balance(others=(0,) * E, more=0):
    """Switch, Eq. 4-6: E · Σ f P with a constant f. f may include the counts of other ranks."""
    def loss(z, weights, k):
        f = [(c + o) / (k * (T + more)) for c, o in zip(counts(weights), others)]
        return E * sum(x * p for x, p in zip(f, mean_probability(z)))
    return loss


def by_device(devices):
    """DeepSeekMoE, Eq. 15-17, times E/devices: the sum over devices of the mean f times the summed P."""
    def loss(z, weights, k):
        f, p, held = counts(weights), mean_probability(z), E // devices
        groups = [range(i * held, (i + 1) * held) for i in range(devices)]
        return E * sum(sum(f[e] for e in group) / held / (k * T) * sum(p[e] for e in group)
                       for group in groups)
    return loss


def sequences():
    return [range(start, start + SEQUENCE) for start in range(0, T, SEQUENCE)]


def load_balance_by_sequence(z, weights, k):
    """DeepSeek-V3, Eq. 17-20: the mean of the sequences' losses."""
    total = 0
    for rows in sequences():
        f = [sum(1 for t in rows if weights[t, e] != 0) / (k * len(rows)) for e in range(E)]
        p = [sum(softmax(z[t])[e] for t in rows) / len(rows) for e in range(E)]
        total = total + E * sum(x * y for x, y in zip(f, p))
    return total / len(sequences())


def adaptive_l1_by_sequence(z, weights, k):
    """ReMoE's loss with a separate f for each sequence."""
    total = 0
    for rows in sequences():
        f = [E * sum(1 for t in rows if weights[t, e] != 0) / (k * len(rows)) for e in range(E)]
        total = total + sum(f[e] * weights[t, e] for t in rows for e in range(E))
    return total / T


def z_loss(z, weights, k):
    """ST-MoE, Eq. 5."""
    return sum(torch.log(sum(torch.exp(x) for x in row)) ** 2 for row in z) / T


def locality(home):
    """LocMoE: KL of the experts' mean probability from the local distribution."""
    def loss(z, weights, k):
        local = [0.8 if e == home else 0.2 / (E - 1) for e in range(E)]
        return sum(p * torch.log(p / l) for p, l in zip(mean_probability(z), local))
    return loss


def importance(z, weights, k):
    """Shazeer et al., Eq. 6-7."""
    return cv_squared([sum(weights[t, e] for t in range(T)) for e in range(E)])


def adaptive_l1(power, layers=1, others=(0,) * E, more=0):
    """ReMoE, Eq. 7-10: mean over tokens (and layers) of Σ f R, f = E/(kT) · tokens with R > 0."""
    def loss(z, weights, k):
        f = [E * (c + o) / (k * (T + more)) for c, o in zip(counts(weights), others)]
        return sum(x ** power * weights[t, e] for t in range(T) for e, x in enumerate(f)) / (T * layers)
    return loss


def options(**named):
    def literal(value):
        return (f'std::string("{value}")' if isinstance(value, str) else
                str(value).lower() if isinstance(value, bool) else
                f"std::int64_t{{{value}}}" if isinstance(value, int) else str(value))
    return "{" + ", ".join(f'{{"{key}", {literal(value)}}}' for key, value in named.items()) + "}"


SELECTORS = [("topk", k, options(softmax=form), topk(k, form))
             for form in ("before", "after") for k in (1, 2, 3, 4)] + [
    ("topk", 3, options(renormalise=True), topk(3, "renormalised")),
    ("relu", 1, options(), relu),
    ("relu", 2, options(), relu),
    ("expert-choice", 1, options(), expert_choice(1)),
    ("expert-choice", 2, options(), expert_choice(2)),
    ("lory", 1, options(segment_length=SEGMENT), lory),
    ("hash", 1, options(), by_id),
    ("thor", 1, options(), thor),
    ("topk", 1, options(softmax="none"), sigmoid_topk(1, False)),
    ("topk", 3, options(softmax="none"), sigmoid_topk(3, False)),
    ("topk", 3, options(softmax="none", renormalise=True), sigmoid_topk(3, True)),
    ("sparsemixer-v2", 1, options(), sparsemixer(1, 0.01)),
    ("sparsemixer-v2", 1, options(jitter=0.6), sparsemixer(1, 0.6)),
    ("sparsemixer-v2", 2, options(jitter=0.4), sparsemixer(2, 0.4)),
    ("sparsemixer-v2", 4, options(jitter=0.4), sparsemixer(4, 0.4)),
    ("relu", 1, options(most=1), capped_relu(1)),
    ("relu", 2, options(most=2), capped_relu(2)),
    ("relu", 1, options(most=3), capped_relu(3)),
    ("relu", 2, options(most=4), relu),
]
TOP1, TOP2, AFTER2, RELU1, RELU2 = (SELECTORS[i] for i in (0, 1, 5, 9, 10))
CAPPED2 = SELECTORS[-3]
OTHERS = (3, 0, 1, 4)  # the counts by expert of another rank
ON_TWO_RANKS = f"{{{', '.join(map(str, OTHERS))}, {T}}}"
BALANCERS = [  # name, options, coefficient, rank, others' counts and tokens, selector, formula at coefficient 1
    ("load-balance", options(coefficient=0.5), 0.5, 0, "{}", TOP1, load_balance()),
    ("load-balance", options(coefficient=0.5), 0.5, 0, "{}", TOP2, load_balance()),
    ("load-balance", options(coefficient=0.5), 0.5, 0, "{}", AFTER2, load_balance()),
    ("load-balance", options(coefficient=0.5), 0.5, 0, "{}", RELU1, load_balance()),
    ("load-balance", options(coefficient=0.5, scope="global"), 0.5, 0, ON_TWO_RANKS, TOP2,
     load_balance(OTHERS, T)),
    ("load-balance", options(coefficient=0.5), 0.5, 0, "{}", CAPPED2, load_balance()),
    ("load-balance", options(coefficient=0.5, scope="device", devices=2), 0.5, 0, "{}", TOP2,
     by_device(2)),
    ("load-balance", options(coefficient=0.5, scope="device", devices=1), 0.5, 0, "{}", RELU1,
     by_device(1)),
    ("load-balance", options(coefficient=0.5, scope="sequence"), 0.5, 0, "{}", TOP2,
     load_balance_by_sequence),
    ("adaptive-l1", options(initial=0.5, scope="sequence"), 0.5, 0, "{}", RELU1,
     adaptive_l1_by_sequence),
    ("z-loss", options(coefficient=0.2), 0.2, 0, "{}", TOP2, z_loss),
    ("z-loss", options(coefficient=0.2), 0.2, 0, "{}", RELU1, z_loss),
    ("locality", options(coefficient=0.3, elsewhere=0.2), 0.3, 0, "{}", TOP1, locality(0)),
    ("locality", options(coefficient=0.3, elsewhere=0.2), 0.3, 2, "{}", RELU1, locality(2)),
    ("importance", options(coefficient=0.3), 0.3, 0, "{}", TOP2, importance),
    ("importance", options(coefficient=0.3), 0.3, 0, "{}", RELU1, importance),
    ("adaptive-l1", options(initial=0.5), 0.5, 0, "{}", RELU1, adaptive_l1(1)),
    ("adaptive-l1", options(initial=0.5), 0.5, 0, "{}", RELU2, adaptive_l1(1)),
    ("adaptive-l1", options(initial=0.5), 0.5, 0, "{}", CAPPED2, adaptive_l1(1)),
    ("adaptive-l1", options(initial=0.5, f_power=2), 0.5, 0, "{}", RELU2, adaptive_l1(2)),
    ("adaptive-l1", options(initial=0.5, load_balanced=False), 0.5, 0, "{}", RELU1, adaptive_l1(0)),
    ("adaptive-l1", options(initial=0.5, layers="mean"), 0.5, 0, "{}", RELU1, adaptive_l1(1, 5)),
    ("adaptive-l1", options(initial=0.5, scope="global"), 0.5, 0, ON_TWO_RANKS, RELU1,
     adaptive_l1(1, 1, OTHERS, T)),
]


def main():
    print("// Written by gradients.py; do not edit.\n// clang-format off\n#pragma once\n")
    print('#include "tests/routers/parts.h"\n\nnamespace penstock::testing {\n')
    print(f"inline const std::vector<std::int64_t> kTokenIds = {{{', '.join(map(str, IDS))}}};")
    print(f"inline constexpr std::int64_t kSequence = {SEQUENCE};\n")
    print("struct SelectorCase {\n  std::string selector;\n  double k;\n  Options options;\n"
          "  std::vector<double> weights;  ///< [T, E], or [segments, E] for a selector that blends experts\n"
          "  std::vector<double> grad;     ///< [T, E], gradient of sum(weights * probe)\n};")
    print("inline const std::vector<SelectorCase> kSelectorCases = {")
    for name, k, given, choose in SELECTORS:
        z = CLEAN.clone().requires_grad_()
        weights = choose(z)
        print(f'    {{"{name}", {k}, {given},\n     {flat(weights)},\n'
              f"     {flat(gradient((weights * PROBE[:len(weights)]).sum(), z))}}},")
    print("};\n")
    print("struct BalancerCase {\n  std::string balancer;\n  Options options;\n  std::int64_t rank;\n"
          "  std::vector<double> others;  ///< another rank's tokens by expert and its number of tokens, or empty\n"
          "  std::string selector;\n  double k;\n  Options selector_options;\n"
          "  double loss;\n"
          "  std::vector<double> grad;   ///< [T, E], gradient of the loss\n"
          "  std::vector<double> joint;  ///< [T, E], gradient of loss + sum(weights * probe)\n};")
    print("inline const std::vector<BalancerCase> kBalancerCases = {")
    for name, given, coefficient, rank, others, (selector, k, chosen, choose), formula in BALANCERS:
        z = CLEAN.clone().requires_grad_()
        weights = choose(z)
        loss = coefficient * formula(z, weights, k)
        print(f'    {{"{name}", {given}, {rank}, {others}, "{selector}", {k}, {chosen},\n'
              f"     {loss.item():.17g},\n     {flat(gradient(loss, z))},\n"
              f"     {flat(gradient(loss + (weights * PROBE).sum(), z))}}},")
    print("};\n\n}  // namespace penstock::testing")


if __name__ == "__main__":
    main()
