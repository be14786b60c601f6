#!/usr/bin/python3
"""Tests scripts/compare-llama-cpp and scripts/compare-llama-cpp-tasks without llama.cpp. Stand-ins for its programs
record how they were called. They answer with given ids and a given perplexity, or compute scores with Penstock.

    compare_llama_cpp_test.py PENSTOCK SOURCE_DIRECTORY
"""

import json
import os
import subprocess
import sys

import shell as harness

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(os.path.abspath(sys.argv[2]), "scripts", "compare-llama-cpp")


def stand_in(shell, name, answer):
    path = os.path.join(shell.directory, "bin", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(f"#!/bin/sh\necho \"$@\" > {path}.called\ncat {path}.answer\n")
    os.chmod(path, 0o755)
    with open(path + ".answer", "w") as file:
        file.write(answer)


def called(shell, name):
    with open(os.path.join(shell.directory, "bin", name + ".called")) as file:
        return file.read()


def compare(shell, *more):
    return subprocess.run([sys.executable, SCRIPT, "bin", "model", "plain.txt", "--window", "16", "--penstock",
                           shell.program, *more], cwd=shell.directory, capture_output=True, text=True)


def programs_are_called_for_plain_text(shell):
    shell.ok("train", "recipe.toml", "--out", "model", "--quiet", "--set", "model.router.method=topk", "--set",
             "model.router.k=2", "--set", "model.context=16")
    with open(os.path.join(shell.directory, "plain.txt"), "w") as file:
        file.write("two characters: \\n. " * 20)
    ids = json.loads(shell.ok("tokenize", "model", "--input", "plain.txt", "--plain", "--json"))["ids"]
    ours = json.loads(shell.ok("eval", "model", "--text", "plain.txt", "--protocol", "llama-perplexity",
                               "--sequence-length", "16", "--json"))["perplexity"]
    stand_in(shell, "llama-tokenize", json.dumps(ids))
    stand_in(shell, "llama-perplexity", f"Final estimate: PPL = {ours:.4f} +/- 0.1")
    done = compare(shell)
    shell.expect("equal results", done.returncode == 0 and "DIFFERENT" not in done.stdout, done.stdout + done.stderr)
    for name, options in {"llama-tokenize": ["--no-escape"],
                          "llama-perplexity": ["--no-escape", "-ctk f32", "-ctv f32"]}.items():
        for option in options:
            shell.expect(f"{name} {option}", option in called(shell, name), called(shell, name))
    stand_in(shell, "llama-perplexity", f"Final estimate: PPL = {ours * 1.0016:.4f} +/- 0.1")
    stand_in(shell, "llama-tokenize", json.dumps(ids[:-1] + [ids[-1] + 1]))
    done = compare(shell)
    shell.expect("different results", done.returncode == 1 and done.stdout.count("DIFFERENT") == 2, done.stdout)


def what_is_missing_is_named(shell):
    done = compare(shell, "--greedy", "a")
    shell.expect("llama-simple", done.returncode == 1 and "bin/llama-simple" in done.stderr and
                 "llama-tokenize:" not in done.stderr, done.stderr)
    os.remove(os.path.join(shell.directory, "bin", "llama-tokenize"))
    done = compare(shell)
    shell.expect("llama-tokenize", done.returncode == 1 and "bin/llama-tokenize" in done.stderr, done.stderr)
    shell.expect("no traceback", "Traceback" not in done.stderr, done.stderr)


def tasks(shell, *more):
    return subprocess.run([sys.executable, SCRIPT + "-tasks", "bin", "wide", "data", "--limit", "6", "--penstock",
                           shell.program, *more], cwd=shell.directory, capture_output=True, text=True)


def modes_are_compared_item_by_item(shell):
    """The stand-in reads the files of llama.cpp's task modes, reorders hellaswag's items, and scores with Penstock.

    The script finds no difference. With WRONG set, the stand-in answers wrongly, and the script finds differences."""
    shell.ok("train", "recipe.toml", "--out", "wide", "--quiet", "--set", "model.router.method=topk", "--set",
             "model.router.k=2", "--set", "model.context=96", "--set", "train.sequence_length=96")
    rows = {"arc_easy": [{"query": f"Question: the gate {i}?", "choices": ["a gate", "the turbine", "no"], "gold": 0}
                         for i in range(6)],
            "hellaswag_val": [{"activity_label": "Gates", "ctx_a": f"the gate {i}", "ctx_b": "it", "label": 0, "ind": i,
                               "endings": ["opens", "decides how", "each", "gets much water"]} for i in range(6)],
            "winogrande": [{"context_options": [f"the gate {i} or", f"the gate {i} of"], "gold": 0,
                            "continuation": "decides how, much" if i else "x"} for i in range(6)]}
    os.makedirs(os.path.join(shell.directory, "data"), exist_ok=True)
    for name, lines in rows.items():
        with open(os.path.join(shell.directory, "data", name + ".jsonl"), "w") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
    os.makedirs(os.path.join(shell.directory, "bin"), exist_ok=True)
    path = os.path.join(shell.directory, "bin", "llama-perplexity")
    with open(path, "w") as file:
        file.write(f"#!/bin/sh\nexec {sys.executable} {HERE}/llama_modes.py {shell.program} wide \"$@\"\n")
    os.chmod(path, 0o755)
    done = tasks(shell)
    shell.expect("equal results", done.returncode == 0 and done.stdout.count(": same") == 3 and
                 "--winogrande: 5 items, 1 left out" in done.stdout, done.stdout + done.stderr)
    os.environ["WRONG"] = "1"
    done = tasks(shell)
    del os.environ["WRONG"]
    shell.expect("different results", done.returncode == 1 and done.stdout.count("DIFFERENT") == 3, done.stdout + done.stderr)
    os.remove(path)
    done = tasks(shell)
    shell.expect("a missing program", done.returncode == 1 and "bin/llama-perplexity: no such program" in done.stderr, done.stderr)


if __name__ == "__main__":
    harness.main((programs_are_called_for_plain_text, what_is_missing_is_named, modes_are_compared_item_by_item),
                 run=False)
