#!/usr/bin/python3
"""Writes gating_expected.h: top-k with capacity, GShard's choice, CV² losses and biased choices, with gradients.

  tests/routers/gating.py > tests/routers/gating_expected.h

The script follows the published algorithms in plain Python loops. It uses torch for gradients and for GShard's uniform
draws, so that they equal those of libtorch's generator. A selector's gradients are those of sum(weights * probe).
"""
import math

import torch

torch.set_default_dtype(torch.float64)
T, E = 8, 4
Z = [[1.0, 0.5, -0.3, 0.2], [-0.7, 0.4, 0.9, 0.1], [1.3, -1.2, 0.8, 0.6], [2.0, -0.5, 0.0, -1.0],
     [0.9, 0.3, 0.1, -0.4], [0.2, 1.1, 0.6, -0.9], [1.5, 1.4, -0.2, 0.3], [0.7, -0.1, 0.65, 0.0]]
CLEAN = torch.tensor(Z)
PROBE = torch.cos(torch.arange(T * E) ** 1.1 + 0.2).reshape(T, E)


def softmax(row):
    total = sum(torch.exp(x) for x in row)
    return [torch.exp(x) / total for x in row]


def best(row, k):
    return sorted(range(E), key=lambda e: (-float(row[e]), e))[:k]


def over(row, chosen):
    kept = softmax([row[e] for e in chosen])
    return {e: w for e, w in zip(chosen, kept)}


def topk_capacity(z, k, factor, after):
    capacity = math.ceil(factor * k * T / E)
    load, demand, lost = [0] * E, [0] * E, 0
    weights = torch.zeros(T, E)
    for t, row in enumerate(z):
        chosen = best(row, k)
        gate = over(row, chosen) if after else dict(enumerate(softmax(row)))
        for e in sorted(chosen):
            demand[e] += 1
            if load[e] < capacity:
                load[e] += 1
                weights[t, e] = gate[e]
            else:
                lost += 1
    return weights, demand, lost


def gshard(z, factor, draws):
    """Algorithm 1 of GShard. If draws is None, the second expert of every token is kept."""
    capacity = math.ceil(factor * 2 * T / E)
    count, lost = [0] * E, 0
    weights = torch.zeros(T, E)
    gates = [over(row, best(row, 2)) for row in z]
    for t, row in enumerate(z):
        e = best(row, 1)[0]
        if count[e] < capacity:
            weights[t, e] = gates[t][e]
        else:
            lost += 1
        count[e] += 1
    demand = list(count)
    for t, row in enumerate(z):
        e = best(row, 2)[1]
        if draws is not None and not 2 * gates[t][e] > draws[t]:
            continue
        if count[e] < capacity:
            weights[t, e] = gates[t][e]
        else:
            lost += 1
        count[e] += 1
    return weights, demand, lost


def biased(z, bias, k, form, divided):
    """DeepSeek-V3, Eq. 12-16: chooses the k highest values of score + bias. The gate is the score without the bias."""
    weights, counts = torch.zeros(T, E), [0] * E
    for t, row in enumerate(z):
        s = [1 / (1 + torch.exp(-x)) for x in row] if form == "none" else softmax(row)
        chosen = best([float(s[e]) + bias[e] for e in range(E)], k)
        total = sum(s[e] for e in chosen) if divided or form == "after" else 1
        for e in chosen:
            weights[t, e] = s[e] / total
            counts[e] += 1
    return weights, counts


def moved(bias, counts, rate):
    """The biases after one step of Algorithm 1 of Loss-Free Balancing: b + u * sign(mean load - load)."""
    mean = sum(counts) / E
    return [b + rate * ((mean > c) - (mean < c)) for b, c in zip(bias, counts)]


def balance(z, demand):
    """Switch's loss at coefficient 1: E · Σ f · mean probability. f is the share of the demand, a constant."""
    mean = [sum(softmax(row)[e] for row in z) / T for e in range(E)]
    return E * sum(c / sum(demand) * m for c, m in zip(demand, mean))


def cv_squared(x):
    mean = sum(x) / len(x)
    return sum((v - mean) ** 2 for v in x) / (len(x) - 1) / (mean ** 2 + 1e-10)


SCALE = 0.3 + 0.2 * torch.sin(torch.arange(T * E) * 0.9).reshape(T, E)
NOISE = torch.cos(torch.arange(T * E) ** 1.3 + 0.4).reshape(T, E)


def load_loss(clean, scale, k):
    """The load loss for fixed noise. It compares each expert with the k-th highest noisy logit of the other experts."""
    noisy = clean + NOISE * scale
    loads = []
    for e in range(E):
        total = 0
        for t in range(T):
            others = sorted((noisy[t, i] for i in range(E) if i != e), reverse=True)
            distance = (clean[t, e] - others[k - 1]) / scale[t, e]
            total = total + 0.5 * (1 + torch.erf(distance / math.sqrt(2)))
        loads.append(total)
    return cv_squared(loads)


def importance_loss(clean, scale, k):
    noisy = clean + NOISE * scale
    gates = [0] * E
    for t in range(T):
        chosen = best(noisy[t].tolist(), k)
        total = sum(torch.exp(noisy[t, e]) for e in chosen)
        for e in chosen:
            gates[e] = gates[e] + torch.exp(noisy[t, e]) / total
    return cv_squared(gates)


def braces(numbers):
    return "{" + ", ".join(f"{x:.17g}" for x in numbers) + "}"


def flat(table):
    return braces(table.detach().flatten().tolist())


def gradient(value, leaf):
    """The gradient of the value with respect to the leaf; zeros if the value is a constant."""
    if not value.requires_grad:
        return torch.zeros_like(leaf)
    return torch.autograd.grad(value, leaf, retain_graph=True)[0]


def case(k, factor, after, choose):
    z = CLEAN.clone().requires_grad_()
    weights, demand, lost = choose(z)
    loss = balance(z, demand)
    print(f"    {{{k}, {factor}, {str(after).lower()}, {flat(weights)}, {braces(demand)}, {lost}, "
          f"{loss.item():.17g},\n     {flat(gradient((weights * PROBE).sum(), z))},\n"
          f"     {flat(gradient(loss, z))}}},")



def main():
    print("// Written by gating.py; do not edit.\n// clang-format off\n#pragma once\n")
    print("#include <cstdint>\n#include <vector>\n\nnamespace penstock::testing {\n")
    print(f"inline const std::vector<double> kLogits = {flat(CLEAN)};  // [{T}, {E}]")
    print(f"inline const std::vector<double> kWeightProbe = {flat(PROBE)};")
    print(f"inline const std::vector<double> kScale = {flat(SCALE)};")
    print(f"inline const std::vector<double> kNoise = {flat(NOISE)};\n")
    print("struct CapacityCase {\n  std::int64_t k;\n  double capacity;\n  bool after;\n"
          "  std::vector<double> weights;\n  std::vector<std::int64_t> demand;\n"
          "  std::int64_t overflow;\n  double balance_loss;\n"
          "  std::vector<double> weights_grad, balance_grad;  ///< [T, E]\n};")
    print("inline const std::vector<CapacityCase> kTopKCapacity = {")
    for k, factor, after in ((1, 1.25, False), (1, 0.5, False), (2, 1.0, True), (2, 1.25, False),
                             (2, 4.0, True), (1, 0.0, False)):
        case(k, factor, after, lambda z: topk_capacity(z, k, factor, after))
    print("};\n")
    print("/// In evaluation each token asks for a place at its second expert. In training the draws of seed 5 decide which tokens ask.")
    for name, draws in (("kGShardEvaluation", None), ("kGShardTraining", "seeded")):
        print(f"inline const std::vector<CapacityCase> {name} = {{")
        if draws:
            generator = torch.Generator().manual_seed(5)
            draws = torch.empty(T, 1, dtype=torch.float32).uniform_(generator=generator)
            draws = draws.flatten().tolist()
        for factor in (4.0, 1.0, 0.75, 0.5):
            case(2, factor, True, lambda z: gshard(z, factor, draws))
        print("};")
    print("\n/// The loss at coefficient 1 and its gradients [T, E] with respect to the clean logits, for fixed noise, and to the scale.")
    print("struct VariationCase {\n  std::int64_t k;\n  double loss;\n"
          "  std::vector<double> clean_grad, scale_grad;\n};")
    for name, loss in (("kLoad", load_loss), ("kImportance", importance_loss)):
        print(f"inline const std::vector<VariationCase> {name} = {{")
        for k in (1, 2, 3):
            clean, scale = CLEAN.clone().requires_grad_(), SCALE.clone().requires_grad_()
            value = loss(clean, scale, k)
            value.backward()
            print(f"    {{{k}, {value.item():.17g}, {flat(clean.grad)}, {flat(scale.grad)}}},")
        print("};")
    print("\n/// The gates under a bias of the selection. `moved` is the bias after one step of loss-free balancing at rate\n"
          "/// 0.01, for a layer whose experts had `counts` tokens.")
    print("struct BiasCase {\n  std::int64_t k;\n  const char* softmax;\n  bool renormalise;\n"
          "  std::vector<double> bias;\n  std::vector<std::int64_t> counts;\n"
          "  std::vector<double> moved;\n  std::vector<double> weights, weights_grad;  ///< [T, E]\n};")
    print("inline const std::vector<BiasCase> kBias = {")
    for k, form, divided, bias in ((1, "none", False, [-0.4, 0.1, 0.0, 0.3]),
                                   (2, "none", True, [-0.4, 0.1, 0.0, 0.3]),
                                   (2, "none", False, [0.0, 0.0, 0.0, 0.0]),
                                   (1, "before", False, [-0.3, 0.05, 0.1, 0.15]),
                                   (2, "before", True, [-0.3, 0.05, 0.1, 0.15]),
                                   (2, "after", False, [-0.3, 0.05, 0.1, 0.15]),
                                   (4, "before", False, [-0.3, 0.05, 0.1, 0.15])):
        z = CLEAN.clone().requires_grad_()
        weights, counts = biased(z, bias, k, form, divided)
        print(f'    {{{k}, "{form}", {str(divided).lower()}, {braces(bias)}, {braces(counts)}, '
              f"{braces(moved(bias, counts, 0.01))},\n     {flat(weights)},\n"
              f"     {flat(gradient((weights * PROBE).sum(), z))}}},")
    print("};")
    print("\n}  // namespace penstock::testing")


if __name__ == "__main__":
    main()
