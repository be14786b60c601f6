#!/usr/bin/env python3
"""Compares the cost of MoeLayer from Python with that of the same layer in a libtorch program.

The cost is the processor time of a forward and a backward pass on one thread. Both sides run in turn, and the least
time of many passes counts.

    cmake --build build/release --target layer_pass
    PYTHONPATH=build/release/python /usr/bin/python3 bench/python_layer.py [--build build/release] [--rounds 5]

A tiny layer (width 16, 4 experts, one token) shows the fixed cost of a pass, in microseconds. A step of recipes/bench
has 4096 tokens. The passes here have 2048 tokens, which is a step in two micro-batches, so each layer pays the fixed
cost twice a step.
"""
import argparse
import os
import subprocess
import time

import torch

import penstock

WIDTH, FFN = 256, 1024
ROWS = [("e8k1", 8, 1, "topk"), ("e64k8", 64, 8, "topk"), ("remoe-e8", 8, 1, "remoe")]


TINY = (16, 16, 4)


def in_python(width, ffn, experts, k, method, tokens, passes):
    torch.manual_seed(1)
    layer = penstock.MoeLayer(d_model=width, d_ffn=ffn, experts=experts, k=k, method=method)
    x, gradient = torch.randn(tokens, width, requires_grad=True), torch.randn(tokens, width)
    seconds = []
    for _ in range(passes):
        begun = time.process_time()
        layer.zero_grad(set_to_none=True)
        x.grad = None
        y, routing = layer(x)
        task = (y * gradient).sum()
        (task if routing.loss is None else task + routing.loss).backward()
        layer.after_step()
        seconds.append(time.process_time() - begun)
    return min(seconds)


def in_cpp(program, *arguments):
    said = subprocess.run([program, *map(str, arguments)], check=True, capture_output=True, text=True).stdout
    return min(map(float, said.split()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    program = os.path.join(arguments.build, "bin", "layer_pass")
    penstock.set_threads(1)
    print(f"{'layer':10s} {'tiny, C++':>10s} {'Python':>9s} {'added':>6s} {'2048 tokens, C++':>17s} {'Python':>9s} "
          f"{'added':>11s}")
    for name, experts, k, method in ROWS:
        best = {}
        for _ in range(arguments.rounds):
            for size, layer in (("tiny", (*TINY, 1, method, 1, 2000)),
                                ("row", (WIDTH, FFN // k, experts, k, method, 2048, 6))):
                for what, seconds in (("cpp", in_cpp(program, *layer)), ("python", in_python(*layer))):
                    best[what, size] = min(seconds, best.get((what, size), seconds))
        more = best["python", "tiny"] - best["cpp", "tiny"]
        print(f"{name:10s} {best['cpp', 'tiny'] * 1e6:7.0f} us {best['python', 'tiny'] * 1e6:6.0f} us "
              f"{more * 1e6:3.0f} us {best['cpp', 'row'] * 1e3:14.1f} ms {best['python', 'row'] * 1e3:6.1f} ms "
              f"{100 * more / best['cpp', 'row']:9.2f} %", flush=True)


if __name__ == "__main__":
    main()
