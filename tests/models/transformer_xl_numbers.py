#!/usr/bin/python3
"""Writes transformer_xl_numbers.txt: losses and gradients of a small Transformer-XL with experts, from the formulas of
the paper (arXiv:1901.02860, Section 3; Appendix A of its code's post-norm layers) in plain PyTorch, f64. It shares
nothing with Penstock but tensor names and the rule that fills parameters (script_numbers.py). Each line: case, name,
value or the two sums of a gradient.
"""
import math
import os

import torch

from script_numbers import filled, write_gradients

V, D, LAYERS, HEADS, HEAD, EXPERTS, INNER, K = 13, 8, 2, 2, 3, 4, 5, 2
BATCH, LENGTHS, MEMORY = 2, [5, 5, 3], 4


def shapes(per_layer, cutoffs):
    width = HEADS * HEAD
    out = {"model.embed_tokens.weight": (V, D), "lm_head.bias": (V,)}
    for place in ["model.layers.%d." % i for i in range(LAYERS)] if per_layer else ["model."]:
        out[place + "content_bias"] = out[place + "position_bias"] = (HEADS, HEAD)
    if cutoffs:
        out["model.cluster_weight"], out["model.cluster_bias"] = (len(cutoffs), D), (len(cutoffs),)
    for i in range(LAYERS):
        at = "model.layers.%d." % i
        for name in "qkvr":
            out[at + "self_attn.%s_proj.weight" % name] = (width, D)
        out[at + "self_attn.o_proj.weight"] = (D, width)
        for norm in ["attention_norm", "ffn_norm"]:
            out[at + norm + ".weight"] = out[at + norm + ".bias"] = (D,)
        if i == 0:  # experts in the first layer, a dense network in the second
            out[at + "mlp.gate.weight"] = (EXPERTS, D)
            out[at + "mlp.router.scorer.bias"] = (EXPERTS,)
            networks = [at + "mlp.experts.%d." % e for e in range(EXPERTS)]
        else:
            networks = [at + "mlp."]
        for network in networks:
            out[network + "up_proj.weight"], out[network + "up_proj.bias"] = (INNER, D), (INNER,)
            out[network + "down_proj.weight"], out[network + "down_proj.bias"] = (D, INNER), (D,)
    return out


def sinusoid(distance):
    angles = [distance / 10000 ** (2 * i / D) for i in range(D // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles],
                        dtype=torch.float64)


def attention(p, at, x, memory, u, v):
    """Attention by the equation of Section 3.3, one pair of positions at a time."""
    read = torch.cat([memory, x])  # [M + T, d]
    rows = []
    for t in range(len(x)):
        place, heads = len(memory) + t, []
        for h in range(HEADS):
            cut = slice(h * HEAD, (h + 1) * HEAD)
            q = p[at + "q_proj.weight"][cut] @ x[t]
            scores = []
            for j in range(place + 1):
                k = p[at + "k_proj.weight"][cut] @ read[j]
                r = p[at + "r_proj.weight"][cut] @ sinusoid(place - j)
                scores.append(((q + u[h]) @ k + (q + v[h]) @ r) / math.sqrt(HEAD))
            weights = torch.softmax(torch.stack(scores), 0)
            heads.append(sum(w * (p[at + "v_proj.weight"][cut] @ read[j])
                             for j, w in enumerate(weights)))
        rows.append(p[at + "o_proj.weight"] @ torch.cat(heads))
    return torch.stack(rows)


def network(p, at, h):
    inner = torch.relu(p[at + "up_proj.weight"] @ h + p[at + "up_proj.bias"])
    return p[at + "down_proj.weight"] @ inner + p[at + "down_proj.bias"]


def feed_forward(p, at, x, moe):
    rows = []
    for h in x:
        if not moe:
            rows.append(network(p, at, h))
            continue
        logits = p[at + "gate.weight"] @ h + p[at + "router.scorer.bias"]
        best = torch.topk(logits, K).indices
        weights = torch.softmax(logits[best], 0)
        rows.append(sum(w * network(p, at + "experts.%d." % e, h) for w, e in zip(weights, best)))
    return torch.stack(rows)


def norm(p, at, x):
    mean = x.mean(1, keepdim=True)
    variance = ((x - mean) ** 2).mean(1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * p[at + ".weight"] + p[at + ".bias"]


def segment(p, tokens, memories, limit):
    """Returns the rows for the head and the memories after the segment, for one sequence."""
    x = p["model.embed_tokens.weight"][tokens] * math.sqrt(D)
    after = []
    for i in range(LAYERS):
        at = "model.layers.%d." % i
        after.append(torch.cat([memories[i], x.detach()])[-limit:])
        own = at if at + "content_bias" in p else "model."
        u, v = p[own + "content_bias"], p[own + "position_bias"]
        x = norm(p, at + "attention_norm", x + attention(p, at + "self_attn.", x, memories[i], u, v))
        x = norm(p, at + "ffn_norm", x + feed_forward(p, at + "mlp.", x, i == 0))
    return x, after


def log_probability(p, h, target, cutoffs):
    w, b = p["model.embed_tokens.weight"], p["lm_head.bias"]
    if not cutoffs:
        return torch.log_softmax(w @ h + b, 0)[target]
    ends = cutoffs + [V]
    first = torch.cat([w[:cutoffs[0]] @ h + b[:cutoffs[0]],
                       p["model.cluster_weight"] @ h + p["model.cluster_bias"]])
    first = torch.log_softmax(first, 0)
    if target < cutoffs[0]:
        return first[target]
    i = max(i for i, c in enumerate(cutoffs) if target >= c)
    inside = torch.log_softmax(w[ends[i]:ends[i + 1]] @ h + b[ends[i]:ends[i + 1]], 0)
    return first[cutoffs[0] + i] + inside[target - ends[i]]


def run(out, case, per_layer, cutoffs, limit):
    p = filled(shapes(per_layer, cutoffs))
    memories = [[torch.zeros(0, D, dtype=torch.float64)] * LAYERS for _ in range(BATCH)]
    begin, total = 0, 0
    for s, length in enumerate(LENGTHS):
        terms = []
        for b in range(BATCH):
            ids = [(7 * i + 3 * i * i + 5 * b) % V for i in range(begin, begin + length + 1)]
            hidden, memories[b] = segment(p, torch.tensor(ids[:-1]), memories[b], limit)
            terms += [-log_probability(p, h, t, cutoffs) for h, t in zip(hidden, ids[1:])]
        loss = sum(terms) / len(terms)
        out.write("%s loss_%d %.17g\n" % (case, s, loss.item()))
        total = total + loss
        begin += length
    total.backward()
    write_gradients(out, case, p)


if __name__ == "__main__":
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "transformer_xl_numbers.txt"), "w") as file:
        run(file, "shared", False, [], MEMORY)
        run(file, "long", False, [], 7)
        run(file, "adaptive", True, [6, 10], MEMORY)
