#!/usr/bin/python3
"""Compares requests per second of zero-shot tasks in lm-evaluation-harness and in Penstock.

The harness runs its own model class with stories260K in plain PyTorch. Both sides get the same requests on the same
machine.

    bench/compare_lm_eval.py CHECKOUT STORIES DATA [--penstock build/release/bin/penstock] [--tasks copa,hellaswag]
        [--limit 200] [--batches 1,16,64] [--threads 2] [--rounds 3] [--width D --layers L] [--json]

CHECKOUT, STORIES and DATA are those of tests/tasks/lm_eval_scores.py, which defines the two sides and compares their
scores. Each round measures both sides one after the other. The medians over rounds of two speeds are shown:

scoring   The time to score requests, in a process that is already warm. The harness's time is that of
          `_loglikelihood_tokens` alone: it gets the tokens ready-made, because no fast tokenizer is installed here.
          Penstock's time covers everything: requests as JSON through a pipe, tokens, scores, answers as JSON.
command   The wall clock of a whole process for the task. The harness's process imports its modules, reads the data,
          makes the requests and scores them; it reads the tokens from a file. Penstock's is `penstock eval --tasks`.

The harness runs with its fastest batch size of --batches. With --width and --layers, a model of random weights (seed 1)
replaces STORIES's model and keeps its tokenizer.
"""

import argparse
import json
import os
import pickle
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../tests/tasks"))

import lm_eval_scores as scores  # noqa: E402: found by the line above
from lm_eval_requests import holder, import_harness  # noqa: E402


def write_random_model(folder, stories, width, layers):
    """Writes a random model in llama2.c's first format beside STORIES's tokenizer; its heads have width 64."""
    torch.manual_seed(1)
    hidden, heads, vocab, context = 4 * width, max(1, width // 64), 512, 512
    os.symlink(os.path.join(os.path.abspath(stories), "tok512.bin"), os.path.join(folder, "tok512.bin"))

    def matrices(*shape):
        return torch.randn(*shape).mul_(0.5 / shape[-1] ** 0.5)

    def ones(*shape):
        return torch.ones(shape)

    with open(os.path.join(folder, "stories260K.bin"), "wb") as file:
        file.write(struct.pack("<7i", width, hidden, layers, heads, heads, vocab, context))
        for part in (matrices(vocab, width), ones(layers, width), *(matrices(layers, width, width) for _ in "qkvo"),
                     ones(layers, width), matrices(layers, hidden, width), matrices(layers, width, hidden),
                     matrices(layers, hidden, width), ones(width), torch.zeros(context, width // heads)):
            file.write(part.numpy().tobytes())


def harness_task(arguments, task):
    """The harness's side of a task: returns its model and its requests."""
    task_class = import_harness(arguments.checkout, lambda *a, **k: {
        split: holder["rows"] for split in ("train", "validation", "test")})
    model = scores.harness_model(arguments.stories, torch.float32)
    _, config, rows, _ = next(iter(scores.files_of(arguments.data, [task])))
    made = scores.made_task(task_class, arguments.checkout, config, rows, arguments.limit)[2]
    return model, [request for requests in made for request in requests]


def tokens_of(model, requests):
    kept = []
    model._loglikelihood_tokens = lambda asked, **_: kept.extend(asked)
    model.loglikelihood(requests, disable_tqdm=True)
    del model._loglikelihood_tokens
    return kept


def seconds_of(action):
    begin = time.monotonic()
    action()
    return time.monotonic() - begin


def run_harness_command(arguments):
    """Carries out --as-harness TASK TOKENS BATCH in a process of its own."""
    task, tokens, batch = arguments.as_harness
    model, requests = harness_task(arguments, task)
    model.batch_size_per_gpu = int(batch)
    with open(tokens, "rb") as file:
        asked = pickle.load(file)
    assert len(asked) == len(requests)
    model._loglikelihood_tokens(asked, disable_tqdm=True)


def measure(arguments, task, folder):
    model, requests = harness_task(arguments, task)
    asked = tokens_of(model, requests)
    tokens = os.path.join(folder, task + ".tokens")
    with open(tokens, "wb") as file:
        pickle.dump(asked, file)
    path = os.path.join(arguments.stories, "stories260K.bin")
    threads = ("--threads", str(arguments.threads))
    ours = scores.penstock_model(path, arguments.penstock, threads)
    command = [arguments.penstock, "eval", path, "--tasks", task, "--task-data", arguments.data, "--limit",
               str(arguments.limit), "--json", *threads]
    again = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--stories-folder", arguments.stories,
             "--as-harness", task, tokens]

    def score_with(batch):
        model.batch_size_per_gpu = batch
        return seconds_of(lambda: model._loglikelihood_tokens(asked, disable_tqdm=True))

    def run(words):
        return seconds_of(lambda: subprocess.run(words, check=True, capture_output=True))

    ours.loglikelihood(requests)  # a warm-up, as the first batch is for the harness
    best = min(arguments.batches, key=lambda batch: min(score_with(batch) for _ in range(2)))
    rounds = [{"scoring": (score_with(best), seconds_of(lambda: ours.loglikelihood(requests))),
               "command": (run(again + [str(best)]), run(command)), "load": os.getloadavg()[0]}
              for _ in range(arguments.rounds)]
    ours.close()
    out = {"task": task, "requests": len(requests), "batch": best, "rounds": rounds}
    for what in ("scoring", "command"):
        theirs, mine = (statistics.median(r[what][side] for r in rounds) for side in (0, 1))
        out[what] = {"harness": len(requests) / theirs, "penstock": len(requests) / mine, "ratio": theirs / mine}
    return out


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("checkout", "stories", "data"):
        parser.add_argument(name)
    parser.add_argument("--penstock", default="build/release/bin/penstock")
    parser.add_argument("--tasks", default="copa,winogrande,openbookqa,arc_easy,hellaswag,piqa,lambada_openai,boolq")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--batches", type=lambda text: [int(word) for word in text.split(",")], default=[1, 16, 64])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--width", type=int, help="width of a model with random weights, a multiple of 64")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--stories-folder", help=argparse.SUPPRESS)
    parser.add_argument("--as-harness", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    arguments = parsed()
    torch.set_num_threads(arguments.threads)
    if arguments.as_harness:
        arguments.stories = arguments.stories_folder
        return run_harness_command(arguments)
    with tempfile.TemporaryDirectory() as folder:
        if arguments.width:
            write_random_model(folder, arguments.stories, arguments.width, arguments.layers)
            arguments.stories = folder
        out = []
        if not arguments.json:
            print(f"{'':<16}{'':>9}{'':>6} | {'scoring, requests/s':^28} | {'command, requests/s':^28}\n{'task':<16}"
                  f"{'requests':>9}{'batch':>6}" + f" | {'harness':>9}{'penstock':>10}{'ratio':>9}" * 2)
        for task in arguments.tasks.split(","):
            out.append(measure(arguments, task, folder))
            if not arguments.json:
                told = "".join(f" | {row['harness']:>9.0f}{row['penstock']:>10.0f}{row['ratio']:>9.1f}"
                               for row in (out[-1]["scoring"], out[-1]["command"]))
                print(f"{task:<16}{out[-1]['requests']:>9}{out[-1]['batch']:>6}{told}", flush=True)
        if arguments.json:
            print(json.dumps(out, indent=2))


if __name__ == "__main__":
    main()
