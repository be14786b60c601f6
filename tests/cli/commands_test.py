#!/usr/bin/python3
"""Runs the subcommands as a person would, on a tiny corpus: the keys of --json and metrics.jsonl that
scripts rely on, and one clear line with the right exit code for each kind of mistake.

    commands_test.py PENSTOCK SOURCE_DIRECTORY
"""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

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
method = "remoe"

[data]
corpus = "corpus"

[train]
steps = 6
batch_sequences = 2
sequence_length = 16
eval_every = 3

[run]
threads = 1
"""


STUDY = """
base = "recipe.toml"
seeds = [1, 2]
[variants.wide]
set = {"model.d_model" = 32}
[variants.hash]
set = {"model.router.method" = "hash"}
match_compute = "wide"
"""


SCALED = """
base = "recipe.toml"
eval_k = [1, 4, 16]
reference = "dense"
baseline = {name = "nothing", bits_per_byte = 99}
set = {"train.steps" = 600}
[scale.paper]
[scale.desk]
seeds = [3, 4]
set = {"train.steps" = 4, "train.eval_every" = 2}
[variants.dense]
set = {"model.router.method" = "dense", "model.moe.experts" = 0}
[variants.hyper]
set = {"model.router.method" = "hyperrouter", "model.router.k" = 4}
published = {k1 = 1.48}
"""


class Shell:
    def __init__(self, program, directory):
        self.program, self.directory, self.failures = program, directory, 0

    def run(self, *arguments):
        return subprocess.run([self.program, *arguments], cwd=self.directory, capture_output=True,
                              text=True, timeout=120)

    def expect(self, what, condition, detail=""):
        if not condition:
            self.failures += 1
            print(f"FAILED: {what} {detail}")

    def ok(self, *arguments):
        done = self.run(*arguments)
        self.expect(" ".join(arguments), done.returncode == 0, done.stderr)
        return done.stdout

    def mistake(self, code, parts, *arguments):
        done = self.run(*arguments)
        self.expect(" ".join(arguments), done.returncode == code, f"exit {done.returncode}")
        for part in parts:
            self.expect(" ".join(arguments), part in done.stderr, f"{part!r} not in {done.stderr!r}")
        if code == 1:
            said = [line for line in done.stderr.splitlines() if line.startswith("penstock: ")]
            self.expect(" ".join(arguments) + ": one line, the last", len(said) == 1 and
                        done.stderr.endswith(said[0] + "\n"), done.stderr)


def check_outputs(shell, source):
    info = json.loads(shell.ok("info", os.path.join(source, "recipes/remoe/remoe-182m.toml"), "--json"))
    shell.expect("info", info["total_parameters"] == 777087744, info)
    shell.expect("info", abs(info["flops_per_sequence"] / 995.36e9 - 1) < 1e-4, info)
    shell.expect("info", info["active_parameters"] < info["total_parameters"], info)
    shell.ok("train", "recipe.toml", "--out", "run", "--quiet")
    for form in ((), ("--json",)):
        shell.expect("info of a run", shell.ok("info", "run", *form) == shell.ok("info", "run/config.toml", *form))
    shell.expect("info in KiB", " KiB to train: weights " in shell.ok("info", "run"))
    keys = shell.ok("train", "--keys")
    shell.expect("keys", "(0 to 16777216)" in keys and "e+" not in keys, keys)
    lines = [json.loads(line) for line in open(os.path.join(shell.directory, "run/metrics.jsonl"))]
    shell.expect("metrics", [line["step"] for line in lines] == list(range(1, 7)))
    for key in ("loss", "tokens_per_second", "share_of_peak", "sparsity", "active_experts", "lambda"):
        shell.expect("metrics", all(isinstance(line.get(key), float) for line in lines), key)
    shell.expect("validation", "validation" in lines[2] and "validation" in lines[5])
    for name in ("config.toml", "finished.json", "report.html", "checkpoints/step-6/config.json",
                 "checkpoints/step-6/model.safetensors", "checkpoints/step-6/tokenizer.json"):
        shell.expect("run directory", os.path.exists(os.path.join(shell.directory, "run", name)), name)
    scores = json.loads(shell.ok("eval", "run", "--data", "corpus", "--json"))
    for key in ("loss", "perplexity", "bits_per_byte", "tokens", "by_domain"):
        shell.expect("eval", key in scores, key)
    routers = json.loads(shell.ok("routers", "--json"))
    shell.expect("routers", {"dense", "topk", "remoe", "hash"} <= set(routers["methods"]))
    shell.expect("routers", "[model.router.topk.schedule]" in shell.ok("routers", "hyperrouter"))
    check_bench(shell)
    check_analyse(shell)
    folded = json.loads(shell.ok("eval", "run", "--data", "corpus", "--json", "--fold"))
    shell.expect("eval --fold", folded["folded"] and folded["loss"] == scores["loss"], folded["loss"])
    ngram = json.loads(shell.ok("eval", "--ngram", "3", "--data", "corpus", "--json"))
    shell.expect("eval --ngram", 0 < ngram["bits_per_byte"] < 8 and ngram["ngram"] == 3, ngram)
    shell.expect("eval --ngram", "3-gram" in shell.ok("eval", "--ngram", "3", "--data", "corpus"))
    shell.mistake(2, ["--ngram"], "eval", "--ngram", "7", "--data", "corpus")
    shell.mistake(2, ["--ngram", "--k"], "eval", "--ngram", "3", "--data", "corpus", "--k", "1")
    shell.mistake(1, ["--memory"], "eval", "run", "--data", "corpus", "--memory", "7")
    shell.expect("info", "vocabulary of 256" in shell.ok("info", "recipe.toml"))
    shell.mistake(2, ["MODEL"], "eval", "--data", "corpus")
    shell.mistake(2, ["MODEL"], "eval", "run", "--ngram", "3", "--data", "corpus")
    for command in ("data prepare", "train", "eval", "analyse", "finetune", "info", "study", "report", "routers", "bench machine",
                    "bench step", "bench layer"):
        shell.expect("help", "penstock " + command in shell.ok(*command.split(), "--help"), command)


def check_analyse(shell):
    done = json.loads(shell.ok("analyse", "run", "--data", "corpus", "--split", "validation", "--json",
                               "--html", "routing.html"))
    shell.expect("analyse", done["step"] in (3, 6) and done["method"] == "remoe", done["step"])
    shell.expect("analyse", [one["step"] for one in done["snapshots"]] == [0, 3, 6], done["snapshots"])
    for snapshot in done["snapshots"]:
        for layer in snapshot["layers"]:
            shell.expect("analyse", 0 < layer["entropy"]["mean"] <= done["most_entropy"], layer)
            shell.expect("analyse", abs(sum(layer["load"]["share"]) - 1) < 1e-9, layer)
            shell.expect("analyse", abs(layer["similarity"]["output_cosine"]) <= 1, layer)
    shell.expect("analyse", len(done["samples"]) == 4 and len(done["jacobian"]) == 2, done["jacobian"])
    for row in done["jacobian"]:
        shell.expect("analyse", row["bounds_hold"] and row["closed_form_error"] < 1e-12, row)
    shell.expect("analyse", [one["rank"] for one in done["span"][0]["router"]] == [4, 8, 12], done["span"])
    shell.expect("analyse", done["refused"] == {}, done["refused"])
    page = open(os.path.join(shell.directory, "routing.html"), encoding="utf-8").read()
    shell.expect("analyse", "Router entropy" in page and "<script src" not in page)
    text = shell.ok("analyse", "run/checkpoints/step-6", "--data", "corpus", "--split", "validation")
    shell.expect("analyse", "ln 4 = 1.3863" in text and "step 6" in text and "step 0" not in text, text)
    shell.ok("train", "recipe.toml", "--out", "hashed", "--quiet", "--set", "model.router.method=hash")
    text = shell.ok("analyse", "hashed", "--data", "corpus", "--split", "validation")
    shell.expect("analyse", "Router entropy: not measured: scorer 'none'" in text, text)
    tables = json.loads(shell.ok("analyse", "--tables", "A3", "A4", "--json"))
    shell.expect("analyse", [table["table"] for table in tables] == ["A3", "A4"], tables)
    shell.expect("analyse", re.search(r"k = 1 +HyperRouter +3\.47 +3\.7354 ", shell.ok("analyse", "--tables", "A3")))
    shell.mistake(1, ["A9", "A3"], "analyse", "--tables", "A9")
    shell.mistake(1, ["MODEL"], "analyse")
    shell.mistake(1, ["--data"], "analyse", "run")


def check_causality(shell):
    for name in ("expert-choice", "gshard", "lory"):
        shell.expect("routers", "not causal: " in shell.ok("routers", name), name)
    for name in ("hash", "remoe", "relu"):
        shell.expect("routers", "not causal" not in shell.ok("routers", name), name)
    methods = json.loads(shell.ok("routers", "--json"))["methods"]
    shell.expect("routers", [name for name in methods if not methods[name]["causal"]] ==
                 ["expert-choice", "gshard", "lory"], methods)
    shell.ok("train", "recipe.toml", "--out", "chosen", "--quiet", "--set",
             "model.router.method=expert-choice")
    scores = json.loads(shell.ok("eval", "chosen", "--data", "corpus", "--json"))
    shell.expect("eval", scores["causal"] is False, scores)
    shell.expect("eval", "not causal" in shell.ok("eval", "chosen", "--data", "corpus"))
    shell.expect("eval", "not causal" not in shell.ok("eval", "run", "--data", "corpus"))


def check_eval_by_k(shell):
    shell.ok("train", "recipe.toml", "--out", "xl", "--quiet", "--set", "model.router.method=hyperrouter", "--set",
             "model.router.k=4", "--set", "model.architecture=transformer-xl")
    evaluate = ("eval", "xl", "--data", "corpus", "--max-tokens", "300")
    plain = json.loads(shell.ok(*evaluate, "--json"))
    scores = json.loads(shell.ok(*evaluate, "--json", "--k", "1,2,4", "--plot", "by-k.html"))
    points = scores.pop("by_k")
    shell.expect("eval --k", scores == plain, f"{scores} {plain}")
    shell.expect("eval --k", [point["k"] for point in points] == [1, 2, 4], points)
    for point in points:
        shell.expect("eval --k", list(point) == ["k", "loss", "perplexity", "bits_per_byte", "flops_per_token",
                                                 "tokens_per_second", "peak_memory_bytes"], point)
        shell.expect("eval --k", all(value > 0 for value in point.values()), point)
    shell.expect("eval --k", points[2]["loss"] == plain["loss"] and points[0]["loss"] != plain["loss"], points)
    page = open(os.path.join(shell.directory, "by-k.html")).read()
    shell.expect("eval --plot", '"by-k"' in page and '"by-flops"' in page and "src=" not in page)
    # Where the model's own k is not asked for, the rest of the answer is still about it.
    other = json.loads(shell.ok(*evaluate, "--json", "--k", "2"))
    shell.expect("eval --k 2", other["loss"] == plain["loss"] and other["by_k"][0]["k"] == 2, other)
    shell.expect("eval --k", "  4* " in shell.ok(*evaluate, "--k", "1,4"))
    shell.mistake(1, ["--k: 5 is not from 1 to 4"], *evaluate, "--k", "1,5")
    shell.mistake(1, ["2 comes twice"], *evaluate, "--k", "2,2")
    shell.mistake(1, ["--k 'all'"], *evaluate, "--k", "all")
    shell.mistake(1, ["--plot", "--k"], *evaluate, "--plot", "x.html")
    shell.mistake(1, ["--plot", ".html"], *evaluate, "--k", "1", "--plot", "x.png")
    shell.mistake(1, ["--k", "'relu'"], "eval", "run", "--data", "corpus", "--k", "1")


def check_study_figures(shell):
    figures = json.loads(shell.ok("info", "study.toml", "--json"))
    shell.expect("info of a study", list(figures["variants"]) == ["wide", "hash"], figures)
    for name, settings in (("wide", ("model.d_model=32",)), ("hash", ("model.router.method=hash",))):
        alone = json.loads(shell.ok("info", "recipe.toml", "--json", "--set", *settings))
        shell.expect("info of a study", figures["variants"][name] == alone, figures)
    text = shell.ok("info", "study.toml")
    shell.expect("info of a study", "penstock study study.toml" in text and "matched" in text, text)


def check_scaled_study(shell):
    with open(os.path.join(shell.directory, "scaled.toml"), "w") as file:
        file.write(SCALED)
    paper, desk = (shell.ok("info", "scaled.toml", "--scale", name) for name in ("paper", "desk"))
    shell.expect("info --scale", "scale paper" in paper and " 600" in paper and " 600" not in desk, paper + desk)
    shell.mistake(1, ["no scale 'table'", "desk, paper"], "study", "scaled.toml", "--scale", "table")
    shell.mistake(1, ["one scale only"], "study", "study.toml", "--scale", "desk")
    shell.mistake(1, ["--scale is for studies"], "info", "recipe.toml", "--scale", "desk")
    results = json.loads(shell.ok("study", "scaled.toml", "--json", "--quiet"))
    shell.expect("study", results["scale"] == "desk" and len(results["rows"]) == 4, results["scale"])
    for row in results["rows"]:
        ks = [point["k"] for point in row["by_k"]]
        shell.expect("study by k", ks == ([None] if row["variant"] == "dense" else [1, 4]), ks)  # of 4 experts
        shell.expect("study by k", row["by_k_of"] == {"checkpoint": "final", "step": 4, "split": "test"}, row)
        shell.expect("study by k", row["by_k"][-1]["loss"] == row["test"]["loss"], row["by_k"])
    shell.expect("study by k", results["undertrained"] == [] and len(results["by_k_differences"]) == 2, results)
    text = shell.ok("study", "scaled.toml", "--report-only", "--quiet")
    for part in ("k=4", "paper", "1.48", "difference in bits per byte from dense", "order of the means at k = 1"):
        shell.expect("study by k", part in text, part + "\n" + text)
    shell.expect("study by k", os.path.exists(os.path.join(shell.directory, "studies/scaled-desk/report.html")))
    # The same as the command gives for the run, at k = 1 too.
    runs = os.path.join("studies/scaled-desk/runs")
    run = [name for name in os.listdir(os.path.join(shell.directory, runs)) if name.startswith("hyper-seed-3-")]
    alone = json.loads(shell.ok("eval", os.path.join(runs, run[0], "checkpoints/step-4"), "--data", "corpus",
                                "--split", "test", "--k", "1", "--threads", "1", "--json"))
    row = [row for row in results["rows"] if row["variant"] == "hyper" and row["seed"] == 3][0]
    shell.expect("study by k", abs(alone["by_k"][0]["loss"] - row["by_k"][0]["loss"]) < 1e-6, alone["by_k"])


def check_full_output(shell):
    """What cannot be printed is an error, whatever was to be printed."""
    for arguments in (("routers",), ("routers", "--json"), ("info", "recipe.toml"), ("train", "--keys"),
                      ("eval", "run", "--data", "corpus"), ("report", "run"), ("--help",), ("--version",)):
        with open("/dev/full", "w") as full:
            done = subprocess.run([shell.program, *arguments], cwd=shell.directory, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=120)
        shell.expect(" ".join(arguments) + " > /dev/full", done.returncode == 1 and
                     re.fullmatch(r"penstock: standard output cannot be written[^\n]*\n", done.stderr),
                     f"exit {done.returncode} {done.stderr!r}")


def plant_nan(path, tensor):
    """Writes a NaN into the middle of a float32 tensor of a .safetensors file."""
    with open(path, "r+b") as file:
        size, = struct.unpack("<Q", file.read(8))
        begin, end = json.loads(file.read(size))[tensor]["data_offsets"]
        file.seek(8 + size + begin + (end - begin) // 8 * 4)
        file.write(struct.pack("<f", float("nan")))


def check_nan_weights(shell):
    model = os.path.join(shell.directory, "model")
    shutil.copytree(os.path.join(shell.directory, "run/checkpoints/step-6"), model)
    os.remove(os.path.join(model, "manifest.json"))  # damage that no checksum tells
    shell.ok("eval", "model", "--data", "corpus")
    tensor = "model.layers.1.self_attn.q_proj.weight"
    plant_nan(os.path.join(model, "model.safetensors"), tensor)
    for form in ((), ("--json",)):
        shell.mistake(1, ["model.safetensors", tensor, "NaN"], "eval", "model", "--data", "corpus", *form)

def check_bench(shell):
    quick = ("--set", "model.vocab=256", "--steps", "2", "--warm-up", "1", "--json")
    machine = json.loads(shell.ok("bench", "machine", "--threads", "1", "--json"))
    for key in ("peak_flops", "peak_flops_per_core", "memory_bandwidth", "matmul_flops", "threads"):
        shell.expect("bench machine", machine[key] > 0, key)
    step = json.loads(shell.ok("bench", "step", "recipe.toml", "--active-experts", "1", *quick))
    for key in ("tokens_per_second", "flops_per_token", "share_of_peak", "peak_bytes", "outside_share"):
        shell.expect("bench step", step[key] > 0, key)
    for row in step["operators"]:
        shell.expect("bench step", {"name", "seconds", "flops", "bytes", "share"} <= set(row), row)
    shell.expect("bench step", abs(step["active_experts"] - 1) < 0.02 and len(step["load"]) == 2, step)
    sweep = json.loads(shell.ok("bench", "layer", "recipe.toml", "--sweep-experts", "2,4,8", *quick))
    shell.expect("bench layer", [point["experts"] for point in sweep["points"]] == [2, 4, 8], sweep)
    with open(os.path.join(shell.directory, "sweep.json"), "w") as file:
        json.dump(sweep, file)
    shell.mistake(1, ["vocab", "--set"], "bench", "step", "recipe.toml")
    shell.mistake(1, ["--active-experts", "ReLU"], "bench", "step", "recipe.toml", "--set", "model.vocab=256",
                  "--set", "model.router.method=topk", "--active-experts", "1")
    shell.mistake(2, ["RECIPE"], "bench", "step")


def check_plot(shell, source):
    done = subprocess.run(["/usr/bin/python3", os.path.join(source, "bench/plot_sweep.py"), "sweep.json", "--out",
                           "sweep.html"], cwd=shell.directory, capture_output=True, text=True)
    shell.expect("plot_sweep", done.returncode == 0, done.stderr)
    page = open(os.path.join(shell.directory, "sweep.html")).read()
    shell.expect("plot_sweep", page.count("<circle") == 9 and "http" not in page, page)


def check_mistakes(shell):
    train = ("train", "recipe.toml", "--out", "other", "--set")
    shell.mistake(1, ["train.setps", "'steps'"], *train, "train.setps=3")
    shell.mistake(1, ["model.d_model", "integer"], *train, "model.d_model=wide")
    shell.mistake(1, ["model.d_model", "recipe.toml:4: ", "--set model.heads=5"], *train, "model.heads=5")
    shell.mistake(1, ["--set model.router.k=9: ", "recipe.toml:10"], *train, "model.router.k=9")
    shell.mistake(1, ["--set model.vocab=9: model.vocab = 9 is smaller"], *train, "model.vocab=9")
    shell.mistake(1, ["--set train.sequence_length=99999: the train split"], *train,
                  "train.sequence_length=99999")
    shell.mistake(1, ["--set model.d_model=65536: ", "this machine has"], *train, "model.d_model=65536",
                  "--set", "model.layers=5000")
    shell.mistake(1, ["--set model.d_model=1048576: ", "1e15"], *train, "model.d_model=1048576",
                  "--set", "model.layers=5000")
    shell.mistake(1, ["/dev/zero", "longer than"], "info", "/dev/zero")
    shell.mistake(1, ["train.steps", "64 bits"], *train, "train.steps=99999999999999999999")
    shell.mistake(1, ["remo", "remoe"], *train, "model.router.method=remo")
    shell.mistake(1, ["topk", "not in use"], *train, "model.router.topk.softmax=after")
    shell.mistake(1, ["no-such-corpus"], *train, "data.corpus=no-such-corpus")
    shell.mistake(1, ["run", "--resume"], "train", "recipe.toml", "--out", "run", "--quiet")
    shell.mistake(1, ["another recipe", "lr"], "train", "recipe.toml", "--out", "run", "--resume", "--set",
                  "train.lr=0.5")
    shell.mistake(1, ["bad.txt", "UTF-8"], "data", "prepare", "bad.txt", "--out", "bad")
    shell.mistake(1, ["holds more than a corpus"], "data", "prepare", "text.txt", "--out", "mixed")
    shell.mistake(1, ["missing"], "eval", "missing", "--data", "corpus")
    shell.mistake(2, ["--data"], "eval", "run")
    shell.mistake(2, ["'info' is no command"], "data", "info", "--help")
    shell.mistake(2, ["'trian' is no command"], "trian", "--help")
    evaluate = ("eval", "run", "--data", "corpus")
    shell.mistake(2, ["--max-tokens: must be 0 or more, not -1"], *evaluate, "--max-tokens", "-1")
    shell.mistake(2, ["--max-tokens: must be", "or less"], *evaluate, "--max-tokens", "99999999999999999999")
    shell.mistake(2, ["--threads: must be 4096 or less"], *evaluate, "--threads", "100000000000")
    shell.mistake(2, ["--threads: must be 0 or more"], "bench", "machine", "--threads", "-2")
    shell.mistake(1, ["train.steps: 6 -> 7", "finished run cannot be extended"], "train", "recipe.toml", "--out",
                  "run", "--resume", "--set", "train.steps=7", "--set", "train.warmup_steps=1")
    path = os.path.join(shell.directory, "run/checkpoints/step-6/model.safetensors")
    with open(path, "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\x01\x02\x03\x04")
    shell.mistake(1, ["model.safetensors"], "eval", "run/checkpoints/step-6", "--data", "corpus")


def check_interrupted_preparation(shell):
    """While a tokenizer trains for longer than a person waits."""
    with open(os.path.join(shell.directory, "long.txt"), "w") as file:
        for number in range(400000):
            file.write(f"{number * 7919 % 104729} turbine {number} gate\n")
    for number in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen([shell.program, "data", "prepare", "long.txt", "--tokenizer", "unigram:8000", "--out",
                                    "interrupted"], cwd=shell.directory, stderr=subprocess.PIPE, text=True)
        process.stderr.readline()  # "reading long.txt": the handler stands
        process.send_signal(number)
        rest = process.communicate(timeout=120)[1]
        shell.expect("interrupted preparation", process.returncode == 130 and
                     rest.endswith("\ninterrupted; nothing was written\n"), f"{process.returncode} {rest!r}")
    left = [name for name in os.listdir(shell.directory) if "interrupted" in name]
    shell.expect("interrupted preparation", left == [], left)


def main():
    program, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    with tempfile.TemporaryDirectory() as directory:
        shell = Shell(program, directory)
        with open(os.path.join(directory, "text.txt"), "w") as file:
            file.write("the gate decides how much water each turbine gets\n" * 200)
        with open(os.path.join(directory, "bad.txt"), "wb") as file:
            file.write(b"good\xff\xfebad")
        with open(os.path.join(directory, "recipe.toml"), "w") as file:
            file.write(RECIPE)
        with open(os.path.join(directory, "study.toml"), "w") as file:
            file.write(STUDY)
        for out in ("corpus", "mixed"):
            shell.ok("data", "prepare", "text.txt", "--out", out)
        open(os.path.join(directory, "mixed/notes"), "w").close()
        check_outputs(shell, source)
        check_causality(shell)
        check_eval_by_k(shell)
        check_study_figures(shell)
        check_scaled_study(shell)
        check_full_output(shell)
        check_nan_weights(shell)

        check_plot(shell, source)
        check_interrupted_preparation(shell)
        check_mistakes(shell)
        print("passed" if shell.failures == 0 else f"{shell.failures} failures")
        return shell.failures > 0


if __name__ == "__main__":
    sys.exit(main())
