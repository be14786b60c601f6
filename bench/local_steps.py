#!/usr/bin/python3
"""Trains with local steps and measures the final loss and the tokens per second over a slow link.

    bench/local_steps.py CORPUS [--penstock build/release/bin/penstock] [--recipe recipes/demo/topk.toml]
                         [--local-steps 1 10 50] [--outer 0.7,0.9 1,0] [--steps 300]
                         [--link 1gbit] [--link-steps 50] [--json]

Two processes of one thread each train. The loss is that of the last validation, after --steps steps. The loss of one
process that trains with half of the batch stands beside it. The speed is the tokens of --link-steps steps divided by
their seconds. For the speed, each process runs in a network namespace of its own. The link between them has the rate
--link, in tc's notation, and the processes share no memory. The speed needs root; --link "" leaves it out. Run nothing
else on the machine meanwhile.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
from namespaces import Namespaces  # noqa: E402  (needs the path that the line above adds)


def command(options, run, steps, settings):
    settings = {"data.corpus": options.corpus, "run.threads": 1, "run.report": "false", "train.steps": steps,
                "train.eval_every": 0, "train.checkpoint_every": 0, **settings}
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return [options.penstock, "train", options.recipe, "--out", run, "--quiet", *sets]


def lines_of(run):
    with open(os.path.join(run, "metrics.jsonl")) as file:
        return [json.loads(line) for line in file]


def loss_of(options, settings, processes=2):
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        subprocess.run([*command(options, run, options.steps, settings), "--processes", str(processes)], check=True,
                       cwd=ROOT)
        with open(os.path.join(run, "finished.json")) as file:
            return json.load(file)["validation"]["loss"]


def speed_of(options, hosts, settings):
    """Tokens per second over the link, and the exchange's share of the time."""
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        ranks = hosts.start_ranks(
            command(options, run, options.link_steps, {**settings, "train.final_eval_tokens": 256}), cwd=ROOT)
        if any([rank.wait() for rank in ranks]):
            raise SystemExit("a rank failed")
        lines = lines_of(run)
    seconds = sum(line["step_seconds"] for line in lines)
    tokens = sum(line["tokens_per_second"] * line["step_seconds"] for line in lines)
    return tokens / seconds, sum(line["communication_seconds"] for line in lines) / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build/release/bin/penstock"))
    parser.add_argument("--recipe", default=os.path.join(ROOT, "recipes/demo/topk.toml"))
    parser.add_argument("--local-steps", type=int, nargs="*", default=[1, 10, 50])
    parser.add_argument("--outer", nargs="*", default=["0.7,0.9"],
                        help="pairs of learning rate and momentum of the outer step")
    parser.add_argument("--steps", type=int, default=300, help="steps of a training; 0: measure no losses")
    parser.add_argument("--link", default="1gbit")
    parser.add_argument("--link-steps", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.corpus = os.path.abspath(options.corpus)
    with open(options.recipe, "rb") as file:
        half = tomllib.load(file)["train"]["batch_sequences"] // 2
    rows = []
    if options.steps:
        rows.append({"name": "one process, half of the batch",
                     "loss": loss_of(options, {"train.batch_sequences": half, "train.micro_batch": half}, 1)})
    hosts = Namespaces() if options.link else None
    try:
        if hosts:
            hosts.shape("tbf", "rate", options.link, "burst", "1mb", "latency", "50ms")
        for local_steps in options.local_steps:
            settings = {"train.micro_batch": half, "parallel.local_steps": local_steps}
            speed = speed_of(options, hosts, settings) if hosts else None  # outer_lr and outer_momentum change no speed
            for outer in options.outer if local_steps > 1 else [""]:
                if outer:
                    settings["parallel.outer_lr"], settings["parallel.outer_momentum"] = outer.split(",")
                row = {"name": f"local steps {local_steps}" + (f", outer {outer}" if outer else "")}
                if options.steps:
                    row["loss"] = loss_of(options, settings)
                if speed:
                    row["tokens_per_second"], row["exchange"] = speed
                rows.append(row)
    finally:
        if hosts:
            hosts.close()
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        words = [f"{row['name']:>30}"]
        if "loss" in row:
            words.append(f"loss {row['loss']:.4f}")
        if "exchange" in row:
            words.append(f"{row['tokens_per_second']:8,.0f} tokens/s, exchange {100 * row['exchange']:.0f} %")
        print("  ".join(words))


if __name__ == "__main__":
    main()
