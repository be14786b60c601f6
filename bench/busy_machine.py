#!/usr/bin/python3
"""Times a training step while other programs keep the processor busy, by number of threads and by spin count.

    bench/busy_machine.py [--penstock build/release/bin/penstock] [--recipe recipes/bench/dense.toml]
                          [--loads 0 2 4] [--threads 1 2] [--spin-counts usual 300000] [--rounds 3]
                          [--steps 6] [--json] [--check]

A load is a number of busy loops, each in a process of its own. A spin count is the value of
GOMP_SPINCOUNT: how often a waiting OpenMP thread checks again before it sleeps. "usual" leaves the
value to the program; 300000 is GNU OpenMP's own default. Each round measures every cell once, so that
a drift of the clock affects all cells alike. The table shows the median, the lowest and the highest
tokens per second over rounds. Run nothing else on the machine meanwhile.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@contextlib.contextmanager
def busy_loops(count):
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def tokens_per_second(arguments, threads, spin_count):
    environment = {key: value for key, value in os.environ.items()
                   if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    if spin_count != "usual":
        environment["GOMP_SPINCOUNT"] = spin_count
    done = subprocess.run([arguments.penstock, "bench", "step", arguments.recipe, "--steps", str(arguments.steps),
                           "--warm-up", "1", "--set", f"run.threads={threads}", "--json"],
                          env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)["tokens_per_second"]


def measure(arguments):
    cells = [(load, threads, spin) for load in arguments.loads for threads in arguments.threads
             for spin in (arguments.spin_counts if threads > 1 else ["usual"])]
    measured = {cell: [] for cell in cells}
    for number in range(arguments.rounds):
        for cell in cells:
            load, threads, spin = cell
            with busy_loops(load):
                measured[cell].append(tokens_per_second(arguments, threads, spin))
            print(f"round {number + 1}: {load} busy loops, {threads} threads, spin count {spin}: "
                  f"{measured[cell][-1]:.0f} tokens/s", file=sys.stderr, flush=True)
    return [{"busy_loops": load, "threads": threads, "spin_count": spin, "median": statistics.median(values),
             "lowest": min(values), "highest": max(values)} for (load, threads, spin), values in measured.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build/release/bin/penstock"))
    parser.add_argument("--recipe", default=os.path.join(ROOT, "recipes/bench/dense.toml"))
    parser.add_argument("--loads", nargs="+", type=int, default=[0, 2, 4])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--spin-counts", nargs="+", default=["usual", "300000"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6, help="number of timed steps; their median is the result")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true",
                        help="exit with 1 if several threads with the program's own spin count are more than 3 %% "
                             "slower than one beside the same loads")
    arguments = parser.parse_args()
    results = measure(arguments)
    if arguments.json:
        print(json.dumps(results, indent=2))
    else:
        show(results)
    if arguments.check:
        check(results)


def check(results):
    """Exits if several threads are more than 3 % slower than one thread beside the same load."""
    usual = {(r["busy_loops"], r["threads"]): r["median"] for r in results if r["spin_count"] == "usual"}
    for (load, threads), speed in sorted(usual.items()):
        alone = usual.get((load, 1))
        if threads > 1 and alone and speed < 0.97 * alone:
            sys.exit(f"beside {load} busy loops {threads} threads make {speed:.0f} tokens/s, but one thread makes "
                     f"{alone:.0f}")


def show(results):
    print(f"{'busy loops':>10} {'threads':>7} {'spin count':>10} {'tokens/s':>9} {'(low-high)':>15}")
    for r in results:
        spread = f"({r['lowest']:.0f}-{r['highest']:.0f})"
        print(f"{r['busy_loops']:>10} {r['threads']:>7} {r['spin_count']:>10} {r['median']:>9.0f} {spread:>15}")


if __name__ == "__main__":
    main()
