#!/usr/bin/python3
"""Times a training step of Penstock and of its stock-PyTorch twin in alternation and prints the ratio.

    bench/compare_torch.py [--penstock build/release/bin/penstock] [--corpus DIR] [--pairs 5]
                           [--rows dense e8k1 ...] [--core-type SKYLAKEX] [--json]

The rows are recipes/bench/ROW.toml; the twin is bench/torch_peer.py with the same shape. The core type
is told to OpenBLAS, which misjudges recent processors; "" leaves it to its own judgement. One pair is
a run of each, taken one after the other, so that a clock that drifts touches both.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
# Shapes of the recipes in recipes/bench, as torch_peer.py takes them.
ROWS = {
    "dense": ["--ffn", "1024"],
    "e8k1": ["--experts", "8", "--k", "1", "--ffn", "1024"],
    "e16k2": ["--experts", "16", "--k", "2", "--ffn", "512"],
    "e64k8": ["--experts", "64", "--k", "8", "--ffn", "128"],
}


def penstock_step(program, row, corpus, steps):
    """Median tokens per second and share of peak of a short run, its first steps left out."""
    with tempfile.TemporaryDirectory() as directory:
        run = os.path.join(directory, "run")
        subprocess.run([program, "train", os.path.join(ROOT, "recipes/bench", row + ".toml"), "--out", run,
                        "--quiet", "--set", "data.corpus=" + corpus, "--set", f"train.steps={steps}"],
                       check=True)
        lines = [json.loads(line) for line in open(os.path.join(run, "metrics.jsonl"))][2:]
        return (statistics.median(line["tokens_per_second"] for line in lines),
                statistics.median(line["share_of_peak"] for line in lines),
                lines[-1]["peak_bytes"])


def peer_step(row, core_type):
    environment = dict(os.environ)
    if core_type:
        environment["OPENBLAS_CORETYPE"] = core_type
    out = subprocess.run(["/usr/bin/python3", os.path.join(HERE, "torch_peer.py"), *ROWS[row]],
                         env=environment, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build/release/bin/penstock"))
    parser.add_argument("--corpus", default=os.path.join(ROOT, "runs/corpora/system"))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12, help="Penstock's steps per run, two of them warm-up")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=["dense", "e8k1"])
    parser.add_argument("--core-type", default="SKYLAKEX")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = []
    for row in arguments.rows:
        pairs = []
        for number in range(arguments.pairs):
            ours, share, memory = penstock_step(arguments.penstock, row, arguments.corpus, arguments.steps)
            peer = peer_step(row, arguments.core_type)
            pairs.append((ours, share, peer["tokens_per_second"], memory, peer))
            print(f"{row} pair {number + 1}: penstock {ours:.0f} tokens/s ({100 * share:.0f} % of peak), "
                  f"torch {peer['tokens_per_second']:.0f}", file=sys.stderr)
        ratios = sorted(ours / theirs for ours, _, theirs, _, _ in pairs)
        results.append({
            "row": row,
            "penstock_tokens_per_second": statistics.median(pair[0] for pair in pairs),
            "share_of_peak": statistics.median(pair[1] for pair in pairs),
            "torch_tokens_per_second": statistics.median(pair[2] for pair in pairs),
            "ratio": statistics.median(ratios), "ratio_lowest": ratios[0], "ratio_highest": ratios[-1],
            "torch": pairs[0][4].get("torch"), "blas": pairs[0][4].get("blas"),
            "core_type": arguments.core_type, "pairs": arguments.pairs})
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    print(f"{'row':8} {'penstock tok/s':>15} {'of peak':>8} {'torch tok/s':>12} {'ratio':>6}  lowest-highest")
    for r in results:
        print(f"{r['row']:8} {r['penstock_tokens_per_second']:15.0f} {100 * r['share_of_peak']:7.0f}% "
              f"{r['torch_tokens_per_second']:12.0f} {r['ratio']:6.2f}  {r['ratio_lowest']:.2f}-{r['ratio_highest']:.2f}")


if __name__ == "__main__":
    main()
