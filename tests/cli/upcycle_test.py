#!/usr/bin/python3
"""Upcycles a dense run to an MoE and runs the doctor on it, as a person would. Checks exit codes, the printed text and
the saved files, and that each kind of mistake gives one clear line.

    upcycle_test.py PENSTOCK SOURCE_DIRECTORY
"""

import gzip
import json
import math
import os
import struct
import subprocess
import sys

import shell as harness


def read_json(shell, *path):
    with open(os.path.join(shell.directory, *path), encoding="utf-8") as file:
        return json.load(file)


def upcycling(shell):
    shell.ok("train", "recipe.toml", "--out", "dense", "--quiet", "--set", "model.moe.experts=0", "--set",
             "model.router.method=dense", "--set", "model.heads=4")
    printed = shell.ok("upcycle", "dense", "--experts", "4", "--routers", "2", "--calibration", "text.txt",
                       "--out", "moe")
    for part in ("routers  {", "keys     {", "cosines", "penstock doctor moe"):
        shell.expect("upcycle prints", part in printed, printed)
    saved = read_json(shell, "moe", "upcycling.json")
    shell.expect("the MoE starts with its parent's loss", saved["renormalise"] and
                 abs(saved["start_entropy"] - 0.87 * math.log(4)) < 1e-9, saved)
    shell.ok("upcycle", "dense", "--experts", "4", "--routers", "2", "--calibration", "text.txt", "--start",
             "published", "--out", "published")
    published = read_json(shell, "published", "upcycling.json")
    shell.expect("--start published", not published["renormalise"] and "start_entropy" not in published, published)
    one = shell.ok("upcycle", "dense", "--method", "switch", "--experts", "4", "--out", "one")
    shell.expect("a note says that the MoE does not begin as its parent", one.count("does not begin as its parent") == 1, one)
    full = shell.ok("upcycle", "dense", "--method", "gshard", "--experts", "4", "--out", "full")
    beside = shell.ok("upcycle", "dense", "--method", "vanilla", "--experts", "4", "--shared-expert", "copy", "--out", "beside")
    shell.expect("a note says that the shared copy is added", beside.count("the shared copy adds the whole feed-forward") == 1, beside)
    shell.expect("a note says that full experts refuse tokens", full.count("where an expert is full") == 1, full)
    one = shell.ok("upcycle", "dense", "--method", "switch", "--experts", "4", "--calibration", "text.txt", "--out",
                   "one-measured")
    shell.expect("a note says what the gates sum to", "a token's gates sum to 0." in one, one)
    near = shell.ok("upcycle", "dense", "--method", "remoe", "--scorer", "router-upcycling", "--experts", "4",
                    "--routers", "2", "--calibration", "text.txt", "--out", "near")
    shell.expect("a start near the parent", "scaled to sum to 1 in the mean" in near and "entropy" not in near, near)
    shell.expect("a start as the parent prints no note", "start:" not in printed, printed)
    shell.expect("number of keys", [len(layer["keys"]) for layer in saved["layers"]] == [4, 4], saved)
    shell.expect("rows of the similarity map", len(saved["layers"][0]["similarity"]) == 4, saved)
    shell.ok("upcycle", "dense", "--method", "vanilla", "--experts", "4", "--match-logits",
             "--lr-scale", "match", "--calibration", "corpus", "--out", "matched",
             "--set", "model.router.load-balance.coefficient=0.5")
    router = read_json(shell, "matched", "config.json")["penstock"]["model"]["router"]
    shell.expect("--set", router["load-balance"]["coefficient"] == 0.5, router)
    shell.expect("--lr-scale match", router["lr_scale"] > 0 and router["lr_scale"] != 1, router)
    shell.ok("eval", "moe", "--data", "corpus", "--json")
    with open(os.path.join(shell.directory, "on.toml"), "w", encoding="utf-8") as file:
        file.write("[train]\nsteps = 1\nbatch_sequences = 2\nsequence_length = 16\ninit_from = 'moe'\n"
                   "[data]\ncorpus = 'corpus'\n")
    shell.ok("train", "on.toml", "--out", "on", "--quiet", "--set", "model.router.z-loss.coefficient=0")
    router = read_json(shell, "on", "checkpoints", "step-1", "config.json")["penstock"]["model"]["router"]
    shell.expect("a coefficient may change", router["z-loss"]["coefficient"] == 0, router)
    shell.mistake(1, ["model.router.k", "only these may change", "model.router.z-loss.coefficient"], "train",
                  "on.toml", "--out", "off", "--set", "model.router.k=3")
    os.mkdir(os.path.join(shell.directory, ".slash.tmp-999999999"))  # left by a killed upcycling
    shell.ok("upcycle", "dense", "--method", "vanilla", "--out", "slash/")
    shell.expect("a slash behind --out", sorted(os.listdir(os.path.join(shell.directory, "slash"))) ==
                 sorted(os.listdir(os.path.join(shell.directory, "matched"))))
    shell.expect("no temporary files are left", not any("tmp-" in name for name in os.listdir(shell.directory)))


def exports(shell):
    """The line at the end of an upcycling about the export to GGUF, and that the export agrees with it."""
    def gguf(model):
        return shell.run("export", model, "--format", "gguf", "--tokenizer", "none", "--check-tokens", "0", "--out",
                         f"{model}.gguf").returncode

    shell.ok("train", "recipe.toml", "--out", "biased", "--quiet", "--set", "model.moe.experts=0", "--set",
             "model.router.method=dense", "--set", "model.qkv_bias=true", "--set", "train.steps=1")
    vanilla = ("--method", "vanilla", "--experts", "4", "--out")
    printed = shell.ok("upcycle", "biased", *vanilla, "biased-parent")
    lines = [line for line in printed.splitlines() if line.startswith("export: ")]
    shell.expect("one line about the export", len(lines) == 1 and "no GGUF file holds this model" in lines[0] and
                 "--start published exports" in lines[0] and "--format hf" in lines[0], printed)
    shell.expect("the export refuses it", gguf("biased-parent") == 1)
    printed = shell.ok("upcycle", "biased", "--start", "published", *vanilla, "biased-published")
    shell.expect("no line where it exports", "export: " not in printed, printed)
    shell.expect("the named start exports", gguf("biased-published") == 0)
    printed = shell.ok("upcycle", "biased", "--start", "published", "--renormalise", *vanilla, "biased-renormalised")
    shell.expect("the cause is an option", "--start published without --renormalise exports" in printed, printed)
    printed = shell.ok("upcycle", "dense", "--method", "switch", "--experts", "4", "--out", "capacity")
    shell.expect("no start helps", "export: no GGUF" in printed and "--start" not in printed, printed)
    printed = shell.ok("upcycle", "dense", *vanilla, "unbiased")
    shell.expect("a base without biases exports", "export: " not in printed, printed)
    shell.expect("and does", gguf("unbiased") == 0)
    printed = shell.ok("upcycle", "dense", "--method", "smoe", "--experts", "4", "--k", "2", "--out", "learns-biases")
    lines = [line for line in printed.splitlines() if line.startswith("export: ")]
    shell.expect("an export that training takes away", len(lines) == 1 and "learn a bias" in lines[0] and "--fit-bias" in
                 lines[0] and "model.router.linear.bias = false" in lines[0], printed)
    shell.expect("which is there before", gguf("learns-biases") == 0)


def doctor(shell):
    shell.mistake(2, ["--tokens: must be 1048576 or less, not 999999999999"], "doctor", "moe", "--tokens", "999999999999")
    healthy = json.loads(shell.ok("doctor", "moe", "--dense", "dense", "--data", "corpus", "--json"))
    shell.expect("the doctor finds the model healthy", healthy["state"] == "ok", healthy)
    shell.expect("layers in the doctor's report", [layer["moe_layer"] for layer in healthy["layers"]] == [0, 1], healthy)
    terms = [term["term"] for term in healthy["objective"]]
    shell.expect("terms of the loss", terms == ["cross-entropy", "load-balance", "z-loss"], healthy)
    shell.ok("train", "recipe.toml", "--out", "behind", "--quiet", "--set", "model.router.method=topk", "--set",
             "model.moe.dense_layers=1")
    layers = json.loads(shell.run("doctor", "behind", "--json").stdout)["layers"]
    shell.expect("a layer behind a dense one", [(one["moe_layer"], one["model_layer"]) for one in layers] == [(0, 1)], layers)
    table = shell.run("doctor", "behind").stdout.partition(" idle\n")[2]
    shell.expect("a layer behind a dense one", table.split()[:1] == ["1"], table)
    shell.expect("the doctor's table", "healthy" in shell.ok("doctor", "moe", "--dense", "dense", "--text", "text.txt"))
    swapped = shell.run("doctor", "dense", "--dense", "moe")
    shell.expect("models in the wrong order", swapped.returncode == 1 and "the MoE comes first" in swapped.stdout, swapped.stdout)

    with open(os.path.join(shell.directory, "moe", "upcycling.json"), "w", encoding="utf-8") as file:
        file.write('{"scale": [')
    warned = shell.run("doctor", "moe", "--dense", "dense")
    shell.expect("a damaged record is a warning", warned.returncode == 0 and "upcycling.json" in warned.stdout,
                 warned.stdout + warned.stderr)

    path = os.path.join(shell.directory, "moe", "model.safetensors")
    with open(path, "r+b") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        name = "model.layers.1.mlp.experts.2.up_proj.weight"
        file.seek(-(max(t["data_offsets"][1] for n, t in header.items() if n != "__metadata__")
                    - header[name]["data_offsets"][0]), os.SEEK_END)
        file.write(struct.pack("<f", float("nan")))
    sick = shell.run("doctor", "moe", "--dense", "dense", "--json")
    shell.expect("a fault exits with 1", sick.returncode == 1, sick.stderr)
    fault = [check for check in json.loads(sick.stdout)["checks"] if check["state"] == "fault"]
    shell.expect("the tensor is named", len(fault) == 1 and name in fault[0]["finding"], sick.stdout)
    shell.expect("the fault has a remedy", bool(fault) and fault[0]["remedy"], sick.stdout)


def mistakes(shell):
    vanilla = ("upcycle", "dense", "--method", "vanilla")
    for word in ("nan", "inf", " 1", "1 ", "0x10", "1e"):
        shell.mistake(2, [f"--noise: must be a number, not '{word}'"], *vanilla, f"--noise={word}", "--out", "new")
    shell.mistake(1, ["exists already"], *vanilla, "--out", "moe")
    shell.mistake(1, ["--calibration"], "upcycle", "dense", "--out", "new")
    shell.mistake(1, ["--calibration: with these options no text is read"], *vanilla, "--calibration", "text.txt",
                  "--out", "new")
    shell.mistake(1, ["'relu'", "give --calibration", "--start published"], "upcycle", "dense", "--method", "remoe",
                  "--out", "new")
    shell.mistake(1, ["--start-entropy: selector 'relu'", "leave it out"], "upcycle", "dense", "--method", "remoe",
                  "--calibration", "text.txt", "--start-entropy", "1", "--out", "new")
    shell.mistake(1, ["--key-rope: with these options no text is read"], *vanilla, "--key-rope", "post", "--out", "new")
    shell.mistake(1, ["did you mean 'vanilla'"], "upcycle", "dense", "--method", "vanila", "--out", "new")
    shell.mistake(1, ["--method: unknown method 'linaer'; did you mean 'linear'? 'linear' is a scorer: give --scorer "
                      "linear, or a method that has it: 'expert-choice'"], "upcycle", "dense", "--method", "linaer", "--out", "new")
    shell.mistake(1, ["--method: 'relu' is a selector: give a method that has it: 'remoe'\n"], "upcycle", "dense", "--method",
                  "relu", "--out", "new")
    shell.mistake(1, ["--scorer: unknown scorer 'linaer'; did you mean 'linear'?"], *vanilla, "--scorer", "linaer", "--out", "new")
    shell.mistake(1, ["--scorer dense: this method has none"], *vanilla, "--scorer", "dense", "--out", "new")
    shell.mistake(1, ["divisor of 4"], "upcycle", "dense", "--routers", "3", "--calibration", "text.txt",
                  "--out", "new")
    shell.mistake(1, ["model.layers"], *vanilla, "--set", "model.layers=3", "--out", "new")
    shell.mistake(2, ["--shared-expert: must be a whole number, not 'foo'; or `copy`"], *vanilla, "--shared-expert", "foo",
                  "--out", "new")
    shell.mistake(2, ["--lr-scale: must be a number, not 'copy'; or `match`"], *vanilla, "--lr-scale", "copy", "--out", "new")
    for word in ("0", "-1"):
        shell.mistake(2, [f"--lr-scale: must be 1e-09 or more, not {word}; or `match`"], *vanilla, "--lr-scale", word, "--out", "new")
    shell.mistake(2, ["--scale: ", "exact"], *vanilla, "--scale", "exactly", "--out", "new")
    shell.mistake(2, ["--granularity: must be 4096 or less"], *vanilla, "--granularity", "4097", "--out", "new")
    shell.mistake(1, ["penstock: --shared-expert = 4000000000000 is out of range"], *vanilla, "--shared-expert", "4000000000000", "--out", "new")
    shell.mistake(1, ["--grouping and --norm-gain correct are for"], *vanilla, "--norm-gain", "correct", "--out", "new")
    shell.mistake(1, ["give --router-form collapsed, or"], "upcycle", "dense", "--directions", "random", "--calibration",
                  "text.txt", "--out", "new")
    shell.mistake(1, ["--match-logits and --lr-scale match: --start parent"], "upcycle", "dense", "--method", "remoe",
                  "--lr-scale", "match", "--calibration", "text.txt", "--out", "new")
    shell.mistake(1, ["--query-bias keep and --router-form collapsed are for"], *vanilla, "--query-bias", "keep", "--out", "new")
    shell.mistake(2, ["--noise: must be 1000 or less, not 1e38"], *vanilla, "--noise", "1e38", "--out", "new")
    shell.mistake(2, ["--noise: must be a number that 64 bits hold, not 1e400"], *vanilla, "--noise", "1e400", "--out", "new")
    shell.mistake(1, ["--experts 1", "2 or more"], *vanilla, "--experts", "1", "--out", "new")
    shell.mistake(1, ["penstock: --k = 9 is above --experts = 8\n"], *vanilla, "--k", "9", "--out", "new")
    shell.mistake(1, ["penstock: --granularity = 7 is not a divisor of model.d_ffn = "], *vanilla, "--granularity", "7", "--out", "new")
    shell.mistake(1, ["penstock: --experts = 70000 is out of range; it must be 0 to 65536\n"], *vanilla, "--experts",
                  "70000", "--out", "new")
    shell.mistake(1, ["model.router.k = 9 is above --experts = 8\n"], *vanilla, "--set", "model.router.k=9", "--out",
                  "new")
    shell.mistake(1, ["penstock: --start-entropy = 5: must be above 0 and below ln 8 = 2.079"], *vanilla, "--start-entropy", "5",
                  "--calibration", "text.txt", "--out", "new")
    shell.mistake(1, ["--scale is for shards"], *vanilla, "--scale", "exact", "--out", "new")
    shell.mistake(1, ["give one"], *vanilla, "--k", "2", "--set", "model.router.k=3", "--out", "new")
    shell.mistake(1, ["every gate 1"], "upcycle", "dense", "--method", "switch", "--renormalise", "--out", "new")
    shell.mistake(1, ["nothing to train"], "upcycle", "dense", "--method", "locmoe", "--lr-scale", "3", "--out",
                  "new")
    shell.mistake(1, ["penstock: matched", "has experts already"], "upcycle", "matched", "--method", "vanilla", "--out", "new")
    shell.mistake(1, ["give one"], "doctor", "moe", "--text", "text.txt", "--data", "corpus")
    shell.expect("nothing is written", not os.path.exists(os.path.join(shell.directory, "new")))


def no_room(shell):
    """Upcycling to a disk that is too small for the model. Only root can mount one."""
    small = os.path.join(shell.directory, "small")
    os.mkdir(small)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], capture_output=True).returncode:
        print("skipped: a small disk (cannot mount one)")
        return
    try:
        vanilla = ("upcycle", "dense", "--method", "vanilla", "--out", "small/new")
        shell.mistake(1, ["--experts = 8: the model takes", "or try it all the same with --force\n"], *vanilla)
        shell.mistake(1, ["disk full"], *vanilla, "--force")
        shell.expect("nothing is written", os.listdir(small) == [], os.listdir(small))
    finally:
        subprocess.run(["umount", small], check=True)


def first_steps(shell):
    """Ten steps from an upcycled real checkpoint: the loss stays low with the default start.

    With the published start the loss rises, and the run warns of it."""
    data = os.path.join(os.path.abspath(sys.argv[2]), "..", "shared", "data")
    dense = os.path.join(data, "checkpoints", "stories260K", "stories260K.bin")
    stories = os.path.join(data, "lm", "tinystories", "tinystories_val_a.txt.gz")
    if not (os.path.exists(dense) and os.path.exists(stories)):
        print("skipped: missing data: no stories260K and TinyStories in shared/data beside the checkout")
        return
    with gzip.open(stories) as packed, open(os.path.join(shell.directory, "stories.txt"), "wb") as file:
        file.write(packed.read())
    shell.ok("data", "prepare", "stories.txt", "--tokenizer", os.path.join(os.path.dirname(dense), "tok512.bin"),
             "--out", "stories")
    with open(os.path.join(shell.directory, "first.toml"), "w", encoding="utf-8") as file:
        file.write("[train]\nsteps = 10\nbatch_sequences = 8\nsequence_length = 128\neval_every = 10\n"
                   "[data]\ncorpus = 'stories'\n[run]\nthreads = 1\n")

    def trained(start):
        shell.ok("upcycle", dense, "--calibration", "stories", "--calibration-tokens", "8192", "--start", start,
                 "--out", "stories-" + start)
        shell.ok("train", "first.toml", "--set", "train.init_from=stories-" + start, "--out", "first-" + start,
                 "--quiet")
        with open(os.path.join(shell.directory, "first-" + start, "metrics.jsonl"), encoding="utf-8") as file:
            losses = [line["validation"]["loss"] for line in map(json.loads, file) if "validation" in line]
        warnings = [warning["name"] for warning in read_json(shell, "first-" + start, "finished.json")["warnings"]]
        print(start, losses, warnings)
        return losses[-1] - losses[0], warnings

    rise, warnings = trained("parent")
    shell.expect("the loss of the default start does not rise", rise < 0.05 and warnings == [], (rise, warnings))
    rise, warnings = trained("published")
    shell.expect("the loss of the published start rises", rise > 0.5 and "auxiliary loss" in warnings, (rise, warnings))


if __name__ == "__main__":
    harness.main((upcycling, exports, doctor, mistakes, no_room, first_steps), run=False)
