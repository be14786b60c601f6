"""Trains a small GPT on the bytes of a text file. The GPT is plain PyTorch with Penstock's MoE layers as feed-forwards.

    PYTHONPATH=build/release/python /usr/bin/python3 examples/python/moe_gpt.py TEXT [--method remoe] [--steps 300]
"""
import argparse

import torch
from torch import nn
from torch.nn import functional as F

import penstock


class Block(nn.Module):
    def __init__(self, width, heads, moe):
        super().__init__()
        self.norm_1, self.norm_2, self.moe = nn.LayerNorm(width), nn.LayerNorm(width), moe
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x, mask, **context):
        rows = self.norm_1(x)
        x = x + self.attention(rows, rows, rows, attn_mask=mask, need_weights=False)[0]
        y, routing = self.moe(self.norm_2(x), **context)
        return x + y, routing


class Gpt(nn.Module):
    def __init__(self, moe_layers, width, heads, context):
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, moe) for moe in moe_layers)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)
        self.register_buffer("mask", torch.full((context, context), float("-inf")).triu(1))

    def forward(self, ids, **context):
        x, routings = self.token(ids) + self.place.weight, []
        for block in self.blocks:
            x, routing = block(x, self.mask, token_ids=ids, **context)
            routings.append(routing)
        return self.head(self.norm(x)), routings


def train(model, data, steps, batch=16):
    """Yields the loss and the layers' routings of each step."""
    places, optimizer = torch.arange(len(model.mask) + 1), torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        rows = data[torch.randint(len(data) - len(places), (batch, 1)) + places]
        logits, routings = model(rows[:, :-1], step=step, total_steps=steps)
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        (loss + sum(r.loss for r in routings if r.loss is not None)).backward()
        optimizer.step()
        model.blocks[0].moe.after_step()  # one call for all layers
        yield loss.item(), routings


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=argparse.FileType("rb"))
    methods = {name: method for name, method in penstock.routers()["methods"].items() if method["selector"]}
    parser.add_argument("--method", default="remoe", choices=sorted(methods))
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    text = torch.frombuffer(bytearray(arguments.text.read()), dtype=torch.uint8).long()
    torch.manual_seed(1)
    method = methods[arguments.method]
    # Segments of methods that blend experts must divide the sequence, which has 64 tokens here.
    options = {method["selector"]: {"segment_length": 16}} if method["traits"]["merges"] else None
    # Layers that are made together share the state of the method's balancers, such as lambda.
    moe_layers = penstock.make_moe_layers(3, d_model=128, experts=8, d_ffn=256, method=arguments.method,
                                          options=options)
    for number, (last, of_layers) in enumerate(train(Gpt(moe_layers, 128, 4, 64), text, arguments.steps)):
        if number % 50 == 0 or number == arguments.steps - 1:
            active = [len(r.plan.token) / r.plan.tokens for r in of_layers if not r.plan.merges]
            print(f"step {number:4d}  loss {last:.4f}  experts per token {sum(active) / max(1, len(active)):.2f}")
