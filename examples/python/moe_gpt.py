"""A small GPT in plain PyTorch whose feed-forwards are Penstock's MoE layers, trained on the bytes of a text file.

    PYTHONPATH=build/release/python /usr/bin/python3 examples/python/moe_gpt.py TEXT [--method remoe] [--steps 300]
"""
import argparse

import torch
from torch import nn
from torch.nn import functional as F

import penstock

WIDTH, HEADS, LAYERS, CONTEXT = 128, 4, 3, 64


class Block(nn.Module):
    def __init__(self, moe):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.moe = moe

    def forward(self, x, mask, **context):
        rows = self.norm_1(x)
        x = x + self.attention(rows, rows, rows, attn_mask=mask, need_weights=False)[0]
        y, routing = self.moe(self.norm_2(x), **context)
        return x + y, routing


class Gpt(nn.Module):
    def __init__(self, **moe):
        super().__init__()
        self.token, self.place = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        # Made together, the layers share one lambda, or whatever else the method's balancers keep.
        self.blocks = nn.ModuleList(Block(m) for m in penstock.make_moe_layers(LAYERS, d_model=WIDTH, **moe))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256)
        self.register_buffer("mask", torch.full((CONTEXT, CONTEXT), float("-inf")).triu(1))

    def forward(self, ids, **context):
        x, routings = self.token(ids) + self.place.weight, []
        for block in self.blocks:
            x, routing = block(x, self.mask, token_ids=ids, **context)
            routings.append(routing)
        return self.head(self.norm(x)), routings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--method", default="remoe", choices=sorted(penstock.routers()["methods"]))
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    with open(arguments.text, "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    torch.manual_seed(1)
    model = Gpt(experts=8, d_ffn=256, method=arguments.method)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(arguments.steps):
        starts = torch.randint(len(data) - CONTEXT, (16, 1))
        rows = data[starts + torch.arange(CONTEXT + 1)]
        logits, routings = model(rows[:, :-1], step=step, total_steps=arguments.steps)
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        auxiliary = sum(r.loss for r in routings if r.loss is not None)
        optimizer.zero_grad()
        (loss + auxiliary).backward()
        optimizer.step()
        model.blocks[0].moe.after_step()  # of all layers
        if step % 50 == 0 or step == arguments.steps - 1:
            active = sum(len(r.plan.token) / r.plan.tokens for r in routings if not r.plan.merges) / LAYERS
            print(f"step {step:4d}  loss {loss.item():.4f}  experts per token {active:.2f}")


if __name__ == "__main__":
    main()
