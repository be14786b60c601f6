#!/usr/bin/python3
"""Runs whole studies as a person would, on a tiny corpus: fine-tunings, entropies, folded routers, models
that begin with another's or are upcycled from it, studies like another, tables that take no training;
and that `eval RUN` repeats the figures of finished.json.

    study_test.py PENSTOCK SOURCE_DIRECTORY
"""

import glob
import json
import os
import sys
import tempfile

from shell import Shell
from finetune_test import write_task

RECIPE = """
[model]
architecture = "transformer-xl"
vocab = 0
d_model = 16
layers = 2
heads = 2
d_ffn = 16
[model.moe]
experts = 4
[model.router]
method = "hyperrouter"
k = 4
[data]
corpus = "corpus"
[train]
steps = 4
batch_sequences = 2
sequence_length = 16
eval_sequence_length = 8
eval_memory = 24
eval_streams = 3
[run]
threads = 1
report = false
tensorboard = false
"""

DENSE = """
[model]
vocab = 0
d_model = 16
layers = 2
heads = 4
d_ffn = 32
[model.router]
method = "dense"
[data]
corpus = "corpus"
[train]
steps = 4
batch_sequences = 2
sequence_length = 16
[run]
threads = 1
report = false
tensorboard = false
"""

FIRST = """
name = "first"
base = "recipe.toml"
eval_k = [1, 4]
report = ["entropy", "samples"]
[variants.hyper]
fold = true
published = {layer0 = 1.4393, sst2-k4 = 83.33}
[variants.remoe]
set = {"model.router.method" = "remoe", "model.router.scorer" = "hypernetwork", "model.router.k" = 2}
[finetune.sst2]
data = "sst2"
task = "sst2"
set = {steps = 2, batch = 4, test_k = [2, 4]}
"""

LIKE = """
like = "first.toml"
only = ["hyper"]
report = ["entropy"]
"""

UPCYCLED = """
name = "upcycled"
published_as = "tasks, %"
[upcycle]
experts = 4
k = 2
calibration_tokens = 512
[variants.parent]
recipe = "dense.toml"
[variants.continued]
recipe = "dense.toml"
from = "parent"
published = {result = 34.76}
[variants.vanilla]
recipe = "dense.toml"
from = "parent"
upcycle = {method = "vanilla"}
[variants.heads]
recipe = "dense.toml"
from = "parent"
upcycle = {method = "router-upcycling"}
[variants.collapsed]
recipe = "dense.toml"
from = "parent"
upcycle = {method = "router-upcycling", collapsed = true, match_lr = true}
[variants.no-z-loss]
recipe = "dense.toml"
from = "parent"
upcycle = {method = "router-upcycling"}
set = {"model.router.z-loss.coefficient" = 0}
"""


# One update at this rate makes weights whose loss is not finite.
DIVERGING = """
name = "diverging"
title = "A run that diverges"
seeds = [1]
base = "dense.toml"
[variants.even]
label = "even"
[variants.steep]
label = "steep"
set = {"train.lr" = 1e30}
[variants.after]
label = "after"
from = "steep"
"""


def write(folder, name, text):
    with open(os.path.join(folder, name), "w") as file:
        file.write(text)


def rows_of(shell, study, *more):
    results = json.loads(shell.ok("study", study, "--quiet", "--json", *more))
    return {row["variant"]: row for row in results["rows"]}


def check_reports(shell):
    rows = rows_of(shell, "first.toml")
    hyper, remoe = rows["hyper"], rows["remoe"]
    quality = [[point["bits_per_byte"] for point in of["by_k"]] for of in (hyper, hyper["folded"])]
    shell.expect("folded routers compute the same", quality[0] == quality[1], quality)
    for row in (hyper, remoe):
        layers = row["routers"]["entropy"]
        shell.expect("entropies", len(layers) == 2 and all(0 < one["mean"] <= 1.3863 for one in layers), layers)
        shell.expect("step 0 differs", layers[0]["mean"] != layers[0]["initial_mean"], layers)
    tuned = hyper["finetuned"][0]
    shell.expect("fine-tuned", [point["k"] for point in tuned["by_k"]] == [2, 4], tuned)
    shell.expect("fine-tuned without a k", [point["k"] for point in remoe["finetuned"][0]["by_k"]] == [None], remoe)
    text = shell.ok("study", "first.toml", "--quiet")
    for part in ("hyper, folded", "Accuracy after fine-tuning", "majority class", "83.33", "at step 0", "1.4393",
                 "Distributions at sample tokens"):
        shell.expect("study", part in text, part)
    again = rows_of(shell, "like.toml")
    shell.expect("like takes up runs", again["hyper"]["seconds"] == hyper["seconds"], again)
    shell.expect("like has no runs", not os.path.exists(os.path.join(shell.directory, "studies/like/runs")))
    run = glob.glob(os.path.join(shell.directory, "studies/first/runs/hyper-*"))[0]
    finished = json.load(open(os.path.join(run, "finished.json")))
    scores = json.loads(shell.ok("eval", run, "--data", "corpus", "--json"))
    shell.expect("eval repeats finished.json", abs(scores["loss"] - finished["validation"]["loss"]) < 1e-6,
                 f'{scores["loss"]} {finished["validation"]["loss"]}')
    other = json.loads(shell.ok("eval", run, "--data", "corpus", "--memory", "0", "--json"))
    shell.expect("options come first", other["loss"] != scores["loss"])
    shell.mistake(1, ("finetune.sst2.set", "batc"), "study", "first.toml", "--set", "finetune.sst2.set.batc=2")
    shell.mistake(1, ("finetune.sst2.data", "nowhere"), "study", "first.toml", "--out", "new", "--set", "finetune.sst2.data=nowhere")


def check_upcycled(shell):
    rows = rows_of(shell, "upcycled.toml")
    shell.expect("upcycled", set(rows) == {"parent", "continued", "vanilla", "heads", "collapsed", "no-z-loss"}, rows.keys())
    for name in ("vanilla", "heads", "collapsed"):
        shell.expect("more parameters", rows[name]["total_parameters"] > 1.5 * rows["parent"]["total_parameters"])
    first = {name: row["curves"]["loss"]["values"][0] for name, row in rows.items()}
    shell.expect("heads and collapsed begin alike", abs(first["heads"] - first["collapsed"]) < 1e-5, first)
    shell.expect("it goes on from the parent", first["continued"] < first["parent"], first)
    shell.expect("collapsed has its learning rate",
                 float(rows["collapsed"]["settings"]["model.router.lr_scale"]) != 1, rows["collapsed"]["settings"])
    shell.expect("a coefficient changes no start", first["no-z-loss"] == first["heads"], first)
    shell.expect("but the rest", rows["no-z-loss"]["curves"]["loss"]["values"][-1]
                 != rows["heads"]["curves"]["loss"]["values"][-1], rows["no-z-loss"]["curves"])
    coefficients = {name: float(rows[name]["settings"]["model.router.z-loss.coefficient"])
                    for name in ("heads", "no-z-loss")}
    shell.expect("a variant's coefficient", coefficients == {"heads": 0.001, "no-z-loss": 0}, coefficients)
    write(shell.directory, "wrong.toml", UPCYCLED.replace("z-loss.coefficient", "k"))
    shell.mistake(1, ("wrong.toml:", "model.router.k", "only coefficients"), "study", "wrong.toml")
    text = shell.ok("study", "upcycled.toml", "--quiet")
    shell.expect("published results", "34.76" in text and "published: tasks, %" in text, text)
    shell.ok("info", "upcycled.toml")
    write(shell.directory, "wrong.toml", UPCYCLED.replace("calibration_tokens", "calibration_token"))
    shell.mistake(1, ("calibration_token",), "study", "wrong.toml")


def check_recipes(shell, source):
    """Every study reads at each scale; those that train nothing are done."""
    for path in sorted(glob.glob(os.path.join(source, "recipes/*/*.toml"))):
        with open(path) as file:
            text = file.read()
        if "[variants." not in text and "\nreport = " not in text:
            continue
        for scale in ("desk", "paper") if "[scale.paper]" in text else (None,):
            shell.ok("info", path, *(("--scale", scale) if scale else ()))
    for name in ("tableA1", "tableA2", "tableA3", "tableA4"):
        text = shell.ok("study", os.path.join(source, f"recipes/hyperrouter/{name}.toml"), "--scale", "paper", "--quiet")
        shell.expect(name, "results.json" in text and "runs finished" not in text, text)


def check_diverging(shell):
    """A run that diverges is kept: told at every call, trained again only when asked, no error."""
    def call(*more):
        done = shell.run("study", "diverging.toml", *more)
        shell.expect("diverging: exit", done.returncode == 0, done.stderr)
        shell.expect("diverging: told", "diverged: steep, seed 1: " in done.stdout, done.stdout)
        shell.expect("diverging: no -nan", "-nan" not in done.stdout + done.stderr, done.stderr)
        return done.stderr

    first = call()
    shell.expect("diverging: trained", "] steep, seed 1" in first, first)
    shell.expect("diverging: left out", "need a run that diverged: 1" in first and "--retry-diverged" in first, first)
    shell.expect("diverging: not again", "] steep" not in call())
    asked = call("--retry-diverged")
    shell.expect("diverging: again when asked", "] steep, seed 1" in asked, asked)


def main(program, source):
    with tempfile.TemporaryDirectory() as directory:
        shell = Shell(program, directory)
        write(directory, "text.txt", "the weir holds the water and the gate lets it go. good or bad\n" * 300)
        for name, text in (("recipe.toml", RECIPE), ("dense.toml", DENSE), ("first.toml", FIRST),
                           ("like.toml", LIKE), ("upcycled.toml", UPCYCLED), ("diverging.toml", DIVERGING)):
            write(directory, name, text)
        write_task(os.path.join(directory, "sst2"))
        shell.ok("data", "prepare", "text.txt", "--out", "corpus", "--split", "contiguous:0.8,0.1,0.1")
        check_recipes(shell, source)
        check_reports(shell)
        check_upcycled(shell)
        check_diverging(shell)
        print(f"{shell.failures} failures")
        return shell.failures > 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])))
