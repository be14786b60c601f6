#!/usr/bin/python3
"""Runs `penstock generate` as a person would, on a model trained for a few steps. Checks the output on both streams,
that a seed repeats a text, clean ends by Ctrl-C and by a closed pipe, and one line for each kind of mistake. If
shared/data lies beside the checkout, it also checks the published greedy text of stories260K.

    generate_test.py PENSTOCK SOURCE_DIRECTORY
"""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time

import shell as shared

WARM = ["--temperature", "1.1", "--seed", "7", "--tokens", "25"]


def generate(shell, *arguments):
    return json.loads(shell.ok("generate", *arguments, "--json"))


def text(shell):
    plain = shell.run("generate", "run", "--prompt", "the gate", "--tokens", "8")  # shell.run decodes UTF-8
    shell.expect("prompt and text", plain.returncode == 0 and plain.stdout.startswith("the gate")
                 and plain.stdout.endswith("\n"), plain)
    shell.expect("one line of speed", "tokens/s" in plain.stderr and plain.stderr.count("\n") == 1,
                 plain.stderr)
    with open(os.path.join(shell.directory, "prompt.txt"), "w") as file:
        file.write("the gate\n")
    same = shell.ok("generate", "run", "--tokens", "8", "--prompt-file", "prompt.txt")
    shell.expect("a prompt from a file", same == plain.stdout, same)
    piped = subprocess.run([shell.program, "generate", "run", "--tokens", "8", "--prompt-file", "-"],
                           cwd=shell.directory, capture_output=True, text=True, input="the gate\n")
    shell.expect("a prompt from standard input", piped.stdout == plain.stdout, piped)
    with open("/dev/full", "w") as full:
        unheard = subprocess.run([shell.program, "generate", "run", "--prompt", "the gate", "--tokens", "8"],
                                 cwd=shell.directory, stdout=subprocess.PIPE, stderr=full, text=True)
    shell.expect("standard error is closed", unheard.returncode == 0 and unheard.stdout == plain.stdout, unheard)
    shell.ok("generate", "run", "--tokens", "5")  # a new document


def several(shell):
    out = generate(shell, "run", "--prompt", "A", "--prompt", "longer", "--batch", "3", *WARM)
    texts = out["completions"]
    shell.expect("prompts and texts", [(t["prompt"], t["sample"]) for t in texts] ==
                 [(p, s) for p in ("A", "longer") for s in range(3)], texts)
    shell.expect("how texts end", all(t["finish"] in ("length", "end-of-document", "context") and
                             len(t["tokens"]) <= 25 for t in texts), texts)
    shell.expect("keys", set(out) >= {"model", "step", "folded", "prompt_tokens",
                                      "prompt_tokens_per_second", "generated_tokens_per_second"}, list(out))
    alone = generate(shell, "run", "--prompt", "longer", *WARM)["completions"][0]
    shell.expect("a text generated alone", alone == texts[3], alone)
    other = generate(shell, "run", "--prompt", "longer", *WARM[:3], "8", *WARM[4:])["completions"][0]
    shell.expect("another seed", other["tokens"] != alone["tokens"], other)
    plain = shell.ok("generate", "run", "--prompt", "A", "--batch", "2", *WARM)
    shell.expect("headings", plain.count("== prompt 1, text ") == 2, plain)
    shell.expect("--fold", generate(shell, "run", "--prompt", "A", "--fold", *WARM)["folded"] is True)


def choices(shell):
    def tokens(*arguments):
        return generate(shell, "run", "--prompt", "the gate", "--tokens", "25", *arguments)["completions"][0]["tokens"]
    greedy, prompt = tokens(), set(b"the gate")
    shell.expect("--min-p 1 leaves the likeliest token", tokens("--temperature", "1", "--min-p", "1") == greedy)
    for option in ("--frequency-penalty", "--presence-penalty"):
        shell.expect(f"{option} below 0 repeats the first token", tokens(option, "-1e6") == greedy[:1] * len(greedy))
        other = tokens(option, "1e6")
        shell.expect(f"{option}: no token twice", len(set(other)) == len(other), other)
    first = tokens("--repetition-penalty", "1e-6")[0]
    shell.expect("--repetition-penalty below 1 favours the prompt", first in prompt and greedy[0] not in prompt, first)
    shell.mistake(2, ["--min-p"], "generate", "run", "--min-p", "1.5")
    shell.mistake(2, ["--repetition-penalty"], "generate", "run", "--repetition-penalty", "0")


def damaged(shell):
    """A model whose weights are not finite: the error names the model and the command that finds the cause."""
    checkpoints = os.path.join(shell.directory, "run", "checkpoints")
    shutil.copytree(os.path.join(checkpoints, "step-6"), os.path.join(shell.directory, "damaged"),
                    ignore=shutil.ignore_patterns("manifest.json"))  # which has the checksums
    with open(os.path.join(shell.directory, "damaged", "model.safetensors"), "r+b") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        begin, end = json.loads(file.read(size))["model.layers.0.self_attn.q_proj.weight"]["data_offsets"]
        file.seek(8 + size + begin)
        file.write(struct.pack("<f", float("nan")) * ((end - begin) // 4))
    shell.mistake(1, ["penstock: damaged: the logit of token 0 is NaN", "`penstock doctor`"], "generate", "damaged",
                  "--prompt", "a")


def mistakes(shell):
    shell.mistake(1, ["nowhere"], "generate", "nowhere")
    shell.mistake(1, ["context", "shorten"], "generate", "run", "--prompt", "x" * 500)
    shell.mistake(2, ["--temperature: must be 0 or more, not -1\n"], "generate", "run", "--temperature", "-1")
    shell.mistake(2, ["--temperature: must be a number, not 'nan'\n"], "generate", "run", "--temperature", "nan")
    shell.mistake(1, ["penstock: --batch 2: "], "generate", "run", "--batch", "2")
    shell.mistake(2, ["--top-p: must be a number above 0, not '0'\n"], "generate", "run", "--top-p", "0")
    shell.mistake(2, ["--top-p: must be 1 or less, not 2\n"], "generate", "run", "--top-p", "2")
    shell.mistake(2, ["--stop: must have a character or more\n"], "generate", "run", "--stop", "")
    shell.mistake(1, ["UTF-8"], "generate", "run", "--prompt", os.fsdecode(b"\xff"))
    with open(os.path.join(shell.directory, "latin.txt"), "wb") as file:
        file.write(b"a\xffb")
    shell.mistake(1, ["penstock: latin.txt: is not UTF-8 at byte 1; convert it"], "generate", "run", "--prompt", "a",
                  "--prompt-file", "latin.txt")
    shell.mistake(2, ["--draft-tokens requires --draft"], "generate", "run", "--draft-tokens", "3")
    note = "note: nothing reads --top-k at temperature 0, where the most likely token is always taken"
    for more, noted in (([], True), (["--temperature", "1"], False)):
        done = shell.run("generate", "run", "--prompt", "", "--tokens", "2", "--seed", "3", "--top-k", "5", *more)
        shell.expect("options that are not read", done.returncode == 0 and (note in done.stderr) == noted, done.stderr)
    shell.mistake(1, ["missing.txt"], "generate", "run", "--prompt-file", "missing.txt")
    shell.ok("train", "recipe.toml", "--set", "model.router.method=expert-choice", "--out", "expert-choice",
             "--quiet")
    shell.ok("generate", "expert-choice", "--prompt", "a", "--tokens", "4")  # experts choose by thresholds
    shell.ok("train", "recipe.toml", "--set", "model.router.method=expert-choice", "--set",
             "model.router.balancers=[]", "--out", "without", "--quiet")
    for command in (("generate", "without", "--prompt", "a"), ("serve", "without", "--port", "0")):
        shell.mistake(1, ["not causal: where a token goes depends on tokens after it, which a text that is being "
                          "written does not have yet; thresholds would make it so"], *command)
    shell.mistake(2, ["1 or more"], "generate", "run", "--tokens", "0")
    shell.mistake(2, ["whole number"], "generate", "run", "--seed", "x")
    shell.mistake(2, ["MODEL"], "generate")


def ends(shell):
    """A generation of 100 million tokens ends only by Ctrl-C or a closed pipe.

    The model has no maximum context, and greedy sampling draws no end of a document."""
    shell.ok("train", "recipe.toml", "--set", "model.architecture=transformer-xl", "--set",
             "model.router.method=smoe", "--set", "model.router.k=2", "--set", "data.sampling=streams",
             "--out", "endless", "--quiet")
    command = [shell.program, "generate", "endless", "--prompt", "the", "--tokens", "100000000"]

    def start():
        running = subprocess.Popen(command, cwd=shell.directory, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        return running, running.stdout.read(20)

    running, first = start()
    running.send_signal(signal.SIGINT)
    rest, errors = running.communicate(timeout=60)
    shell.expect("Ctrl-C", len(first) == 20 and running.returncode == 130 and rest.endswith(b"\n")
                 and b"interrupted" in errors, (running.returncode, errors))
    running, first = start()
    running.stdout.close()
    deadline = time.time() + 60
    while running.poll() is None and time.time() < deadline:
        time.sleep(0.1)
    shell.expect("a closed pipe", running.poll() not in (None, 0), running.poll())
    running.kill()


def stories(shell):
    """Greedy text of stories260K from the beginning-of-document token equals the text in llama2.c's documentation."""
    folder = os.path.join(os.path.abspath(sys.argv[2]), "..", "shared", "data", "checkpoints", "stories260K")
    if not os.path.isdir(folder):
        print("skipped: missing data: no shared/data/checkpoints/stories260K beside the checkout")
        return
    with open(os.path.join(folder, "expected_greedy.json")) as file:
        expected = json.load(file)
    for steps in (200, 256):
        out = generate(shell, os.path.join(folder, "stories260K.bin"), "--tokens", str(steps))
        shell.expect(f"stories260K, {steps} steps",
                     out["completions"][0]["text"] == expected[f"steps_{steps}_no_prompt"], out)


if __name__ == "__main__":
    shared.main([text, several, choices, damaged, mistakes, ends, stories])
