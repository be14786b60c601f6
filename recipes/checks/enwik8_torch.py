#!/usr/bin/env python3
"""Trains the model of enwik8.toml in plain PyTorch on the same bytes. The result shows whether a difference from
the published curve is a fault of Penstock or a property of the text. The script prints the
validation loss (nats per byte, last 5 %) every EVERY steps.

  recipes/checks/enwik8_torch.py enwik8_0_3500000.gz [--steps 100] [--every 100] [--bf16] [--threads 1]

--bf16 rounds every activation, and every gradient that flows through one, to bfloat16, as the
published run's mixed precision did. The script shares no code and no table with Penstock.
"""
import argparse
import gzip
import math
import time

import torch
from torch import nn
from torch.nn import functional as F

D, LAYERS, HEADS, FFN, CONTEXT, BATCH = 384, 6, 6, 1280, 512, 16


class Round(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x.bfloat16().float()

    @staticmethod
    def backward(_, gradient):
        return gradient.bfloat16().float()


def stays(x):
    return x


class Linear(nn.Linear):
    """torch's default initialisation: uniform within 1/sqrt(fan-in)."""

    def __init__(self, fan_in, fan_out, cast):
        super().__init__(fan_in, fan_out, bias=False)
        self.cast = cast

    def forward(self, x):
        return self.cast(F.linear(x, self.cast(self.weight)))


class Norm(nn.Module):
    def __init__(self, cast):
        super().__init__()
        self.weight, self.cast = nn.Parameter(torch.ones(D)), cast

    def forward(self, x):
        return self.cast(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight)


class Block(nn.Module):
    def __init__(self, cast):
        super().__init__()
        self.cast = cast
        self.norm1, self.norm2 = Norm(cast), Norm(cast)
        self.q, self.k, self.v, self.o = (Linear(D, D, cast) for _ in range(4))
        self.gate, self.up, self.down = Linear(D, FFN, cast), Linear(D, FFN, cast), Linear(FFN, D, cast)

    def forward(self, x, cos, sin, mask):
        rows, length, _ = x.shape
        h = self.norm1(x)

        def heads(y):
            return y.view(rows, length, HEADS, -1).transpose(1, 2)

        def turn(y):
            a, b = y.chunk(2, -1)
            return self.cast(torch.cat((a * cos - b * sin, a * sin + b * cos), -1))

        q, k, v = turn(heads(self.q(h))), turn(heads(self.k(h))), heads(self.v(h))
        weights = self.cast((q @ k.transpose(-1, -2) / math.sqrt(D // HEADS) + mask).softmax(-1))
        mixed = self.cast(weights @ v).transpose(1, 2).reshape(rows, length, D)
        x = self.cast(x + self.o(mixed))
        h = self.norm2(x)
        return self.cast(x + self.down(self.cast(F.silu(self.gate(h)) * self.up(h))))


class Model(nn.Module):
    def __init__(self, cast):
        super().__init__()
        self.cast = cast
        self.embedding = nn.Parameter(torch.randn(256, D) * 0.02)
        self.blocks = nn.ModuleList(Block(cast) for _ in range(LAYERS))
        self.norm = Norm(cast)
        hd = D // HEADS
        angle = torch.outer(torch.arange(CONTEXT).float(),
                            10000.0 ** (-torch.arange(0, hd, 2).float() / hd))
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        self.register_buffer("mask", torch.full((CONTEXT, CONTEXT), -math.inf).triu(1))

    def forward(self, tokens):
        n = tokens.shape[1]
        x = self.cast(F.embedding(tokens, self.embedding))
        for block in self.blocks:
            x = block(x, self.cos[:n], self.sin[:n], self.mask[:n, :n])
        return self.cast(self.norm(x) @ self.cast(self.embedding).t())


def loss_of(model, tokens, reduction="mean"):
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.reshape(-1, 256), tokens[:, 1:].reshape(-1), reduction=reduction)


@torch.no_grad()
def validate(model, data):
    total, count, start = 0.0, 0, 0
    while start + 1 < len(data):
        window = data[start:start + CONTEXT + 1]
        total += loss_of(model, window[None], "sum").item()
        count += len(window) - 1
        start += CONTEXT
    return total / count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bf16", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    data = torch.frombuffer(bytearray(gzip.open(args.text).read()), dtype=torch.uint8).long()
    border = int(len(data) * 0.95)
    train, held_out = data[:border], data[border:]
    model = Model(Round.apply if args.bf16 else stays)
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    # torch's Adam adds weight decay to the gradient, here after clipping, as the published run does.
    adam = torch.optim.Adam(model.parameters(), lr=4e-4, weight_decay=2e-4)
    started = time.time()
    for step in range(1, args.steps + 1):
        starts = torch.randint(len(train) - CONTEXT - 1, (BATCH,))
        adam.zero_grad(set_to_none=True)
        total = 0.0
        for i in starts.tolist():  # one sequence at a time, as in the published run; this also takes less memory
            loss = loss_of(model, train[i:i + CONTEXT + 1][None]) / BATCH
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        if step == 1 or step % 10 == 0:
            print(f"step {step}  loss {total:.4f}  {time.time() - started:.0f} s", flush=True)
        if step % args.every == 0:
            print(f"step {step}  validation {validate(model, held_out):.4f}", flush=True)


if __name__ == "__main__":
    main()
