#!/usr/bin/python3
"""`penstock generate` as a person runs it, on a model trained for a few steps: what is printed where, that
a seed repeats, clean ends by Ctrl-C and by a closed pipe, and one line for each kind of mistake. With
shared/data beside the checkout also the published greedy text of stories260K.

    generate_test.py PENSTOCK SOURCE_DIRECTORY
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

RECIPE = """
[model]
vocab = 0
d_model = 16
layers = 2
heads = 2
d_ffn = 24
[model.moe]
experts = 4
[model.router]
method = "{method}"
[data]
corpus = "corpus"
[train]
steps = 3
batch_sequences = 2
sequence_length = 64
[run]
threads = 1
"""


class Shell:
    def __init__(self, program, directory):
        self.program, self.directory, self.failures = program, directory, 0

    def run(self, *arguments, stdin=None):
        return subprocess.run([self.program, *arguments], cwd=self.directory, capture_output=True,
                              input=stdin, timeout=300)

    def check(self, condition, what):
        if not condition:
            self.failures += 1
            print("FAILED:", what)

    def expect_error(self, words, *arguments, code=1):
        done = self.run("generate", *arguments)
        lines = done.stderr.decode().strip().splitlines()
        self.check(done.returncode == code and lines and any(words in line for line in lines)
                   and (code == 2 or len(lines) == 1),
                   f"{arguments}: expected {code} and {words!r}, got {done.returncode} {lines}")


def train(shell, method):
    with open(os.path.join(shell.directory, method + ".toml"), "w") as file:
        file.write(RECIPE.format(method=method))
    done = shell.run("train", method + ".toml", "--out", method, "--quiet")
    shell.check(done.returncode == 0, f"training {method}: {done.stderr}")


def test_text(shell):
    plain = shell.run("generate", "remoe", "--prompt", "The cat", "--tokens", "30")
    shell.check(plain.returncode == 0 and plain.stdout.startswith(b"The cat")
                and plain.stdout.endswith(b"\n"), f"prompt and text: {plain}")
    shell.check(b"tokens/s" in plain.stderr and plain.stderr.count(b"\n") == 1,
                f"one line of speed: {plain.stderr}")
    plain.stdout.decode("utf-8")  # whole characters alone
    with open(os.path.join(shell.directory, "prompt.txt"), "w") as file:
        file.write("The cat\n")
    for arguments, stdin in [(["--prompt-file", "prompt.txt"], None),
                             (["--prompt-file", "-"], b"The cat\n")]:
        same = shell.run("generate", "remoe", "--tokens", "30", *arguments, stdin=stdin)
        shell.check(same.stdout == plain.stdout, f"{arguments}: {same}")
    document = shell.run("generate", "remoe", "--tokens", "5")
    shell.check(document.returncode == 0, f"no prompt: {document}")


def test_json(shell):
    warm = ["--temperature", "1.1", "--seed", "7", "--tokens", "25"]
    several = shell.run("generate", "remoe", "--prompt", "A", "--prompt", "Longer text", "--batch", "3",
                        "--json", *warm)
    out = json.loads(several.stdout)
    shell.check([(c["prompt"], c["sample"]) for c in out["completions"]] ==
                [(p, s) for p in ("A", "Longer text") for s in range(3)], f"completions: {out}")
    shell.check(all(c["finish"] in ("length", "end-of-document", "context", "stop") and
                    len(c["tokens"]) <= 25 for c in out["completions"]), f"finishes: {out}")
    shell.check(set(out) >= {"model", "folded", "prompt_tokens", "prompt_tokens_per_second",
                             "generated_tokens_per_second"}, f"keys: {list(out)}")
    alone = json.loads(shell.run("generate", "remoe", "--prompt", "Longer text", "--json", *warm).stdout)
    shell.check(alone["completions"][0] == out["completions"][3], f"a text alone: {alone}")
    other = json.loads(shell.run("generate", "remoe", "--prompt", "A", "--json", "--temperature", "1.1",
                                 "--tokens", "25", "--seed", "8").stdout)
    shell.check(other["completions"][0]["tokens"] != out["completions"][0]["tokens"], "another seed")
    text = shell.run("generate", "remoe", "--prompt", "A", "--batch", "2", *warm).stdout.decode()
    shell.check(text.count("== prompt 1, text ") == 2, f"headings: {text}")
    folded = shell.run("generate", "remoe", "--prompt", "A", "--json", "--fold", *warm)
    shell.check(json.loads(folded.stdout)["folded"] is True, f"folded: {folded}")


def test_mistakes(shell):
    shell.expect_error("no such folder", "nowhere")
    shell.expect_error("context", "remoe", "--prompt", "x" * 500)
    shell.expect_error("temperature", "remoe", "--temperature", "-1")
    shell.expect_error("temperature", "remoe", "--temperature", "nan")
    shell.expect_error("temperature", "remoe", "--batch", "2")
    shell.expect_error("top-p", "remoe", "--top-p", "0")
    shell.expect_error("stop string", "remoe", "--stop", "")
    shell.expect_error("UTF-8", "remoe", "--prompt", b"\xff")
    shell.expect_error("missing.txt", "remoe", "--prompt-file", "missing.txt")
    shell.expect_error("not causal", "expert-choice", "--prompt", "a")
    shell.expect_error("1 or more", "remoe", "--tokens", "0", code=2)
    shell.expect_error("whole number", "remoe", "--seed", "x", code=2)
    shell.expect_error("MODEL", code=2)


def test_ends(shell):
    """Each --tokens is more than could be done in the time: only the signal, or the pipe, ends it."""
    command = [shell.program, "generate", "endless", "--temperature", "1", "--tokens", "100000000"]
    running = subprocess.Popen(command, cwd=shell.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = running.stdout.read(20)
    running.send_signal(signal.SIGINT)
    rest, errors = running.communicate(timeout=60)
    shell.check(len(first) == 20 and running.returncode == 130 and rest.endswith(b"\n")
                and b"interrupted" in errors, f"Ctrl-C: {running.returncode} {errors}")
    running = subprocess.Popen(command, cwd=shell.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    running.stdout.read(20)
    running.stdout.close()
    deadline = time.time() + 60
    while running.poll() is None and time.time() < deadline:
        time.sleep(0.1)
    shell.check(running.poll() not in (None, 0), f"a closed pipe: {running.poll()}")
    running.kill()


def test_stories(shell, source):
    """Greedy text from its beginning-of-document token, as llama2.c's own documentation has it."""
    folder = os.path.join(source, "..", "shared", "data", "checkpoints", "stories260K")
    if not os.path.isdir(folder):
        print("skipped: no shared/data/checkpoints/stories260K beside the checkout")
        return
    with open(os.path.join(folder, "expected_greedy.json")) as file:
        expected = json.load(file)
    model = os.path.join(folder, "stories260K.bin")
    for steps in (200, 256):
        done = shell.run("generate", model, "--tokens", str(steps), "--temperature", "0", "--json")
        text = json.loads(done.stdout)["completions"][0]["text"] if done.returncode == 0 else done.stderr
        shell.check(text == expected[f"steps_{steps}_no_prompt"], f"stories260K, {steps} steps: {text!r}")


def main():
    program, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    with tempfile.TemporaryDirectory() as directory:
        shell = Shell(program, directory)
        with open(os.path.join(directory, "text.txt"), "w") as file:
            file.write("The cat sat on the mat. Ein Käse, s'il vous plaît. " * 400)
        done = shell.run("data", "prepare", "text.txt", "--out", "corpus")
        shell.check(done.returncode == 0, f"corpus: {done.stderr}")
        for method in ("remoe", "expert-choice"):
            train(shell, method)
        with open(os.path.join(directory, "endless.toml"), "w") as file:  # no context to end at
            file.write(RECIPE.format(method="smoe").replace("[model]\n", "[model]\narchitecture = "
                                                            "\"transformer-xl\"\n")
                       .replace("[data]\n", "[data]\nsampling = \"streams\"\n")
                       .replace("[model.router]\n", "[model.router]\nk = 2\n"))
        done = shell.run("train", "endless.toml", "--out", "endless", "--quiet")
        shell.check(done.returncode == 0, f"training transformer-xl: {done.stderr}")
        test_text(shell)
        test_json(shell)
        test_mistakes(shell)
        test_ends(shell)
        test_stories(shell, source)
    print(f"{shell.failures} failed")
    return 1 if shell.failures else 0


if __name__ == "__main__":
    sys.exit(main())
