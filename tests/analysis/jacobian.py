#!/usr/bin/python3
"""Writes jacobian_expected.h: the Jacobian of one small MoE layer and the Jacobian's second term. Both are computed by
central differences in plain numpy, f64, without an analytic derivative. The script shares nothing with Penstock but the
rule that fills parameters. Element k of the n-th parameter (router weight, router bias, up, up bias, down, down bias;
n from 0) is 0.5 sin(0.37 n + 1.3 k + 0.003 k^2), as f32. Element k of the token is sin(0.9 k + 0.4).

    y = sum_j g_j(x) E_j(x),   E_j(x) = down_j relu(up_j x + up_bias_j) + down_bias_j
"""
import os

import numpy as np

D, F, E = 6, 5, 5
STEP = 1e-5
SHAPES = [(E, D), (E,), (E, F, D), (E, F), (E, D, F), (E, D)]


def filled(n, shape):
    k = np.arange(np.prod(shape), dtype=np.float64)
    value = 0.5 * np.sin(0.37 * n + 1.3 * k + 0.003 * k * k)
    return value.astype(np.float32).astype(np.float64).reshape(shape)


ROUTER, ROUTER_BIAS, UP, UP_BIAS, DOWN, DOWN_BIAS = [filled(n, s) for n, s in enumerate(SHAPES)]
X = np.sin(0.9 * np.arange(D) + 0.4)


def gates(x, form, k):
    z = ROUTER @ x + ROUTER_BIAS
    if form == "relu":
        return np.maximum(z, 0)
    kept = np.argsort(-z)[:k]
    out, p = np.zeros(E), np.exp(z)
    out[kept] = p[kept] / (p[kept].sum() if form == "after" else p.sum())
    return out


def expert(j, x):
    return DOWN[j] @ np.maximum(UP[j] @ x + UP_BIAS[j], 0) + DOWN_BIAS[j]


def layer(x, at, form, k):
    """The layer's output with the gates of the token x and the experts' outputs for the token `at`."""
    g = gates(x, form, k)
    return sum(g[j] * expert(j, at) for j in range(E) if g[j] != 0)


def differences(f):
    columns = []
    for i in range(D):
        step = np.zeros(D)
        step[i] = STEP
        columns.append((f(X + step) - f(X - step)) / (2 * STEP))
    return np.stack(columns, 1)


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jacobian_expected.h")
    with open(path, "w", encoding="utf-8") as file:
        file.write("// Written by jacobian.py, which describes the matrices; do not edit. Each is [d, d], row by row.\n"
                   "// clang-format off\n#pragma once\n\n"
                   "#include <vector>\n\n"
                   "namespace penstock::analysis::expected {\n\n"
                   "struct Case {\n  const char* form;\n  int k, rank;\n"
                   "  std::vector<double> whole, gates;\n};\n\n"
                   "inline const std::vector<Case> kJacobians = {\n")
        for form, k in [("after", 2), ("after", 4), ("before", 2), ("before", 5), ("relu", 1)]:
            whole = differences(lambda x: layer(x, x, form, k))
            second = differences(lambda x: layer(x, X, form, k))
            rank = np.linalg.matrix_rank(second, tol=1e-7)
            numbers = [", ".join(f"{v:.10f}" for v in m.flatten()) for m in (whole, second)]
            file.write(f'    {{"{form}", {k}, {rank}, {{{numbers[0]}}}, {{{numbers[1]}}}}},\n')
        file.write("};\n\n}  // namespace penstock::analysis::expected\n")


if __name__ == "__main__":
    main()
