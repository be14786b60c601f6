#!/usr/bin/python3
"""Times training steps of examples/python/moe_gpt.py's GPT with Penstock's MoE layers and with a stock-PyTorch MoE.

Both sides have the same script, data and seed and run in alternation.

    PYTHONPATH=build/release/python bench/python_gpt.py [--rows example e8k1 ...] [--pairs 3] [--steps 4] [--threads N]
                                                        [--core-type SKYLAKEX]

The stock MoE is that of bench/torch_peer.py: it takes the top k of a softmax, has a load-balance loss and runs its
experts one after another. The row `example` has the example's own size. The other rows have the size of recipes/bench:
width 256, 4 layers, steps of 16 x 256 bytes. Attention, norms, head and optimizer are PyTorch's own on both sides. Each
row is measured twice: with OpenBLAS's core type set by --core-type (OpenBLAS misjudges recent processors) and with
OpenBLAS's default. A round runs both sides, each in a process of its own. Ratios of tokens per second are taken within
a round, and their medians are printed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from types import SimpleNamespace

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BENCH = dict(layers=4, width=256, heads=8, context=256)
ROWS = {  # shape of the GPT, and of each MoE layer
    "example": (dict(layers=3, width=128, heads=4, context=64), dict(experts=8, k=1, d_ffn=256)),
    "e8k1": (BENCH, dict(experts=8, k=1, d_ffn=1024)),
    "e16k2": (BENCH, dict(experts=16, k=2, d_ffn=512)),
    "e64k8": (BENCH, dict(experts=64, k=8, d_ffn=128)),
}
SIDES = ("penstock", "stock")


def stock_layers(layers, width, experts, k, d_ffn):
    sys.path.insert(0, os.path.join(ROOT, "bench"))
    from torch_peer import Experts

    class StockMoe(Experts):
        """The stock MoE with the interface that moe_gpt.py expects from an MoE layer."""

        def forward(self, x, **_):
            y = super().forward(x)
            return y, SimpleNamespace(loss=self.balance)

        def after_step(self):
            pass

    return [StockMoe(width, d_ffn, experts, k) for _ in range(layers)]


def measure(row, side, steps, threads):
    import torch
    import penstock
    sys.path.insert(0, os.path.join(ROOT, "examples/python"))
    import moe_gpt
    penstock.set_threads(threads)
    torch.manual_seed(1)
    shape, moe = ROWS[row]
    if side == "penstock":
        layers = penstock.make_moe_layers(shape["layers"], d_model=shape["width"], method="topk", **moe)
    else:
        layers = stock_layers(shape["layers"], shape["width"], **moe)
    model = moe_gpt.Gpt(layers, shape["width"], shape["heads"], shape["context"])
    with open(os.path.join(ROOT, "README.md"), "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    seconds, begun = [], time.perf_counter()
    for loss, _ in moe_gpt.train(model, data, steps + 2):
        seconds.append(time.perf_counter() - begun)
        begun = time.perf_counter()
    return {"tokens_per_second": 16 * shape["context"] / statistics.median(seconds[2:]), "loss": loss,
            "parameters": sum(p.numel() for p in model.parameters())}


def measured_apart(arguments, row, side, core_type):
    environment = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
    if core_type:
        environment["OPENBLAS_CORETYPE"] = core_type
    done = subprocess.run([sys.executable, __file__, "--rows", row, "--side", side, "--steps", str(arguments.steps),
                           "--threads", str(arguments.threads)], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def compare(arguments, row, core_type):
    rounds = [{side: measured_apart(arguments, row, side, core_type) for side in SIDES} for _ in range(arguments.pairs)]
    if rounds[0]["penstock"]["parameters"] != rounds[0]["stock"]["parameters"]:
        sys.exit(f"python_gpt.py: the two models of {row} differ: {rounds[0]}")
    speed = {side: statistics.median(one[side]["tokens_per_second"] for one in rounds) for side in SIDES}
    ratios = sorted(one["penstock"]["tokens_per_second"] / one["stock"]["tokens_per_second"] for one in rounds)
    print(f"{row:9s} {core_type or 'default':9s} {speed['penstock']:9.0f} {speed['stock']:9.0f} "
          f"{statistics.median(ratios):6.2f}  ({ratios[0]:.2f}-{ratios[-1]:.2f})  "
          f"{rounds[0]['penstock']['loss']:.3f} {rounds[0]['stock']['loss']:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--pairs", type=int, default=3, help="number of rounds")
    parser.add_argument("--steps", type=int, default=4,
                        help="number of timed steps, after two steps that are not timed")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--core-type", default="SKYLAKEX", help="core type that OpenBLAS is set to")
    parser.add_argument("--side", choices=SIDES, help="measure only this side and print JSON")
    arguments = parser.parse_args()
    if arguments.side:
        return print(json.dumps(measure(arguments.rows[0], arguments.side, arguments.steps, arguments.threads)))
    print(f"{'row':9s} {'OpenBLAS':9s} {'penstock':>9s} {'stock':>9s} {'ratio':>6s}  {'(low-high)':11s}  losses")
    for row in arguments.rows:
        for core_type in (arguments.core_type, ""):
            compare(arguments, row, core_type)
    print(f"tokens/s; {arguments.threads} threads, medians of {arguments.pairs} rounds")


if __name__ == "__main__":
    main()
