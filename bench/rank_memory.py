#!/usr/bin/python3
"""Compares the memory of a rank that `penstock info` estimates for a layout with the memory that ranks use.

    bench/rank_memory.py CORPUS [--penstock build/release/bin/penstock] [--recipe recipes/bench/e8k1.toml]
                         [--processes 2] [--layouts data zero=1 zero=2 zero=3 expert=2] [--micro-batches 2] [--json]

Each layout is trained for a few steps of short sequences, so that weights, gradients, moments and the exchange's
buffers are nearly all of the memory. During the steps the script reads from /proc the anonymous memory (RssAnon) and
the memory shared with other ranks (RssShmem) of all ranks, and keeps the maximum of each. The same is read for a model
of a few KB under the same layout; this is the program's own memory and is subtracted. Penstock keeps freed memory, so
the values read are the most that a rank held. Speed is not measured, so other programs may run meanwhile.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STEPS = 12
SHORT = {"model.vocab": 256, "train.steps": STEPS, "train.eval_every": 0, "train.final_eval_tokens": 256,
         "train.warmup_steps": 1, "train.checkpoint_every": 0, "run.tensorboard": "false", "run.report": "false",
         "run.threads": 1, "train.sequence_length": 16}
TINY = {"model.d_model": 16, "model.layers": 2, "model.heads": 2, "model.kv_heads": 2, "model.d_ffn": 16}


def words(keys):
    return [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]


def children(process):
    with open(f"/proc/{process}/task/{process}/children") as file:
        return [int(word) for word in file.read().split()]


def resident(process):
    """The process's own resident bytes and those it shares with other ranks; None if the process has ended."""
    try:
        with open(f"/proc/{process}/status") as file:
            lines = dict(line.split(":", 1) for line in file)
        return [1024 * int(lines[key].split()[0]) for key in ("RssAnon", "RssShmem")]
    except (OSError, KeyError):
        return None


def steps_done(run):
    try:
        with open(os.path.join(run, "metrics.jsonl")) as file:
            return sum(1 for _ in file)
    except OSError:
        return 0


def largest_rank(options, keys):
    """The most own and shared bytes of any rank, from the first step to the last but one."""
    most = [0, 0]
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        launcher = subprocess.Popen([options.penstock, "train", options.recipe, "--out", run, "--quiet", *words(keys),
                                     "--set", f"data.corpus={options.corpus}", "--processes", str(options.processes)],
                                    cwd=ROOT)
        while launcher.poll() is None:
            if 0 < steps_done(run) < STEPS:
                for rank in children(launcher.pid):
                    found = resident(rank) or [0, 0]
                    if steps_done(run) < STEPS:  # leaves out saving after the last step, which takes more memory
                        most = [max(pair) for pair in zip(most, found)]
            time.sleep(0.005)
        if launcher.returncode != 0:
            sys.exit("rank_memory.py: a training failed; see its message above")
    return most


def keys_of(options, layout):
    keys = {**SHORT, "train.batch_sequences": options.micro_batches, "train.micro_batch": 1, "parallel.data": 0}
    if layout != "data":
        keys.update((f"parallel.{key}", value) for key, value in (one.split("=") for one in layout.split(",")))
    return keys


def estimate(options, keys):
    axes = {"parallel.data": options.processes // (int(keys.get("parallel.tensor", 1)) * int(keys.get("parallel.pipeline", 1)))}
    found = subprocess.run([options.penstock, "info", options.recipe, "--json", "--node-ranks",
                            str(options.processes), "--shared-memory", *words({**keys, **axes})], check=True,
                           cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(found)["parallel"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build/release/bin/penstock"))
    parser.add_argument("--recipe", default=os.path.join(ROOT, "recipes/bench/e8k1.toml"))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--layouts", nargs="*", default=["data", "zero=1", "zero=2", "zero=3", "expert=2", "expert=2,zero=1",
                                                         "tensor=2", "pipeline=2"])
    parser.add_argument("--micro-batches", type=int, default=2, help="number of micro-batches in a step")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.corpus = os.path.abspath(options.corpus)
    rows = []
    for layout in options.layouts:
        keys = keys_of(options, layout)
        program = largest_rank(options, {**keys, **TINY})
        held = [a - b for a, b in zip(largest_rank(options, keys), program)]
        held[1] //= options.processes  # RssShmem of each process counts the shared files of all processes
        said = estimate(options, keys)
        row = {"layout": layout, "own_bytes": held[0], "shared_bytes": held[1], "measured_bytes": sum(held), "estimate": said,
               "error": said["memory_bytes"] / sum(held) - 1}
        rows.append(row)
        if not options.json:
            parts = " | ".join(f"{said[key + '_bytes'] / 2**20:.0f}" for key in
                               ("parameter", "gradient", "optimizer", "activation", "exchange", "memory"))
            print(f"| `{layout}` | {parts} | {held[0] / 2**20:.0f} + {held[1] / 2**20:.0f} | {100 * row['error']:+.0f} % |",
                  flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
