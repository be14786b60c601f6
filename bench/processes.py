#!/usr/bin/python3
"""Compares the speed of several processes of one thread with that of one process of as many threads.

    bench/processes.py CORPUS [--penstock build/release/bin/penstock] [--recipes recipes/bench/dense.toml ...]
                       [--processes 2] [--micro-batches 2 8] [--layouts data zero=1 expert=2] [--steps 12] [--rounds 3]
                       [--set model.router.method=hash ...] [--first 3] [--peer] [--json]

Both sides train the same recipe with the same micro-batches. The layout `data` gives each process its own
micro-batches. Any other layout is a list of keys of [parallel] with their values, such as `expert=2` or
`expert=2,zero=1`. Each round runs both sides one after the other, so that a drift of the clock affects both. The table
shows medians over rounds: the tokens per second of the median step, the share of a step of several processes that the
exchange took (waiting included), and the peak memory of rank 0. Run nothing else on the machine meanwhile.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

from compare_torch import ROWS

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def steps_of(options, recipe, micro_batches, processes, threads, layout="data"):
    """Medians of tokens per second and exchange share without the first --first steps; rank 0's peak bytes."""
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        settings = {"data.corpus": options.corpus, "train.steps": options.steps, "run.threads": threads,
                    "train.micro_batch": 16 // micro_batches, "train.final_eval_tokens": 256}
        if layout != "data":
            settings.update((f"parallel.{key}", value) for key, value in (one.split("=") for one in layout.split(",")))
        settings.update(one.split("=", 1) for one in options.set)
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        subprocess.run([options.penstock, "train", recipe, "--out", run, "--quiet", *sets,
                        "--processes", str(processes)], check=True, cwd=ROOT)
        with open(os.path.join(run, "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file][options.first:]
    return (statistics.median(line["tokens_per_second"] for line in lines),
            statistics.median(line.get("communication_seconds", 0) / line["step_seconds"] for line in lines),
            max(line["peak_bytes"] for line in lines))


def peer_speed(options, recipe, micro_batches, processes, threads):
    """Tokens per second of the same model in stock PyTorch; several processes use DistributedDataParallel."""
    shape = ROWS[os.path.splitext(os.path.basename(recipe))[0]][1]
    done = subprocess.run(["/usr/bin/python3", os.path.join(ROOT, "bench/torch_peer.py"), *shape, "--threads", str(threads),
                           "--processes", str(processes), "--micro-batches", str(micro_batches), "--steps",
                           str(options.steps - options.first), "--warmup", str(options.first)],
                          check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)["tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build/release/bin/penstock"))
    parser.add_argument("--recipes", nargs="*", default=[
        os.path.join(ROOT, "recipes/bench", name + ".toml") for name in ("dense", "e8k1", "remoe-e8")])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--micro-batches", type=int, nargs="*", default=[2, 8],
                        help="number of micro-batches that 16 sequences are divided into")
    parser.add_argument("--layouts", nargs="*", default=["data"])
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="override keys of the recipe")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--first", type=int, default=3, help="number of first steps that are not counted")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", action="store_true",
                        help="measure PyTorch's DistributedDataParallel over Gloo too, in turn")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.corpus = os.path.abspath(options.corpus)
    rows = []
    for recipe in options.recipes:
        for micro_batches in options.micro_batches:
            threads, processes = [], {layout: [] for layout in options.layouts}
            peers = {1: [], options.processes: []}
            for _ in range(options.rounds):
                threads.append(steps_of(options, recipe, micro_batches, 1, options.processes)[0])
                for layout in options.layouts:
                    processes[layout].append(
                        steps_of(options, recipe, micro_batches, options.processes, 1, layout))
                for count, speeds in peers.items() if options.peer else ():
                    speeds.append(peer_speed(options, recipe, micro_batches, count, options.processes // count))
            if options.peer:
                alone, shared = (statistics.median(speeds) for speeds in peers.values())
                rows.append({"recipe": os.path.basename(recipe), "micro_batches": micro_batches, "layout": "PyTorch DDP",
                             "threads": alone, "processes": shared, "efficiency": shared / alone, "exchange": None,
                             "peak_bytes": None})
            for layout in options.layouts:
                speed, exchange, peak = (statistics.median(figures) for figures in zip(*processes[layout]))
                rows.append({"recipe": os.path.basename(recipe), "micro_batches": micro_batches, "layout": layout,
                             "threads": statistics.median(threads), "processes": speed,
                             "efficiency": speed / statistics.median(threads), "exchange": exchange, "peak_bytes": peak})
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    n = options.processes
    print(f"{'recipe':16s} {'micro-batches':>13s} {'layout':>22s} {f'1 x {n} threads':>14s} {f'{n} x 1 thread':>13s} "
          f"{'efficiency':>10s} {'exchange':>8s} {'peak':>8s}")
    for row in rows:
        print(f"{row['recipe']:16s} {row['micro_batches']:13d} {row['layout']:>22s} {row['threads']:14,.0f} {row['processes']:13,.0f} "
              f"{100 * row['efficiency']:9.0f}% " +
              ("" if row["exchange"] is None else f"{100 * row['exchange']:7.0f}% {row['peak_bytes'] / 1e6:5.0f} MB"))


if __name__ == "__main__":
    main()
