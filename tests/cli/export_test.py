#!/usr/bin/python3
"""Exports models as a person would. Checks the written files and the certificate, that the program opens its own
exports and computes the same from them, and that each kind of mistake gives one clear line.

    export_test.py PENSTOCK SOURCE_DIRECTORY
"""

import json
import os
import signal
import subprocess
import time

import shell as harness


def log_probability(shell, model):
    return json.loads(shell.ok("eval", model, "--text", "text.txt", "--json"))["log_probability_sum"]


def exports(shell):
    shell.ok("train", "recipe.toml", "--out", "topk", "--quiet", "--set", "model.router.method=topk", "--set",
             "model.router.k=2", "--set", "model.d_ffn=32", "--set", "model.d_model=32", "--set",
             "model.context=16")
    wanted = log_probability(shell, "topk")
    for name, options in {"folder": ("--format", "hf"), "made/here/file.gguf": ("--format", "gguf"),
                          "half": ("--format", "hf", "--dtype", "bf16"),
                          "eighth.gguf": ("--format", "gguf", "--dtype", "q8_0")}.items():
        certificate = json.loads(shell.ok("export", "topk", *options, "--out", name, "--json"))
        rounded = "--dtype" in options
        shell.expect(f"{name}: verdict", certificate["verdict"] == "exact", certificate)
        shell.expect(f"{name}: rounded", certificate["weights_rounded"] == rounded, certificate)
        measured = certificate["measured"]
        shell.expect(f"{name}: difference", (measured["max_logit_difference"] > 1e-4) == rounded, certificate)
        off = abs(log_probability(shell, name) / wanted - 1)
        shell.expect(f"{name}: log-probability", off < (1e-2 if rounded else 1e-6), off)
    said = shell.ok("export", "topk", "--format", "gguf", "--dtype", "q4_k", "--out", "mixed.gguf")
    shell.expect("rows of 32 are q8_0", "q8_0 (rows that are no multiple of 256)" in said, said)
    shell.expect("the file has the type of its tensors", ", q8_0: no tensor could be of q4_k\n" in said and
                 "but for weights rounded to q8_0\n" in said, said)
    certificate = json.load(open(os.path.join(shell.directory, "mixed.gguf.certificate.json")))
    shell.expect("types in the certificate", (certificate["dtype"], certificate["asked_dtype"]) == ("q8_0", "q4_k"), certificate)
    off = abs(log_probability(shell, "mixed.gguf") / wanted - 1)
    shell.expect("mixed.gguf: log-probability", off < 1e-2, off)
    said = shell.ok("export", "topk", "--format", "gguf", "--dtype", "q4_k", "--text", "text.txt", "--check-tokens", "16",
                    "--importance-tokens", "64", "--out", "weighed.gguf")
    shell.expect("importance", "weigh as the squares of inputs over 64 tokens of text.txt" in said, said)
    printed = shell.ok("export", "topk", "--format", "hf", "--architecture", "qwen2moe", "--out", "again")
    shell.expect("verdict in the output", "certificate: exact" in printed and "same experts 1.0000" in printed, printed)
    shell.expect("class in config.json", "qwen2_moe" in open(os.path.join(shell.directory, "again", "config.json")).read())
    shell.expect("no temporary file is left", not any("tmp-" in name for name in os.listdir(shell.directory)))


def relu_routed(shell):
    """Exports the trained ReMoE as a folder with its own class, and hands it off to a model that llama.cpp supports."""
    certificate = json.loads(shell.ok("export", "run", "--format", "hf", "--out", "own", "--json"))
    shell.expect("own class", certificate["architecture"] == "penstock" and certificate["verdict"] == "exact", certificate)
    files = os.listdir(os.path.join(shell.directory, "own"))
    shell.expect("files of the class", {"configuration_penstock.py", "modeling_penstock.py"} <= set(files), files)
    done = json.loads(shell.ok("handoff", "run", "--calibration", "corpus", "--k", "2", "--out", "handed", "--json"))
    shell.expect("handoff", done["k"] == 2 and len(done["layers"]) == 2 and done["gates"] in ("kept", "all"), done)
    with open(os.path.join(shell.directory, "adapt.toml"), "w") as file:  # without [model]: init_from has it
        file.write(harness.RECIPE[harness.RECIPE.index("[data]"):])
    shell.ok("train", "adapt.toml", "--out", "adapted", "--quiet", "--set", "train.init_from=handed")
    certificate = json.loads(shell.ok("export", "adapted", "--format", "gguf", "--out", "adapted.gguf", "--json"))
    shell.expect("verdict on the handed-off model", certificate["verdict"] == "exact", certificate)
    shell.ok("train", "recipe.toml", "--out", "behind", "--quiet", "--set", "model.moe.dense_layers=1")
    behind = ("handoff", "behind", "--calibration", "corpus", "--out")
    layers = json.loads(shell.ok(*behind, "behind-json", "--json"))["layers"]
    shell.expect("a layer behind a dense one", [layer["model_layer"] for layer in layers] == [1], layers)
    said = shell.ok(*behind, "behind-text")
    shell.expect("a layer behind a dense one", "\n  layer 1: router x" in said and "layer 0" not in said, said)
    shell.mistake(1, ["nothing to hand off"], "handoff", "topk", "--calibration", "corpus", "--out", "no")
    handoff = ("handoff", "run", "--calibration", "corpus", "--out", "no")
    shell.mistake(1, ["--k 9", "at most 4"], *handoff, "--k", "9")
    shell.mistake(2, ["--k: must be 1 or more, not 0"], *handoff, "--k", "0")
    shell.mistake(2, ["--k: must be a whole number, not '1.5'"], *handoff, "--k", "1.5")
    shell.mistake(2, ["--gates", "kept"], *handoff, "--gates", "some")
    shell.mistake(2, ["--calibration-tokens: must be 2 or more"], *handoff, "--calibration-tokens", "1")
    shell.mistake(2, ["--calibration is required"], "handoff", "run", "--out", "no")


def interrupted(shell):
    """An exported file exists before it is measured. Ctrl-C during the measuring removes it."""
    with open(os.path.join(shell.directory, "long.txt"), "w") as file:
        file.write("some text that is long enough to be measured for a while. " * 20000)
    for name, form in {"stopped": "hf", "stopped.gguf": "gguf"}.items():
        path = os.path.join(shell.directory, name)
        export = subprocess.Popen([shell.program, "export", "topk", "--format", form, "--out", name, "--text",
                                   "long.txt", "--check-tokens", "1000000"], cwd=shell.directory,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not os.path.exists(path) and export.poll() is None:
            time.sleep(0.01)
        export.send_signal(signal.SIGINT)
        _, said = export.communicate(timeout=60)
        shell.expect(f"{name}: exit status", export.returncode == 130, export.returncode)
        shell.expect(f"{name}: says so", "interrupted" in said, said)
        shell.expect(f"{name}: is gone", not os.path.exists(path))
    shell.ok("export", "topk", "--format", "hf", "--out", "kept")
    shell.mistake(1, ["is there already"], "export", "topk", "--format", "hf", "--out", "kept")
    shell.expect("the folder that existed is kept", os.path.exists(os.path.join(shell.directory, "kept", "config.json")))


def full_disk(shell):
    """Exports to a file system with room for the model and not for its certificate. Only root can mount one."""
    whole = os.path.join(shell.directory, "whole.gguf")
    shell.ok("export", "topk", "--format", "gguf", "--out", "whole.gguf")
    pages = -(-os.path.getsize(whole) // 4096)
    full = os.path.join(shell.directory, "full")
    os.mkdir(full)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={4 * pages}k", "tmpfs", full], capture_output=True).returncode:
        print("skipped: a full disk (cannot mount a small one)")
        return
    try:
        shell.mistake(1, ["disk full"], "export", "topk", "--format", "gguf", "--out", "full/m.gguf")
        shell.expect("no file without its certificate", os.listdir(full) == [], os.listdir(full))
    finally:
        subprocess.run(["umount", full], check=True)


def mistakes(shell):
    shell.mistake(1, ["is there already"], "export", "topk", "--format", "hf", "--out", "folder")
    shell.mistake(1, ["ends in .gguf"], "export", "topk", "--format", "gguf", "--out", "new")
    shell.mistake(1, ["not portable", "penstock handoff"], "export", "run", "--format", "gguf", "--out", "new.gguf")
    shell.mistake(1, ["no such folder"], "export", "nowhere", "--format", "hf", "--out", "new")
    shell.mistake(1, ["q8_0"], "export", "topk", "--format", "hf", "--dtype", "q8_0", "--out", "new/made/here")
    shell.mistake(1, ["--dtype q4_k: Hugging Face's files have no such type"], "export", "topk", "--format", "hf", "--dtype",
                  "q4_k", "--out", "new")
    shell.mistake(2, ["--dtype", "q4_k"], "export", "topk", "--format", "gguf", "--dtype", "q3_k", "--out", "new.gguf")
    weighed = ("export", "topk", "--format", "gguf", "--out", "new.gguf", "--importance-tokens")
    shell.mistake(1, ["--importance-tokens", "give the text"], *weighed, "64", "--dtype", "q4_k")
    shell.mistake(1, ["--importance-tokens", "--dtype q4_k"], *weighed, "64", "--text", "text.txt")
    shell.mistake(2, ["--importance-tokens"], *weighed, "-1", "--dtype", "q4_k", "--text", "text.txt")
    shell.mistake(2, ["--format", "gguf"], "export", "topk", "--format", "onnx", "--out", "new")
    hf = ("export", "topk", "--format", "hf", "--out", "new")
    shell.mistake(2, ["--format is required"], "export", "topk", "--out", "new")
    shell.mistake(2, ["--architecture", "mixtral"], *hf, "--architecture", "mistral")
    shell.mistake(2, ["--tokenizer", "none"], *hf, "--tokenizer", "other")
    shell.mistake(2, ["--check-tokens: must be 0 or more"], *hf, "--check-tokens", "-1")
    shell.mistake(2, ["--text", "--data"], *hf, "--text", "text.txt", "--data", "corpus")
    shell.mistake(1, ["--shard-size: a GGUF file holds the whole model"], "export", "topk", "--format", "gguf", "--out",
                  "new.gguf", "--shard-size", "1")
    shell.mistake(2, ["--shard-size: must be 1e-09 or more, not 0"], *hf, "--shard-size", "0")
    shell.mistake(2, ["--shard-size: must be 1000000000 or less, not 1e10"], *hf, "--shard-size", "1e10")
    shell.mistake(1, ["llama"], "export", "topk", "--format", "hf", "--architecture", "llama", "--out", "new")
    shell.expect("nothing is written", not os.path.exists(os.path.join(shell.directory, "new")))


if __name__ == "__main__":
    harness.main((exports, relu_routed, interrupted, full_disk, mistakes))
