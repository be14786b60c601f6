#!/usr/bin/env python3
"""Prints how unevenly a finished or running run used its experts, from its metrics.jsonl.

  recipes/checks/load_variation.py RUN... [--steps 20]

The figures are over the last STEPS steps and all layers: the mean coefficient of variation of the experts'
load, the largest share of one expert, and the share of experts below a tenth of their layer's mean.
"""
import argparse
import json
import os
import statistics


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    for run in arguments.runs:
        with open(os.path.join(run, "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file][-arguments.steps:]
        layers = [load for line in lines for load in line.get("load", []) if sum(load) > 0]
        if not layers:
            raise SystemExit(f"{run}: no load in metrics.jsonl; is it a mixture of experts?")
        means = [sum(load) / len(load) for load in layers]
        variation = statistics.mean(statistics.pstdev(load) / mean for load, mean in zip(layers, means))
        largest = max(max(load) / sum(load) for load in layers)
        idle = [expert < mean / 10 for load, mean in zip(layers, means) for expert in load]
        print(f"{run}: variation {variation:.2f}, largest share {100 * largest:.0f} %, "
              f"below a tenth of the mean {100 * sum(idle) / len(idle):.0f} %")


if __name__ == "__main__":
    main()
