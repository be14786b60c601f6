#!/usr/bin/python3
"""Times training steps of Penstock and of the same model in stock PyTorch in alternation and prints the ratio.

    bench/compare_torch.py [--penstock build/release/bin/penstock] [--pairs 5] [--rows dense e8k1 ...]
                           [--core-type SKYLAKEX] [--no-default] [--precision bf16] [--threads N] [--json]

A row is recipes/bench/ROW.toml, measured by `penstock bench step`. The twin is bench/torch_peer.py with the
same shape. A round runs three programs one after the other, so that a drift of the clock affects all of
them: Penstock, the twin with OpenBLAS's core type set by --core-type (OpenBLAS misjudges recent
processors), and the twin in its default settings. Ratios are taken within a round. Their medians over
rounds are printed. `remoe-e8` holds ReLU routing at one active expert and is compared with the twin's top-1
routing. With --precision bf16, Penstock trains in bf16 and the twin under autocast.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
E8K1 = ["--experts", "8", "--k", "1", "--ffn", "1024"]
# Recipe in recipes/bench -> (options of `penstock bench step`, shape as torch_peer.py takes it).
ROWS = {
    "dense": ([], ["--ffn", "1024"]),
    "e8k1": ([], E8K1),
    "remoe-e8": (["--active-experts", "1"], E8K1),
    "e16k2": ([], ["--experts", "16", "--k", "2", "--ffn", "512"]),
    "e64k8": ([], ["--experts", "64", "--k", "8", "--ffn", "128"]),
}


def run_json(command, environment=None):
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def penstock_step(arguments, row):
    threads = ["--set", f"run.threads={arguments.threads}"] if arguments.threads else []
    return run_json([arguments.penstock, "bench", "step", os.path.join(ROOT, "recipes/bench", row + ".toml"),
                     "--set", f"train.precision={arguments.precision}", "--steps", str(arguments.steps), "--json",
                     *threads, *ROWS[row][0]])


def peer_step(arguments, row, core_type):
    environment = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
    if core_type:
        environment["OPENBLAS_CORETYPE"] = core_type
    options = ["--threads", str(arguments.threads)] if arguments.threads else []
    options += ["--bf16"] if arguments.precision == "bf16" else []
    return run_json(["/usr/bin/python3", os.path.join(HERE, "torch_peer.py"), *options, *ROWS[row][1],
                     "--steps", str(arguments.peer_steps)], environment)


def ratios(rounds, peer, key="tokens_per_second", inverse=False):
    """Median, lowest and highest over rounds of the ratio of Penstock's value to the twin's."""
    values = sorted(one[peer][key] / one["penstock"][key] if inverse else one["penstock"][key] / one[peer][key]
                    for one in rounds)
    return {"median": statistics.median(values), "lowest": values[0], "highest": values[-1]}


def refuse_reference_blas(machine):
    """Exits if PyTorch would use the slow reference BLAS: Debian's libtorch accepts any libblas."""
    if machine["blas"] == "reference BLAS":
        sys.exit(f"compare_torch.py: PyTorch would multiply through the reference BLAS ({machine['blas_library']}), "
                 "many times slower than it need be; install libopenblas0-openmp (scripts/setup does)")


def measure_row(arguments, row):
    rounds = []
    for number in range(arguments.pairs):
        one = {"penstock": penstock_step(arguments, row), "told": peer_step(arguments, row, arguments.core_type)}
        if not arguments.no_default:
            one["default"] = peer_step(arguments, row, "")
        rounds.append(one)
        print(f"{row} round {number + 1}: penstock {one['penstock']['tokens_per_second']:.0f} tokens/s "
              f"({100 * one['penstock']['share_of_peak']:.0f} % of peak), torch told {arguments.core_type} "
              f"{one['told']['tokens_per_second']:.0f}"
              + (f", default {one['default']['tokens_per_second']:.0f}" if "default" in one else ""),
              file=sys.stderr)

    def middle(peer, key):
        return statistics.median(one[peer][key] for one in rounds)

    first = rounds[0]
    result = {
        "row": row, "pairs": arguments.pairs, "precision": arguments.precision, "threads": first["penstock"]["threads"],
        "tokens_per_second": middle("penstock", "tokens_per_second"),
        "share_of_peak": middle("penstock", "share_of_peak"),
        "peak_flops": middle("penstock", "peak_flops"),
        "peak_bytes": middle("penstock", "peak_bytes"),
        "active_experts": first["penstock"].get("active_experts"),
        "core_type": arguments.core_type, "torch": first["told"]["torch"], "blas": first["told"]["blas"],
        "torch_tokens_per_second": middle("told", "tokens_per_second"),
        "torch_peak_bytes": middle("told", "peak_bytes"),
        "ratio": ratios(rounds, "told"),
        "memory_ratio": ratios(rounds, "told", "peak_bytes", inverse=True),
    }
    if "default" in first:
        result["torch_default_tokens_per_second"] = middle("default", "tokens_per_second")
        result["ratio_default"] = ratios(rounds, "default")
    return result


def print_table(results):
    mib = 1 << 20
    print(f"{'row':9} {'penstock':>9} {'of peak':>8} {'torch':>8} {'ratio':>6} {'(low-high)':>13} "
          f"{'default':>8} {'ratio':>6} {'MiB':>6} {'torch MiB':>10}")
    for r in results:
        spread = f"({r['ratio']['lowest']:.2f}-{r['ratio']['highest']:.2f})"
        default = (f"{r['torch_default_tokens_per_second']:8.0f} {r['ratio_default']['median']:6.2f}"
                   if "ratio_default" in r else f"{'-':>8} {'-':>6}")
        print(f"{r['row']:9} {r['tokens_per_second']:9.0f} {100 * r['share_of_peak']:7.1f}% "
              f"{r['torch_tokens_per_second']:8.0f} {r['ratio']['median']:6.2f} {spread:>13} {default} "
              f"{r['peak_bytes'] / mib:6.0f} {r['torch_peak_bytes'] / mib:10.0f}")
    r = results[0]
    print(f"tokens/s; {r['threads']} threads, median of {r['pairs']} rounds; torch {r['torch']} with "
          f"{r['blas']}, with OPENBLAS_CORETYPE={r['core_type']} and (default) without")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build/release/bin/penstock"))
    parser.add_argument("--pairs", type=int, default=5, help="number of rounds")
    parser.add_argument("--steps", type=int, default=10, help="timed steps of Penstock in a round")
    parser.add_argument("--peer-steps", type=int, default=5, help="timed steps of the twin in a round")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--core-type", default="SKYLAKEX", help="core type that OpenBLAS is set to")
    parser.add_argument("--no-default", action="store_true",
                        help="do not measure the twin with OpenBLAS's default settings")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="precision of both programs")
    parser.add_argument("--threads", type=int, default=0,
                        help="threads of each program; 0: one for each physical core in Penstock, PyTorch's default "
                             "in the twin")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    refuse_reference_blas(run_json([arguments.penstock, "bench", "machine", "--json"]))
    results = [measure_row(arguments, row) for row in arguments.rows]
    if arguments.json:
        print(json.dumps(results, indent=2))
    else:
        print_table(results)


if __name__ == "__main__":
    main()
