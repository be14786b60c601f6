#!/usr/bin/env python3
"""Times a training step of Penstock's decoder written in stock PyTorch, as users would write it.

The decoder has d=256, 4 layers, 8 heads, 4 key/value groups, RMSNorm, RoPE, SwiGLU and a byte
vocabulary. AdamW with clipping trains it. It is dense, or it has experts that run one after another, as
in Hugging Face's models, with the load-balance loss of top-k routing. One step is 16 x 256 tokens.
Prints one JSON object with the tokens per second of the median timed step and the process's largest
resident set.

Needs OpenBLAS (libopenblas0-openmp) as the system's BLAS on Debian; "blas" in the output names the BLAS.

    OPENBLAS_CORETYPE=SKYLAKEX /usr/bin/python3 bench/torch_peer.py --experts 8 --k 1 --ffn 1024

With --processes N the script starts N processes of itself on this machine. They share a step by PyTorch's
DistributedDataParallel over Gloo. --micro-batches divides the step into as many micro-batches; each process exchanges
gradients only after its last one.

This program is not optimised and is not part of Penstock: it is what users would run without Penstock.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import contextlib

import torch
import torch.distributed
import torch.nn.functional as F
from torch import nn


class RmsNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.gain


def rotate(x, cos, sin):
    """Rotates the pairs (i, i + hd/2) of x [B, H, T, hd]."""
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, kv_heads * self.size, bias=False)
        self.v = nn.Linear(width, kv_heads * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, cos, sin, mask):
        batch, length, width = x.shape

        def split(y, heads):
            return y.view(batch, length, heads, self.size).transpose(1, 2)

        q = rotate(split(self.q(x), self.heads), cos, sin)
        k = rotate(split(self.k(x), self.kv_heads), cos, sin)
        v = split(self.v(x), self.kv_heads)
        if hasattr(F, "scaled_dot_product_attention"):  # PyTorch 2: its own fused kernel
            group = self.heads // self.kv_heads
            y = F.scaled_dot_product_attention(
                q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), is_causal=True)
        else:
            group = self.heads // self.kv_heads
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
            scores = q @ k.transpose(2, 3) / self.size**0.5 + mask
            y = torch.softmax(scores, -1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class SwiGlu(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Top-k routing by a softmax. Each expert gathers its tokens, runs, and adds its weighted rows."""

    def __init__(self, width, inner, experts, k):
        super().__init__()
        self.k = k
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(SwiGlu(width, inner) for _ in range(experts))

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        probabilities = torch.softmax(self.router(rows), -1)
        weights, chosen = torch.topk(probabilities, self.k, dim=-1)
        out = torch.zeros_like(rows)
        hits = F.one_hot(chosen, len(self.experts)).permute(2, 1, 0)  # [E, k, T]
        load = hits.sum((1, 2)).float() / chosen.numel()
        self.balance = 0.01 * len(self.experts) * (load * probabilities.mean(0)).sum()
        for index, expert in enumerate(self.experts):
            slot, token = torch.where(hits[index])
            if token.numel():
                out.index_add_(0, token, (expert(rows[token]) * weights[token, slot, None]).to(out.dtype))
        return out.view_as(x)


class Block(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(args.width), RmsNorm(args.width)
        self.attention = Attention(args.width, args.heads, args.kv_heads)
        self.ffn = (Experts(args.width, args.ffn, args.experts, args.k) if args.experts
                    else SwiGlu(args.width, args.ffn))

    def forward(self, x, *rest):
        x = x + self.attention(self.norm1(x), *rest)
        return x + self.ffn(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embedding = nn.Embedding(args.vocab, args.width)
        self.blocks = nn.ModuleList(Block(args) for _ in range(args.layers))
        self.norm = RmsNorm(args.width)
        self.head = nn.Linear(args.width, args.vocab, bias=False)
        size = args.width // args.heads
        angle = torch.outer(torch.arange(args.length).float(),
                            1e4 ** (-torch.arange(0, size, 2).float() / size))
        angle = torch.cat((angle, angle), -1)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        self.register_buffer("mask", torch.full((args.length, args.length), -torch.inf).triu(1))
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin, self.mask)
        return self.head(self.norm(x))


def loaded_blas():
    """Paths of the BLAS that this process has loaded. The reference BLAS would make the comparison unfair."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = {line.split()[-1] for line in maps if ".so" in line}
    except OSError:
        return "unknown"
    return ", ".join(sorted(p for p in paths if "blas" in p or "mkl" in p)) or "built into torch"


def start_ranks(count):
    """Starts `count` ranks and waits. @return the largest exit code"""
    variables = {**os.environ, "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29417"}
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env={**variables, "RANK": str(rank)})
             for rank in range(count)]
    return max(rank.wait() for rank in ranks)


def add_gradients(args, model, parallel, rows):
    """Adds the gradients of one micro-batch of this process. @return the micro-batch's loss"""
    ids = torch.randint(args.vocab, (rows, args.length + 1))
    # Autocast covers the forward pass alone, as PyTorch's documentation advises.
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.bf16):
        logits = parallel(ids[:, :-1])
    loss = F.cross_entropy(logits.float().reshape(-1, args.vocab), ids[:, 1:].reshape(-1))
    for block in model.blocks:
        loss = loss + getattr(block.ffn, "balance", 0.0)
    (loss / (args.micro_batches // args.processes)).backward()
    return loss


def timed_steps(args, model):
    """Trains for the warm-up and the timed steps. @return seconds of each timed step, and the last loss"""
    args.micro_batches = max(args.micro_batches, args.processes)
    rows, parallel = args.batch // args.micro_batches, model
    if args.processes > 1:
        torch.distributed.init_process_group("gloo")
        # An expert without tokens has no gradient.
        parallel = nn.parallel.DistributedDataParallel(model, find_unused_parameters=args.experts > 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    seconds = []
    for step in range(args.warmup + args.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        own = args.micro_batches // args.processes
        for part in range(own):
            quiet = parallel.no_sync if args.processes > 1 and part + 1 < own else contextlib.nullcontext
            with quiet():
                loss = add_gradients(args, model, parallel, rows)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step >= args.warmup:
            seconds.append(time.perf_counter() - start)
    return seconds, loss


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in dict(width=256, layers=4, heads=8, kv_heads=4, ffn=1024, vocab=256,
                              batch=16, length=256, experts=0, k=1, steps=5, warmup=2,
                              processes=1, micro_batches=1,
                              threads=len(os.sched_getaffinity(0))).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    parser.add_argument("--bf16", action="store_true", help="run the forward pass under autocast to bf16")
    args = parser.parse_args()
    if args.processes > 1 and "RANK" not in os.environ:
        sys.exit(start_ranks(args.processes))
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = Decoder(args)
    seconds, loss = timed_steps(args, model)
    if int(os.environ.get("RANK", 0)) > 0:
        return
    print(json.dumps({
        "tokens_per_second": round(args.batch * args.length / statistics.median(seconds), 1),
        "seconds_per_step": [round(s, 4) for s in seconds],
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "parameters": sum(p.numel() for p in model.parameters()),
        "loss": round(loss.item(), 4), "torch": torch.__version__, "threads": args.threads,
        "blas": loaded_blas(),
        "precision": "bf16" if args.bf16 else "fp32", "experts": args.experts, "k": args.k, "ffn": args.ffn, "processes": args.processes,
        "openblas_coretype": os.environ.get("OPENBLAS_CORETYPE", ""),
    }))


if __name__ == "__main__":
    main()
