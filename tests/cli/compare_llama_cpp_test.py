#!/usr/bin/python3
"""scripts/compare-llama-cpp without llama.cpp: stand-ins for its programs note how they were called, and one
answers with the ids and the perplexity that it is told to.

    compare_llama_cpp_test.py PENSTOCK SOURCE_DIRECTORY
"""

import json
import os
import subprocess
import sys

import shell as harness

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
    shell.expect("the same", done.returncode == 0 and "DIFFERENT" not in done.stdout, done.stdout + done.stderr)
    for name, options in {"llama-tokenize": ["--no-escape"],
                          "llama-perplexity": ["--no-escape", "-ctk f32", "-ctv f32"]}.items():
        for option in options:
            shell.expect(f"{name} {option}", option in called(shell, name), called(shell, name))
    stand_in(shell, "llama-perplexity", f"Final estimate: PPL = {ours * 1.0016:.4f} +/- 0.1")
    stand_in(shell, "llama-tokenize", json.dumps(ids[:-1] + [ids[-1] + 1]))
    done = compare(shell)
    shell.expect("others", done.returncode == 1 and done.stdout.count("DIFFERENT") == 2, done.stdout)


def what_is_missing_is_named(shell):
    done = compare(shell, "--greedy", "a")
    shell.expect("llama-simple", done.returncode == 1 and "bin/llama-simple" in done.stderr and
                 "llama-tokenize:" not in done.stderr, done.stderr)
    os.remove(os.path.join(shell.directory, "bin", "llama-tokenize"))
    done = compare(shell)
    shell.expect("llama-tokenize", done.returncode == 1 and "bin/llama-tokenize" in done.stderr, done.stderr)
    shell.expect("no traceback", "Traceback" not in done.stderr, done.stderr)


if __name__ == "__main__":
    harness.main((programs_are_called_for_plain_text, what_is_missing_is_named), run=False)
