#!/usr/bin/python3
"""Runs `penstock finetune` as a person would, on a tiny model and a made-up SST-2. Checks the values in its files and
in --json that scripts read, --test-only, Ctrl-C and --resume, and that each mistake gives one clear line.

    finetune_test.py PENSTOCK
"""

import json
import os
import random
import signal
import subprocess
import sys

from shell import finish, tiny


def write_task(folder):
    os.makedirs(folder)
    draw = random.Random(1)
    for name, rows in (("train.tsv", 120), ("dev.tsv", 30)):
        with open(os.path.join(folder, name), "w") as file:
            file.write("sentence\tlabel\n")
            for _ in range(rows):
                label = draw.randrange(2)
                noise = "".join(draw.choice("gate wtr") for _ in range(draw.randrange(4, 12)))
                file.write(f"{noise} {'good' if label else 'bad'}\t{label}\n")


def check_result(shell):
    arguments = ("finetune", "run", "--data", "sst2", "--out", "tuned", "--set", "steps=6", "--set", "batch=4")
    result = json.loads(shell.ok(*arguments, "--quiet", "--json"))
    with open(os.path.join(shell.directory, "tuned/finetune.json")) as file:
        shell.expect("finetune.json", json.load(file) == result)
    for key in ("accuracy", "majority_accuracy", "selection_accuracy", "seed", "best_step"):
        shell.expect("finetune", isinstance(result.get(key), (int, float)), key)
    shell.expect("finetune", result["test_texts"] == 30 and
                 result["train_texts"] + result["selection_texts"] == 120, result)
    shell.expect("finetune", [point["k"] for point in result["by_k"]] == [1, 2, 4], result)
    again = json.loads(shell.ok("finetune", "--test-only", "tuned", "--json"))
    shell.expect("finetune --test-only", again["by_k"] == result["by_k"], again)
    with open(os.path.join(shell.directory, "tuned/report.html")) as file:
        page = file.read()
    shell.expect("report.html", "How to reproduce" in page and f"penstock finetune {result['model']} --data sst2 "
                 "--task sst2 --set batch=4 --set steps=6 --out tuned-again" in page)
    one = json.loads(shell.ok("finetune", "--test-only", "tuned", "--k", "2", "--json"))
    shell.expect("finetune --k", one["by_k"] == [result["by_k"][1]], one)
    shell.expect("finetune", "majority" in shell.ok("finetune", "--test-only", "tuned"))
    shell.expect("finetune --keys", "selection_share" in shell.ok("finetune", "--keys"))
    shell.expect("finetune --help", "Examples:" in shell.ok("finetune", "--help"))


def check_warnings(shell):
    shell.ok("finetune", "run", "--data", "sst2", "--out", "clipped", "--set", "steps=20", "--set", "batch=4",
             "--set", "clip=1e-6", "--quiet")
    with open(os.path.join(shell.directory, "clipped/finetune.json")) as file:
        warnings = json.load(file)["warnings"]
    with open(os.path.join(shell.directory, "clipped/report.html")) as file:
        page = file.read()
    shell.expect("warnings", [(w["step"], w["name"]) for w in warnings] == [(20, "clipping")], warnings)
    shell.expect("report.html", "Warning: step 20: in 20 of the last 20 steps" in page)


def check_interruption(shell):
    arguments = ("finetune", "run", "--data", "sst2", "--out", "stopped", "--set", "steps=2000", "--set",
                 "eval_every=0", "--set", "batch=4")
    process = subprocess.Popen([shell.program, *arguments], cwd=shell.directory, stderr=subprocess.PIPE, text=True)
    log = os.path.join(shell.directory, "stopped/metrics.jsonl")
    while process.poll() is None and not (os.path.exists(log) and os.path.getsize(log) > 0):
        pass
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    shell.expect("Ctrl-C", process.returncode == 130 and "interrupted. Continue with: penstock finetune run" in said,
                 f"{process.returncode} {said}")
    shell.mistake(1, ["--resume"], *arguments)
    shell.mistake(1, ["steps: 2000 -> 9"], *arguments[:6], "--set", "steps=9", "--set", "eval_every=0", "--set",
                  "batch=4", "--resume")


def check_mistakes(shell):
    tune = ("finetune", "run", "--data", "sst2", "--out", "other")
    shell.mistake(1, ["epoch", "'epochs'"], *tune, "--set", "epoch=3")
    shell.mistake(1, ["--k: 9"], *tune, "--k", "9")
    shell.mistake(1, ["--k and --set test_k say the same thing"], *tune, "--k", "1", "--set", "test_k=[2]")
    shell.mistake(1, ["a decoder has none", "train_memory = 0"], *tune, "--set", "protocol=authors")
    shell.mistake(1, ["imdb"], *tune, "--task", "imdb")
    shell.mistake(1, ["nowhere"], "finetune", "run", "--data", "nowhere", "--out", "other")
    shell.mistake(1, ["config.toml"], "finetune", "--test-only", "sst2")
    shell.mistake(1, ["not of a fine-tuning"], "finetune", "--test-only", "run")
    shell.mistake(2, ["--data"], "finetune", "run", "--out", "other")
    shell.mistake(2, ["--test-only"], "finetune", "run", "--test-only", "tuned")
    for ignored in (("--set", "test_k=[1]"), ("--task", "sst2"), ("--resume",)):
        shell.mistake(2, ["--test-only", ignored[0]], "finetune", "--test-only", "tuned", *ignored)
    shell.mistake(2, ["--task"], *tune, "--task", "mnli")
    shell.expect("a mistake leaves no folder", not os.path.exists(os.path.join(shell.directory, "other")))


def main():
    with tiny(sys.argv[1], run=False) as shell:
        write_task(os.path.join(shell.directory, "sst2"))
        shell.ok("train", "recipe.toml", "--out", "run", "--quiet", "--set", "model.router.method=topk")
        check_result(shell)
        check_warnings(shell)
        check_interruption(shell)
        check_mistakes(shell)
        return finish(shell)


if __name__ == "__main__":
    sys.exit(main())
