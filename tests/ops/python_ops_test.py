#!/usr/bin/env python3
"""Compares the operators torch.ops.penstock.*, called from Python, with plain PyTorch: outputs and gradients.

    python_ops_test.py LIBRARY

Exits with 77 (skipped) if this Python has no torch."""

import os
import subprocess
import sys

try:
    import torch
except ImportError:
    print("skipped: this Python has no torch (Debian: python3-torch)")
    sys.exit(77)


def leaf(*shape, scale=1.0):
    return (torch.randn(*shape) * scale).requires_grad_()


def compare(name, function, expected, inputs):
    """Compares outputs and gradients of both functions for the same inputs. `expected` computes in f64."""
    y = function(*inputs)
    probe = torch.linspace(-1, 1, y.numel()).view_as(y)
    gradients = torch.autograd.grad((y * probe).sum(), inputs)
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    exact = expected(*wide)
    exact_gradients = torch.autograd.grad((exact * probe.double()).sum(), wide)
    for part, got, want in zip(["y"] + [f"d{i}" for i in range(len(inputs))],
                               (y, *gradients), (exact, *exact_gradients)):
        error = (got.double() - want).abs().max().item() / max(1.0, want.abs().max().item())
        assert error < 5e-6, f"{name} {part}: relative error {error}"
    print(f"{name}: output and {len(inputs)} gradients agree")


def test_linear():
    def expected(x, w, b):
        return x @ w.t() + b

    compare("linear", torch.ops.penstock.linear, expected, [leaf(3, 17, 40), leaf(24, 40), leaf(24)])
    compare("linear without bias", torch.ops.penstock.linear, lambda x, w: x @ w.t(),
            [leaf(17, 40), leaf(24, 40)])


def test_expert_ffn():
    tokens, experts, width, inner = 50, 4, 24, 40
    takes = torch.rand(experts, tokens) < 0.4
    takes[2] = False  # an expert without tokens
    expert, token = takes.nonzero(as_tuple=True)
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), takes.sum(1).cumsum(0)])
    by_token = torch.argsort(token * experts + expert)
    token_offsets = torch.cat([torch.zeros(1, dtype=torch.long), takes.sum(0).cumsum(0)])

    def fast(hidden, weight, w_in, w_out):
        return torch.ops.penstock.expert_ffn(hidden, weight, token, offsets, by_token,
                                             token_offsets, w_in, w_out)

    def expected(hidden, weight, w_in, w_out):
        out = torch.zeros_like(hidden)
        for a in range(len(token)):
            gate, up = (w_in[expert[a]] @ hidden[token[a]]).chunk(2)
            row = w_out[expert[a]] @ (torch.nn.functional.silu(gate) * up)
            out = out.index_add(0, token[a:a + 1], (weight[a] * row)[None])
        return out

    compare("expert_ffn", fast, expected,
            [leaf(tokens, width), leaf(len(token)), leaf(experts, 2 * inner, width, scale=0.2),
             leaf(experts, width, inner, scale=0.2)])


def test_attention():
    batch, length, heads, kv_heads, width = 2, 37, 4, 2, 12
    angle = torch.arange(length).double()[:, None] * 50.0 ** (-torch.arange(0, width, 2) / width)
    start = torch.tensor([[t // 15 * 15 for t in range(length)]] * batch)

    def fast(qkv):
        rotation = torch.cat([angle.cos(), angle.sin()], -1).float()
        return torch.ops.penstock.causal_attention(qkv, heads, kv_heads, width ** -0.5, rotation,
                                                   False, start)

    def expected(qkv):
        x = qkv.view(batch, length, heads + 2 * kv_heads, width).transpose(1, 2)
        rotated = torch.view_as_complex(torch.stack(x[:, :heads + kv_heads].chunk(2, -1), -1))
        rotated = rotated * torch.polar(torch.ones_like(angle), angle)
        rotated = torch.cat([rotated.real, rotated.imag], -1)
        q = rotated[:, :heads]
        k = rotated[:, heads:].repeat_interleave(heads // kv_heads, 1)
        v = x[:, heads + kv_heads:].repeat_interleave(heads // kv_heads, 1)
        index = torch.arange(length)
        readable = (index <= index[:, None]) & (index >= start[0][:, None])
        scores = (q @ k.transpose(-1, -2) * width ** -0.5).masked_fill(~readable, -1e30)
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, heads * width)

    compare("causal_attention", fast, expected,
            [leaf(batch, length, (heads + 2 * kv_heads) * width)])


def test_add_rms_norm():
    def fast(x, delta, gain):
        return torch.cat(torch.ops.penstock.add_rms_norm(x, delta, gain, 1e-5), -1)

    def expected(x, delta, gain):
        h = x + delta
        return torch.cat([h, h * (h.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * gain], -1)

    compare("add_rms_norm", fast, expected, [leaf(5, 24), leaf(5, 24), leaf(24)])


def test_errors():
    try:
        torch.ops.penstock.linear(torch.randn(2, 3), torch.randn(4, 5))
    except RuntimeError as error:
        assert "[linear]" in str(error), error
        print("linear: a wrong shape is a RuntimeError that says so")
    else:
        raise AssertionError("a wrong shape passed")


def test_second_derivatives():
    """A gradient that a graph was recorded for is right; to differentiate it again is an error."""
    x, w = leaf(3, 4), leaf(5, 4)
    first, = torch.autograd.grad(torch.ops.penstock.linear(x, w).sum(), x, create_graph=True)
    assert torch.equal(first, w.detach().sum(0).expand(3, 4)), first
    try:
        torch.autograd.grad(first.pow(2).sum(), w)
    except RuntimeError as error:
        assert "[linear] has no second derivative" in str(error), error
        print("linear: a second derivative is a RuntimeError that says so")
    else:
        raise AssertionError("a second derivative passed")


def test_verbose():
    """With PENSTOCK_VERBOSE=1, an operator prints once per shape which kernel ran and why others did not."""
    code = ("import sys, torch; torch.ops.load_library(sys.argv[1]);"
            "w = torch.ones(4, 3, dtype=torch.double);"
            "torch.ops.penstock.linear(w, w); torch.ops.penstock.linear(w, w)")
    result = subprocess.run([sys.executable, "-c", code, sys.argv[1]], check=True, text=True,
                            capture_output=True, env={**os.environ, "PENSTOCK_VERBOSE": "1"})
    lines = [line for line in result.stderr.splitlines() if line.startswith("penstock: linear(")]
    assert len(lines) == 1 and "-> reference" in lines[0], result.stderr
    print(lines[0])


def main():
    torch.ops.load_library(sys.argv[1])
    torch.manual_seed(1)
    test_verbose()
    test_linear()
    test_expert_ffn()
    test_attention()
    test_add_rms_norm()
    test_errors()
    test_second_derivatives()


if __name__ == "__main__":
    main()
