#!/usr/bin/python3
"""Writes decoder_numbers.txt: losses and gradients of a small decoder. It has shared experts, norms of queries and
keys, clipping of queries, keys and values, and a first layer without experts. The script follows the published
descriptions (OLMoE, arXiv:2409.02060; Qwen2-MoE, arXiv:2407.10671; Qwen3, arXiv:2505.09388; DeepSeekMoE,
arXiv:2401.06066) in plain PyTorch, f64, one position and one head at a time. It shares nothing with Penstock but tensor
names and the rule that fills parameters (script_numbers.py). Each line: case, name, value or the two sums of a gradient.
"""
import math
import os

import torch

from script_numbers import filled, write_gradients

V, D, LAYERS, HEADS, GROUPS, HEAD, EXPERTS, INNER, SHARED, K = 13, 8, 2, 4, 2, 4, 4, 5, 3, 2
DENSE = 7  # width of a first layer without experts
BATCH, LENGTH, BASE, EPS = 2, 6, 100.0, 1e-5


def shapes(gate, norms, dense):
    out = {"model.embed_tokens.weight": (V, D), "lm_head.weight": (V, D), "model.norm.weight": (D,)}
    for i in range(LAYERS):
        at = "model.layers.%d." % i
        out[at + "input_layernorm.weight"] = out[at + "post_attention_layernorm.weight"] = (D,)
        for name, heads in [("q", HEADS), ("k", GROUPS), ("v", GROUPS)]:
            out[at + "self_attn.%s_proj.weight" % name] = (heads * HEAD, D)
            if norms and name != "v":
                width = HEAD if norms == "head" else heads * HEAD
                out[at + "self_attn.%s_norm.weight" % name] = (width,)
        out[at + "self_attn.o_proj.weight"] = (D, HEADS * HEAD)
        networks = [(at + "mlp.experts.%d." % e, INNER) for e in range(EXPERTS)]
        networks.append((at + "mlp.shared_expert.", SHARED))
        if dense and i == 0:
            networks = [(at + "mlp.", DENSE)]
        else:
            out[at + "mlp.gate.weight"] = (EXPERTS, D)
        for network, inner in networks:
            out[network + "gate_proj.weight"] = out[network + "up_proj.weight"] = (inner, D)
            out[network + "down_proj.weight"] = (D, inner)
        if gate:
            out[at + "mlp.shared_expert_gate.weight"] = (1, D)
    return out


def norm(x, gain):
    return x / torch.sqrt((x * x).mean() + EPS) * gain


def rotated(x, place):
    """Rotates the pairs (i, i + HEAD/2) of a head at position `place` by the angle place * BASE^(-2i/HEAD)."""
    out = []
    for i in range(HEAD):
        j = i % (HEAD // 2)
        angle = place * BASE ** (-2 * j / HEAD)
        other = -x[i + HEAD // 2] if i < HEAD // 2 else x[i - HEAD // 2]
        out.append(x[i] * math.cos(angle) + other * math.sin(angle))
    return torch.stack(out)


def attention(p, at, x, norms, cut):
    projected = {}
    for name in "qkv":
        rows = [p[at + name + "_proj.weight"] @ h for h in x]
        if norms and name != "v":
            gain = p[at + name + "_norm.weight"]  # as long as one head or as all heads
            rows = [torch.cat([norm(part, gain) for part in h.split(len(gain))]) for h in rows]
        if cut:
            rows = [torch.clamp(h, -cut, cut) for h in rows]
        projected[name] = rows
    out = []
    for t in range(len(x)):
        heads = []
        for h in range(HEADS):
            g = h // (HEADS // GROUPS)
            q = rotated(projected["q"][t][h * HEAD:(h + 1) * HEAD], t)
            scores = [q @ rotated(projected["k"][s][g * HEAD:(g + 1) * HEAD], s) / math.sqrt(HEAD)
                      for s in range(t + 1)]
            weights = torch.softmax(torch.stack(scores), 0)
            heads.append(sum(w * projected["v"][s][g * HEAD:(g + 1) * HEAD]
                             for s, w in enumerate(weights)))
        out.append(p[at + "o_proj.weight"] @ torch.cat(heads))
    return out


def network(p, at, h):
    g = p[at + "gate_proj.weight"] @ h
    return p[at + "down_proj.weight"] @ (g * torch.sigmoid(g) * (p[at + "up_proj.weight"] @ h))


def moe(p, at, h, gate):
    probabilities = torch.softmax(p[at + "gate.weight"] @ h, 0)
    y = sum(probabilities[e] * network(p, at + "experts.%d." % e, h)
            for e in torch.topk(probabilities, K).indices)
    shared = network(p, at + "shared_expert.", h)
    if gate:
        shared = torch.sigmoid(p[at + "shared_expert_gate.weight"] @ h) * shared
    return y + shared


def loss(p, tokens, targets, gate, norms, cut, dense):
    x = list(p["model.embed_tokens.weight"][tokens])
    for i in range(LAYERS):
        at = "model.layers.%d." % i
        y = attention(p, at + "self_attn.", [norm(h, p[at + "input_layernorm.weight"]) for h in x],
                      norms, cut)
        x = [a + b for a, b in zip(x, y)]
        normed = [norm(h, p[at + "post_attention_layernorm.weight"]) for h in x]
        if dense and i == 0:
            y = [network(p, at + "mlp.", h) for h in normed]
        else:
            y = [moe(p, at + "mlp.", h, gate) for h in normed]
        x = [a + b for a, b in zip(x, y)]
    total = 0
    for h, target in zip(x, targets):
        logits = p["lm_head.weight"] @ norm(h, p["model.norm.weight"])
        total = total + torch.logsumexp(logits, 0) - logits[target]
    return total


def case(file, name, gate, norms, cut, dense=False):
    p = filled(shapes(gate, norms, dense))
    ids = [[(5 * b + 3 * t + t * t) % V for t in range(LENGTH + 1)] for b in range(BATCH)]
    mean = sum(loss(p, row[:-1], row[1:], gate, norms, cut, dense)
               for row in ids) / (BATCH * LENGTH)
    mean.backward()
    file.write("%s loss %.17g\n" % (name, mean.item()))
    write_gradients(file, name, p)


if __name__ == "__main__":
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "decoder_numbers.txt"), "w") as out:
        case(out, "gated", True, False, 0)
        case(out, "olmoe", False, "whole", 0.4)
        case(out, "heads", False, "head", 0, dense=True)
