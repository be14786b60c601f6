#!/usr/bin/python3
"""Compares the memory of training that `penstock info` estimates with the memory that training uses.

    bench/memory.py CORPUS [--penstock build/release/bin/penstock] [--only NAME...] [--json]

CORPUS is a byte-level corpus of a few hundred KB. Each case is a recipe with settings. It is trained for
three steps in a process of its own; the case with a Transformer-XL memory of 1024 takes ten steps, which
fill that memory. The peak is the process's `peak_bytes` in finished.json, so it includes the program
itself. The first case, a model of a few KB, shows how much the program itself takes. Speed is not
measured, so other programs may run meanwhile.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHORT = ["model.vocab=256", "train.steps=3", "train.eval_every=0", "train.final_eval_tokens=4096",
         "train.warmup_steps=1", "train.checkpoint_every=0", "run.tensorboard=false", "run.report=false"]
TINY = ["model.d_model=16", "model.layers=1", "model.heads=2", "model.kv_heads=2", "model.d_ffn=16",
        "train.batch_sequences=1", "train.sequence_length=16"]
LONG = ["train.sequence_length=8192", "train.batch_sequences=1"]
BF16 = "train.precision=bf16"
REMOE = "model.router.method=remoe"
XL = "recipes/hyperrouter/desk-base.toml"
CASES = {
    "the program": ("recipes/demo/dense.toml", TINY),
    "demo dense": ("recipes/demo/dense.toml", []),
    "demo topk": ("recipes/demo/topk.toml", []),
    "demo remoe": ("recipes/demo/remoe.toml", []),
    "bench dense": ("recipes/bench/dense.toml", []),
    "bench e64k8": ("recipes/bench/e64k8.toml", []),
    "the same, recompute_experts": ("recipes/bench/e64k8.toml", ["train.recompute_experts=true"]),
    "the same, recompute_experts, bf16": ("recipes/bench/e64k8.toml", ["train.recompute_experts=true", BF16]),
    "the same, remoe": ("recipes/bench/e64k8.toml", [REMOE]),
    "the same, remoe, budget of 1000 MiB": ("recipes/bench/e64k8.toml", [REMOE, 'train.memory_budget="1000 MiB"']),
    "the same, remoe, budget of 800 MiB": ("recipes/bench/e64k8.toml", [REMOE, 'train.memory_budget="800 MiB"']),
    "the same, remoe, budget of 520 MiB": ("recipes/bench/e64k8.toml", [REMOE, 'train.memory_budget="520 MiB"']),
    "bench dense, budget of 400 MiB": ("recipes/bench/dense.toml", ['train.memory_budget="400 MiB"']),
    "bench dense, budget of 320 MiB": ("recipes/bench/dense.toml", ['train.memory_budget="320 MiB"']),
    "bench dense, budget of 260 MiB": ("recipes/bench/dense.toml", ['train.memory_budget="260 MiB"']),
    "bench dense, bf16": ("recipes/bench/dense.toml", [BF16]),
    "bench dense, 4 micro-batches": ("recipes/bench/dense.toml", ["train.micro_batch=4"]),
    "bench dense, T=8192": ("recipes/bench/dense.toml", LONG),
    "bench e8k1, T=8192": ("recipes/bench/e8k1.toml", LONG),
    "d=512, 12 layers": ("recipes/bench/dense.toml", ["model.d_model=512", "model.layers=12", "model.d_ffn=2048"]),
    "Lory": ("recipes/bench/e8k1.toml", ["model.router.method=lory"]),
    "THOR": ("recipes/bench/e8k1.toml", ["model.router.method=thor"]),
    "expert-choice": ("recipes/bench/e8k1.toml", ["model.router.method=expert-choice", "model.router.k=2"]),
    "Transformer-XL": (XL, []),
    "Transformer-XL, memory 1024": (XL, ["model.transformer_xl.memory=1024", "train.steps=10"]),
    "Transformer-XL, dropout": (XL, ["model.transformer_xl.dropout=0.1"]),
}


def measure(arguments, recipe, settings):
    words = [recipe]
    for setting in [*SHORT, *settings]:
        words += ["--set", setting]

    def run(command, *more):
        return subprocess.run([arguments.penstock, command, *words, *more], cwd=ROOT, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout

    said = json.loads(run("info", "--json"))["training_memory_bytes"]
    with tempfile.TemporaryDirectory() as folder:
        run("train", "--out", os.path.join(folder, "run"), "--quiet", "--set", f"data.corpus={arguments.corpus}")
        with open(os.path.join(folder, "run", "finished.json"), encoding="utf-8") as file:
            return said, json.load(file)["peak_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build/release/bin/penstock"))
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    arguments.corpus = os.path.abspath(arguments.corpus)
    rows = []
    for name in arguments.only:
        said, peak = measure(arguments, *CASES[name])
        rows.append({"case": name, "estimate_bytes": said, "peak_bytes": peak})
        if not arguments.json:
            print(f"| {name} | {said / 2**20:.0f} | {peak / 2**20:.0f} |", flush=True)
    if arguments.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    sys.exit(main())
