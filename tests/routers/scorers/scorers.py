#!/usr/bin/python3
"""Writes scorers_expected.h: logits and gradients of every scorer in plain PyTorch, in f64.

  tests/routers/scorers/scorers.py > tests/routers/scorers/scorers_expected.h

The script uses only the published formulas. Gradients are those of sum(logits * probe).
"""
import math

import torch
import torch.nn.functional as F

T, D, E = 4, 3, 5
torch.set_default_dtype(torch.float64)


def values(phase, *shape):
    """Irregular numbers, made without a random generator."""
    count = math.prod(shape)
    return torch.sin(1.3 * torch.arange(count) ** 1.5 + phase).reshape(shape).clone()


def affine(h, p):
    return h @ p["weight"].T + p.get("bias", 0)


def mlp(act):
    return lambda h, p: act(h @ p["w1"].T + p["b1"]) @ p["w2"].T + p["b2"]


def cosine(normalise):
    def logits(h, p):
        token = h @ p["projection"].T
        if normalise:
            token = F.normalize(token, dim=1)
        return token @ F.normalize(p["experts"], dim=1).T / p["log_temperature"].exp()
    return logits


def hyper(bias):
    def logits(h, p):
        phi = F.linear(F.relu(F.linear(p["embedding"], p["network.w1"], p["network.b1"])),
                       p["network.w2"], p["network.b2"])
        router = phi.reshape(E, D + bias)
        return F.linear(h, router[:, :D], router[:, D] if bias else None)
    return logits


def subspace(bias):
    """The logits of a router whose weights are a frozen matrix times the router's embedding."""
    def logits(h, p):
        router = (p["embedding"] @ p["network.w2"].T).reshape(E, D + bias)
        return F.linear(h, router[:, :D], router[:, D] if bias else None)
    return logits


def mixture(pool, keys=E):
    """Computes one score after another: S_i^j = Q^j·K_i / sqrt(d'), pooled over j. An expert's best key counts."""
    def logits(h, p):
        rows = []
        for x in h:
            best = [None] * E
            for i, key in enumerate(p["keys"]):
                each = []
                for j, query in enumerate(p["queries"]):
                    q = query @ x + (p["query_bias"][j] if "query_bias" in p else 0)
                    each.append(q @ key / math.sqrt(len(key)))
                score = max(each) if pool == "max" else sum(each)
                owner = math.floor(i * E / keys)
                if best[owner] is None or score > best[owner]:
                    best[owner] = score
            rows.append(torch.stack(best))
        return torch.stack(rows)
    return logits


def grouped_mean(relu):
    def logits(h, p):
        z = F.adaptive_avg_pool1d(h[None], E)[0]
        return F.relu(z) if relu else z
    return logits


M, H = 4, 6  # embedding width and hidden width of the hypernetwork


def network(out):
    return {"network.w1": values(5, H, M), "network.b1": values(6, H),
            "network.w2": values(7, out, H), "network.b2": values(8, out)}


ROUTER = {"weight": values(1, E, D), "bias": values(2, E)}
TWO = {"w1": values(1, 6, D), "b1": values(2, 6), "w2": values(3, E, 6), "b2": values(4, E)}
SPHERE = {"projection": values(1, 2, D), "experts": values(2, E, 2),
          "log_temperature": torch.tensor(math.log(0.3))}
QUERIES = {"queries": values(1, 3, 2, D), "keys": values(2, E, 2)}
SMALL = 'std::int64_t{4}}, {"hidden", std::int64_t{6}}'
CASES = [  # scorer, options as C++ text, parameters, names of frozen parameters, formula
    ("linear", '{"bias", true}', ROUTER, (), affine),
    ("linear", '{"bias", true}, {"frozen", true}', ROUTER, ("weight", "bias"), affine),
    ("random", "", ROUTER, ("weight", "bias"), affine),
    ("jitter-linear", "", {"weight": ROUTER["weight"]}, (), affine),
    ("noisy-linear", "", {"weight": ROUTER["weight"], "noise_weight": values(3, E, D)},
     ("noise_weight",), affine),
    ("mlp", '{"hidden", std::int64_t{6}}, {"bias", true}', TWO, (), mlp(F.gelu)),
    ("mlp", '{"hidden", std::int64_t{6}}, {"bias", true}, {"activation", std::string("relu")}', TWO,
     (), mlp(F.relu)),
    ("mlp", '{"hidden", std::int64_t{6}}, {"bias", true}, {"activation", std::string("tanh")}', TWO,
     (), mlp(torch.tanh)),
    ("cosine", "", SPHERE, (), cosine(True)),
    ("cosine", '{"normalise_token", false}', SPHERE, (), cosine(False)),
    ("mixture", '{"routers", std::int64_t{3}}, {"width", std::int64_t{2}}', QUERIES, (),
     mixture("sum")),
    ("mixture", '{"routers", std::int64_t{3}}, {"width", std::int64_t{2}}, {"bias", true}',
     {**QUERIES, "query_bias": values(3, 3, 2)}, (), mixture("sum")),
    ("mixture", '{"routers", std::int64_t{3}}, {"width", std::int64_t{2}}, {"bias", true}, '
     '{"pool", std::string("max")}', {**QUERIES, "query_bias": values(3, 3, 2)}, (), mixture("max")),
    ("mixture", '{"routers", std::int64_t{8}}, {"keys", std::int64_t{8}}, {"width", std::int64_t{2}}',
     {"queries": values(1, 8, 2, D), "keys": values(2, 8, 2)}, (), mixture("sum", 8)),
    ("mixture", '{"routers", std::int64_t{2}}, {"keys", std::int64_t{10}}, {"width", '
     'std::int64_t{2}}, {"pool", std::string("max")}',
     {"queries": values(1, 2, 2, D), "keys": values(2, 10, 2)}, (), mixture("max", 10)),
    ("mixture", '{"parameterisation", std::string("collapsed")}, {"bias", true}', ROUTER, (),
     affine),
    ("grouped-mean", "", {}, (), grouped_mean(False)),
    ("grouped-mean", '{"relu", true}', {}, (), grouped_mean(True)),
    ("hypernetwork", f'{{"embedding", {SMALL}',
     {"embedding": values(4, 1, M), **network(E * (D + 1))}, "network", hyper(True)),
    ("hypernetwork", f'{{"bias", false}}, {{"embedding", {SMALL}',
     {"embedding": values(4, 1, M), **network(E * D)}, "network", hyper(False)),
    ("hypernetwork", f'{{"generate", std::string("rows")}}, {{"embedding", {SMALL}',
     {"embedding": values(4, E, M), **network(D + 1)}, "network", hyper(True)),
    ("hypernetwork", f'{{"train_network", true}}, {{"embedding", {SMALL}',
     {"embedding": values(4, 1, M), **network(E * (D + 1))}, (), hyper(True)),
    ("hypernetwork", f'{{"form", std::string("linear")}}, {{"embedding", std::int64_t{{{M}}}}}',
     {"embedding": values(4, 1, M), "network.w2": values(7, E * (D + 1), M)}, "network",
     subspace(True)),
    ("hypernetwork", f'{{"form", std::string("linear")}}, {{"generate", std::string("rows")}}, '
     f'{{"bias", false}}, {{"embedding", std::int64_t{{{M}}}}}',
     {"embedding": values(4, E, M), "network.w2": values(7, D, M)}, "network", subspace(False)),
]


def braces(tensor):
    return "{" + ", ".join(f"{x:.17g}" for x in tensor.detach().flatten().tolist()) + "}"


def table(tensors):
    return "{" + ", ".join(f'{{"{name}", {braces(t)}}}' for name, t in tensors.items()) + "}"


hidden, probe = values(0.5, T, D), values(0.25, T, E)
print("// Written by scorers.py; do not edit.\n// clang-format off\n#pragma once\n")
print('#include "tests/routers/scorers/scorer_case.h"\n\nnamespace penstock::testing {\n')
print(f"inline const std::vector<double> kHidden = {braces(hidden)};  // [{T}, {D}]")
print(f"inline const std::vector<double> kProbe = {braces(probe)};  // [{T}, {E}]\n")
print("inline const std::vector<ScorerCase> kScorerCases = {")
for scorer, options, parameters, frozen, formula in CASES:
    h = hidden.clone().requires_grad_()
    p = {name: t.clone().requires_grad_() for name, t in parameters.items()}
    logits = formula(h, p)
    (logits * probe).sum().backward()
    trained = {name: t.grad for name, t in p.items()
               if not (name in frozen or frozen == "network" and name.startswith("network"))}
    print(f'    {{"{scorer}", {{{options}}},\n     {table(p)},\n     {braces(logits)},\n'
          f'     {braces(h.grad)},\n     {table(trained)}}},')
print("};\n")
scale = F.softplus(hidden @ values(3, E, D).T) + 0.01
print(f"/// The noise scale [{T}, {E}] of the noisy scorer above: softplus(hidden · W_nᵀ) + 0.01.")
print(f"inline const std::vector<double> kNoiseScale = {braces(scale)};\n")
print("}  // namespace penstock::testing")
