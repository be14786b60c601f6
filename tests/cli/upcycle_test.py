#!/usr/bin/python3
"""From a dense run to an MoE and its doctor as a person would: exit codes, what is printed and saved,
and one clear line for each kind of mistake.

    upcycle_test.py PENSTOCK
"""

import json
import os
import struct
import subprocess
import sys
import tempfile

RECIPE = """
[model]
vocab = 0
d_model = 16
layers = 2
heads = 4
d_ffn = 24
context = 16
[model.router]
method = "dense"
[data]
corpus = "corpus"
[train]
steps = 4
batch_sequences = 2
sequence_length = 16
eval_every = 4
[run]
threads = 1
"""


def main():
    program = os.path.abspath(sys.argv[1])
    failures = []

    with tempfile.TemporaryDirectory() as directory:
        def run(*arguments):
            return subprocess.run([program, *arguments], cwd=directory, encoding="utf-8",
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def expect(what, condition, detail=""):
            if not condition:
                failures.append(f"{what}: {detail}")

        def ok(*arguments):
            result = run(*arguments)
            expect(" ".join(arguments), result.returncode == 0, result.stdout + result.stderr)
            return result.stdout

        def mistake(code, part, *arguments):
            result = run(*arguments)
            expect(" ".join(arguments), result.returncode == code and part in result.stderr
                   and len(result.stderr.strip().splitlines()) <= 3,
                   f"exit {result.returncode}: {result.stderr}")

        with open(os.path.join(directory, "text"), "w", encoding="utf-8") as file:
            file.write("".join(f"Line {i * i % 89} of a short text.\n" for i in range(300)))
        with open(os.path.join(directory, "recipe.toml"), "w", encoding="utf-8") as file:
            file.write(RECIPE)
        ok("data", "prepare", "text", "--out", "corpus")
        ok("train", "recipe.toml", "--out", "dense")

        printed = ok("upcycle", "dense", "--experts", "4", "--routers", "2", "--calibration", "text",
                     "--out", "moe")
        for part in ("routers  {", "keys     {", "cosines", "penstock doctor moe"):
            expect("upcycle prints", part in printed, printed)
        with open(os.path.join(directory, "moe", "upcycling.json"), encoding="utf-8") as file:
            saved = json.load(file)
        expect("groups", [len(layer["keys"]) for layer in saved["layers"]] == [4, 4], saved)
        expect("map", len(saved["layers"][0]["similarity"]) == 4, saved)
        ok("upcycle", "dense", "--method", "vanilla", "--experts", "4", "--match-logits",
           "--lr-scale", "match", "--calibration", "corpus", "--out", "matched",
           "--set", "model.router.load-balance.coefficient=0.5")
        with open(os.path.join(directory, "matched", "config.json"), encoding="utf-8") as file:
            router = json.load(file)["penstock"]["model"]["router"]
        expect("--set", router["load-balance"]["coefficient"] == 0.5, router)
        expect("--lr-scale match", router["lr_scale"] > 0 and router["lr_scale"] != 1, router)

        healthy = json.loads(ok("doctor", "moe", "--dense", "dense", "--data", "corpus", "--json"))
        expect("healthy", healthy["state"] == "ok", healthy)
        expect("layers", [layer["moe_layer"] for layer in healthy["layers"]] == [0, 1], healthy)
        expect("table", "healthy" in ok("doctor", "moe", "--dense", "dense", "--text", "text"))
        ok("eval", "moe", "--data", "corpus", "--json")

        path = os.path.join(directory, "moe", "model.safetensors")
        with open(path, "r+b") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            name = "model.layers.1.mlp.experts.2.up_proj.weight"
            file.seek(-(max(t["data_offsets"][1] for n, t in header.items() if n != "__metadata__")
                        - header[name]["data_offsets"][0]), os.SEEK_END)
            file.write(struct.pack("<f", float("nan")))
        sick = run("doctor", "moe", "--dense", "dense", "--json")
        expect("a fault exits with 1", sick.returncode == 1, sick.stderr)
        fault = [check for check in json.loads(sick.stdout)["checks"] if check["state"] == "fault"]
        expect("the tensor is named", len(fault) == 1 and name in fault[0]["finding"], sick.stdout)
        expect("with a remedy", bool(fault) and fault[0]["remedy"], sick.stdout)

        ok("upcycle", "dense", "--method", "vanilla", "--out", "slash/")
        expect("a slash behind --out", sorted(os.listdir(os.path.join(directory, "slash"))) ==
               sorted(os.listdir(os.path.join(directory, "matched"))), "")
        mistake(1, "--noise", "upcycle", "dense", "--method", "vanilla", "--noise", "nan", "--out", "new")
        mistake(1, "exists already", "upcycle", "dense", "--method", "vanilla", "--out", "moe")
        mistake(1, "--calibration", "upcycle", "dense", "--out", "new")
        mistake(1, "did you mean 'vanilla'", "upcycle", "dense", "--method", "vanila", "--out", "new")
        mistake(1, "divisor of 4", "upcycle", "dense", "--routers", "3", "--calibration", "text",
                "--out", "new")
        mistake(1, "model.layers", "upcycle", "dense", "--method", "vanilla", "--set",
                "model.layers=3", "--out", "new")
        mistake(1, "experts already", "upcycle", "matched", "--method", "vanilla", "--out", "new")
        mistake(1, "give one", "doctor", "moe", "--text", "text", "--data", "corpus")
        expect("nothing is left", not os.path.exists(os.path.join(directory, "new")))

    for failure in failures:
        print("FAILED", failure)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
