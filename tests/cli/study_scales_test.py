#!/usr/bin/python3
"""Checks the output of `penstock info` for a study, and runs a study at a scale with results by experts per token.

    study_scales_test.py PENSTOCK
"""

import json
import os

from shell import main


STUDY = """
base = "recipe.toml"
seeds = [1, 2]
[variants.wide]
set = {"model.d_model" = 32}
[variants.hash]
set = {"model.router.method" = "hash"}
match_compute = "wide"
"""


SCALED = """
base = "recipe.toml"
eval_k = [1, 4, 16]
reference = "dense"
baseline = {name = "nothing", bits_per_byte = 99}
set = {"train.steps" = 600}
[scale.paper]
[scale.desk]
seeds = [3, 4]
set = {"train.steps" = 4, "train.eval_every" = 2}
[variants.dense]
set = {"model.router.method" = "dense", "model.moe.experts" = 0}
[variants.hyper]
set = {"model.router.method" = "hyperrouter", "model.router.k" = 4}
published = {k1 = 1.48}
"""


def check_study_figures(shell):
    with open(os.path.join(shell.directory, "study.toml"), "w") as file:
        file.write(STUDY)
    figures = json.loads(shell.ok("info", "study.toml", "--json"))
    shell.expect("info of a study", list(figures["variants"]) == ["wide", "hash"], figures)
    for name, settings in (("wide", ("model.d_model=32",)), ("hash", ("model.router.method=hash",))):
        alone = json.loads(shell.ok("info", "recipe.toml", "--json", "--set", *settings))
        shell.expect("info of a study", figures["variants"][name] == alone, figures)
    text = shell.ok("info", "study.toml")
    shell.expect("info of a study", "penstock study study.toml\n" in text and "matched" in text, text)
    text = shell.ok("info", "study.toml", "--set", "train.steps=7", "--set", "description=a b")
    shell.expect("info of a study with --set", "run it with: penstock study study.toml --set train.steps=7 --set 'description=a b'\n" in text, text)


def check_scaled_study(shell):
    with open(os.path.join(shell.directory, "scaled.toml"), "w") as file:
        file.write(SCALED)
    paper, desk = (shell.ok("info", "scaled.toml", "--scale", name) for name in ("paper", "desk"))
    shell.expect("info --scale", "scale paper" in paper and " 600" in paper and " 600" not in desk, paper + desk)
    shell.mistake(1, ["no scale 'table'", "desk, paper"], "study", "scaled.toml", "--scale", "table")
    shell.mistake(1, ["one scale only"], "study", "study.toml", "--scale", "desk")
    shell.mistake(1, ["--scale is for studies"], "info", "recipe.toml", "--scale", "desk")
    results = json.loads(shell.ok("study", "scaled.toml", "--json", "--quiet"))
    shell.expect("study", results["scale"] == "desk" and len(results["rows"]) == 4, results["scale"])
    for row in results["rows"]:
        ks = [point["k"] for point in row["by_k"]]
        shell.expect("study by k", ks == ([None] if row["variant"] == "dense" else [1, 4]), ks)  # of the 4 experts
        shell.expect("study by k", row["by_k_of"] == {"checkpoint": "final", "step": 4, "split": "test",
                                                        "trained_k": 0 if row["variant"] == "dense" else 4}, row["by_k_of"])
        shell.expect("study by k", row["by_k"][-1]["loss"] == row["test"]["loss"], row["by_k"])
    shell.expect("study by k", results["undertrained"] == [] and len(results["by_k_differences"]) == 2, results)
    text = shell.ok("study", "scaled.toml", "--report-only", "--quiet")
    for part in ("k=4", "paper", "1.48", "difference in bits per byte from dense", "order of the means at k = 4: "):
        shell.expect("study by k", part in text, part + "\n" + text)
    shell.expect("study by k", os.path.exists(os.path.join(shell.directory, "studies/scaled-desk/report.html")))
    # `penstock eval` gives the same result for the run, also at k = 1.
    runs = os.path.join("studies/scaled-desk/runs")
    run = [name for name in os.listdir(os.path.join(shell.directory, runs)) if name.startswith("hyper-seed-3-")]
    alone = json.loads(shell.ok("eval", os.path.join(runs, run[0], "checkpoints/step-4"), "--data", "corpus",
                                "--split", "test", "--k", "1", "--threads", "1", "--json"))
    row = [row for row in results["rows"] if row["variant"] == "hyper" and row["seed"] == 3][0]
    shell.expect("study by k", abs(alone["by_k"][0]["loss"] - row["by_k"][0]["loss"]) < 1e-6, alone["by_k"])


if __name__ == "__main__":
    main([check_study_figures, check_scaled_study], run=False)
