#!/usr/bin/python3
"""Measures how soon and how well each controller of ReMoE's sparsity holds its target, over a grid of settings.

    penstock data prepare input.txt --split contiguous:0.9,0.1,0 --no-eod --out corpora/shakespeare
    recipes/studies/remoe_controllers.py PROGRAM corpora/shakespeare RUNS [ROWS.json] [--only CONTROLLER[:CELL[:SEED]]]... [--seeds N]

Claim: ReMoE (arXiv:2412.14711) Tables 3 and 4 and section 3.3: the paper's rule settles within about 100 steps
and then holds, whatever λ0 and α. Data: tiny Shakespeare by bytes (1.1 MB). The grid is λ0 × α × lr × E in Taguchi's
L9 (nine of its 81 cells: every value of each factor meets every value of each other once), seeds 1 to 3, k = 1,
3 layers, d = 64, 1024 tokens a step, 400 steps of 5 to 15 s on one core.

The k of a step is its mean number of experts per token, over all layers. "Settled" is the first step at which the mean
k of the last 20 steps lies within 5 % of the target and stays there for 20 more steps. "Held" is the share of steps
from then on at which the mean k of 20 steps lies within 5 % of the target; it is 0 for a run that never settles. The
rule of finished.json, ±min(0.02, 0.16 k / E) of the sparsity (docs/studies.md), is wider: 8 % of the target's k at E = 4, and
16 % at E = 16 and 64.
Finished runs in RUNS are not trained again. Rows of other runs in ROWS.json are kept.
"""

import argparse
import json
import os
import subprocess
import sys

BASE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "remoe-controllers-base.toml")
WINDOW, TOLERANCE = 20, 0.05
INITIAL, FACTOR, RATE, EXPERTS = (1e-16, 1e-8, 1.0), (1.05, 1.2, 1.5), (5e-4, 2e-3, 4e-3), (4, 16, 64)
L9 = [(0, 0, 0, 0), (0, 1, 1, 1), (0, 2, 2, 2), (1, 0, 1, 2), (1, 1, 2, 0), (1, 2, 0, 1), (2, 0, 2, 1), (2, 1, 0, 2),
      (2, 2, 1, 0)]
SEEDS = (1, 2, 3)
PROPORTIONAL = ['model.router.adaptive-l1.controller="log-proportional"', "model.router.adaptive-l1.floor=1e-5",
                "model.router.adaptive-l1.ceiling=0.1"]
CONTROLLERS = {
    "paper": [],
    "hold": ['model.router.adaptive-l1.controller="hold"'],
    "log-proportional": PROPORTIONAL,
    "threshold": PROPORTIONAL + ['model.router.balancers=["adaptive-l1","threshold"]',
                                 'model.router.threshold.start="target"'],
}


def cells():
    for index, (a, b, c, d) in enumerate(L9, 1):
        yield index, {"model.router.adaptive-l1.initial": INITIAL[a], "model.router.adaptive-l1.factor": FACTOR[b],
                      "train.lr": RATE[c], "model.moe.experts": EXPERTS[d]}


def train(program, corpus, folder, settings):
    if not os.path.exists(os.path.join(folder, "finished.json")):
        command = [program, "train", BASE, "--out", folder, "--quiet", "--set", f"data.corpus={corpus}"]
        for setting in settings:
            command += ["--set", setting]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "finished.json"), encoding="utf-8") as file:
        finished = json.load(file)
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return finished["validation"]["loss"], [line for line in lines if line["step"] > 0]


def steering(active, target):
    """The step at which the mean k settled (None: never), and the share of later steps that hold the target."""
    means = [sum(active[i - WINDOW:i]) / WINDOW for i in range(WINDOW, len(active) + 1)]
    on = [abs(mean / target - 1) <= TOLERANCE for mean in means]  # on[i] is for step i + WINDOW
    for i in range(len(on) - WINDOW):
        if all(on[i:i + WINDOW + 1]):
            return i + WINDOW, sum(on[i:]) / len(on[i:])
    return None, 0


def dark_layers(lines, target):
    """The number of layers whose mean k over the last 50 steps is below a tenth of the target."""
    last = lines[-50:]
    experts = len(last[0]["load"][0])
    layers = len(last[0]["sparsity_by_layer"])
    means = [sum(experts * (1 - line["sparsity_by_layer"][i]) for line in last) / len(last) for i in range(layers)]
    return sum(mean < target / 10 for mean in means)


def keep(path, rows):
    """Writes rows into the file and keeps the file's rows of other runs."""
    def run(row):
        return list(CONTROLLERS).index(row["controller"]), row["cell"], row["seed"]

    kept = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            kept = {run(row): row for row in json.load(file)["steering"]}
    kept.update({run(row): row for row in rows})
    lines = ",\n".join("  " + json.dumps(row) for _, row in sorted(kept.items()))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{{"study": "recipes/studies/remoe_controllers.py", "steering": [\n{lines}\n]}}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("corpus")
    parser.add_argument("runs")
    parser.add_argument("rows", nargs="?")
    parser.add_argument("--only", action="append",
                        help="run only this CONTROLLER, CONTROLLER:CELL or CONTROLLER:CELL:SEED")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    arguments = parser.parse_args()
    rows = []
    for name, options in CONTROLLERS.items():
        for cell, settings in cells():
            for seed in SEEDS[:arguments.seeds]:
                if arguments.only and not {name, f"{name}:{cell}", f"{name}:{cell}:{seed}"} & set(arguments.only):
                    continue
                folder = os.path.join(arguments.runs, f"{name}-{cell}-{seed}")
                given = [f"{key}={value}" for key, value in settings.items()] + [f"train.seed={seed}"] + options
                loss, lines = train(arguments.program, arguments.corpus, folder, given)
                active = [line["active_experts"] for line in lines]
                settled, held = steering(active, 1)
                rows.append({"controller": name, "cell": cell, "seed": seed, "settled": settled,
                             "held": round(held, 4), "dark_layers": dark_layers(lines, 1),
                             "first_k": round(active[0], 4), "lambda": lines[-1]["lambda"],
                             "loss": round(loss, 4), **{key.split(".")[-1]: value for key, value in settings.items()}})
                print(json.dumps(rows[-1]), flush=True)
    if arguments.rows:
        keep(arguments.rows, rows)


if __name__ == "__main__":
    sys.exit(main())
